/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads in which call a thread waits, from its file "syscall" in /proc. Any context, host or
 * exporter.
 */
#include "sampler/base/masking_call.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

/* Linux 5.11; headers of Debian 11 lack it. */
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

struct call {
	long number;
	unsigned mask_argument; /* counted from 1; 0 = always */
};

static const struct call calls[] = {
	{SYS_rt_sigtimedwait, 0}, {SYS_rt_sigsuspend, 0},  {SYS_ppoll, 4},
	{SYS_pselect6, 6},        {SYS_epoll_pwait, 5},    {SYS_epoll_pwait2, 5},
	{SYS_io_pgetevents, 6},   {SYS_io_uring_enter, 5},
};

/* The n-th word of "number 0xarg 0xarg ...", counted from 0, is there and is not zero. */
static bool word_is_set(const char *line, unsigned n)
{
	while (n-- > 0) {
		line = strchr(line, ' ');
		if (line == NULL)
			return false;
		line++;
	}
	return strncmp(line, "0x0 ", 4) != 0;
}

bool sp_masking_call(const char *line)
{
	const char *behind = line;
	uint64_t number;

	if (!sp_text_number(&behind, 10, &number))
		return false;
	for (size_t i = 0; i < SP_ARRAY_LEN(calls); i++)
		if ((uint64_t)calls[i].number == number)
			return calls[i].mask_argument == 0 ||
			       word_is_set(line, calls[i].mask_argument);
	return false;
}
