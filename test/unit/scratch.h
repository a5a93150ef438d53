/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for the files of a test. One at a time, because Criterion runs each test in its own process. */
#ifndef TEST_SCRATCH_H
#define TEST_SCRATCH_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char scratch[64];

static inline void scratch_make(void)
{
	cr_assert_not_null(mkdtemp(strcpy(scratch, "/tmp/spanprof-test-XXXXXX")));
}

static inline void scratch_remove(void)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
	cr_assert_eq(system(command), 0);
}

/* The path of that file in the folder. Several results are valid at a time. */
static inline const char *in_scratch(const char *name)
{
	static char path[32][256];
	static unsigned turn;
	char *p = path[turn++ % 32];

	(void)snprintf(p, sizeof(path[0]), "%s/%s", scratch, name);
	return p;
}

/* Returns the path. */
static inline const char *scratch_write(const char *name, const void *data, size_t len)
{
	const char *path = in_scratch(name);
	FILE *f = fopen(path, "we");

	cr_assert_not_null(f);
	cr_assert_eq(fwrite(data, 1, len, f), len);
	cr_assert_eq(fclose(f), 0);
	return path;
}

#endif
