/* SPDX-License-Identifier: Apache-2.0 */
/* Catches what a call writes to descriptor 2, for the tests of messages. One test at a time uses it. */
#ifndef SP_TEST_STDERR_PIPE_H
#define SP_TEST_STDERR_PIPE_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sampler/base/log.h"

static char stderr_text[1 << 16];
static int stderr_read_end;
static int stderr_kept;

static inline void stderr_begin(void)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	stderr_kept = dup(STDERR_FILENO);
	cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
	close(ends[1]);
	stderr_read_end = ends[0];
	cr_assert_eq(fcntl(stderr_read_end, F_SETFL, O_NONBLOCK), 0);
	sp_log_begin();
}

/* Restores descriptor 2. stderr_text has what was written. Returns the number of lines. */
static inline unsigned stderr_end(void)
{
	size_t len = 0;
	unsigned lines = 0;
	ssize_t n;

	cr_assert_geq(dup2(stderr_kept, STDERR_FILENO), 0);
	close(stderr_kept);
	while ((n = read(stderr_read_end, stderr_text + len, sizeof(stderr_text) - 1 - len)) > 0)
		len += (size_t)n;
	close(stderr_read_end);
	stderr_text[len] = '\0';
	for (size_t i = 0; i < len; i++)
		lines += stderr_text[i] == '\n';
	cr_assert(len == 0 || stderr_text[len - 1] == '\n', "a line without its end");
	return lines;
}

static inline int stderr_has(const char *part)
{
	return strstr(stderr_text, part) != NULL;
}

#endif
