/* SPDX-License-Identifier: Apache-2.0 */
/* Reads points in time and compares profiles with them (time_window.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/time_window.h"

#include <stdlib.h>
#include <string.h>

#include "sampler/base/compiler.h"

static uint64_t unit_s(char c)
{
	switch (c) {
	case 's':
		return 1;
	case 'm':
		return 60;
	case 'h':
		return 3600;
	case 'd':
		return 86400;
	default:
		return 0;
	}
}

/* "-15m" */
static bool read_ago(const char *text, time_t now, uint64_t *ns)
{
	char *end;
	unsigned long n;
	uint64_t s;

	if (text[0] != '-' || text[1] < '0' || text[1] > '9')
		return false;
	n = strtoul(text + 1, &end, 10);
	s = unit_s(*end);
	if (s == 0 || end[1] != '\0' || n > (uint64_t)now / s)
		return false;
	*ns = ((uint64_t)now - n * s) * SP_NS_PER_S;
	return true;
}

static bool read_clock(const char *text, time_t now, uint64_t *ns)
{
	static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					      "%Y-%m-%dT%H:%M",    "%Y-%m-%d %H:%M",
					      "%H:%M:%S",          "%H:%M"};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm tm;
		const char *rest;
		bool utc;
		time_t t;

		/* A time alone is one of today. */
		if (localtime_r(&now, &tm) == NULL)
			return false;
		tm.tm_sec = 0;
		tm.tm_isdst = -1;
		rest = strptime(text, formats[i], &tm);
		utc = rest != NULL && strcmp(rest, "Z") == 0;
		if (rest == NULL || (rest[0] != '\0' && !utc))
			continue;
		t = utc ? timegm(&tm) : mktime(&tm);
		if (t <= 0)
			return false;
		*ns = (uint64_t)t * SP_NS_PER_S;
		return true;
	}
	return false;
}

bool sp_time_point_read(const char *text, time_t now, uint64_t *ns)
{
	return read_ago(text, now, ns) || read_clock(text, now, ns);
}

bool sp_time_window_has(const struct sp_time_window *w, uint64_t time_ns, uint64_t duration_ns)
{
	uint64_t middle = time_ns + duration_ns / 2;

	if (!sp_time_window_is_set(w))
		return true;
	return time_ns != 0 && middle >= w->from_ns && (w->to_ns == 0 || middle < w->to_ns);
}
