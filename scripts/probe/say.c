/* SPDX-License-Identifier: Apache-2.0 */
/* One fact, one line. Runs in spanprof-probe only. Callers: main.c, push.c, status.c. */
#include <stdbool.h>
#include <stdio.h>

#include "scripts/probe/probe.h"

/* Keys of a status file are whoever's as much as its values are. Terminals obey the control
 * characters of ASCII, and those of Latin-1 (U+0080 to U+009F). */
static void put_clean(const char *s, char blank)
{
	for (; *s != '\0'; s++) {
		bool high =
			*s == '\xc2' && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xa0;

		(void)putchar((unsigned char)*s < 0x20 || *s == 0x7f || high ? blank : *s);
		s += high;
	}
}

void sp_probe_say(const char *key, const char *value)
{
	put_clean(key, '_');
	(void)putchar(' ');
	put_clean(value, ' ');
	(void)putchar('\n');
}
