/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes status files, which may have any content: spanprof-report's text about them has no control character that a
 * terminal would obey.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/report/status.h"
#include "test/fuzz/fuzz.h"

#define NOW 1700000000

/* Control characters of ASCII, and of Latin-1 in UTF-8. */
static void no_controls_but_newlines(const char *s)
{
	for (; *s != '\0'; s++) {
		FUZZ_CHECK(*s == '\n' || ((unsigned char)*s >= ' ' && *s != '\x7f'));
		FUZZ_CHECK(*s != '\xc2' || (unsigned char)s[1] >= 0xa0);
	}
}

static void in_words(const char *path)
{
	char why[160] = "";
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	FUZZ_CHECK(out != NULL);
	if (sp_report_status(out, path, NOW, why) != 0)
		FUZZ_CHECK(why[0] != '\0');
	FUZZ_CHECK(fclose(out) == 0);
	no_controls_but_newlines(text);
	no_controls_but_newlines(why);
	FUZZ_CHECK(strchr(why, '\n') == NULL);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	int fd = memfd_create("status", MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	in_words(path);
	(void)close(fd);
	return 0;
}
