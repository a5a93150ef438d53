/* SPDX-License-Identifier: Apache-2.0 */
/* Reading signal masks. Contexts: APP; the masks of others are read in /proc. */
#include "sampler/mask.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/fmt.h"
#include "sampler/masking_call.h"
#include "sampler/seccomp.h"
#include "sampler/signals.h"
#include "sampler/text.h"

static uint64_t own_mask(void)
{
	uint64_t mask = 0;

	(void)sp_syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask;
}

#define BLOCKED "\nSigBlk:" /* fs/proc/array.c, task_sig */
#define BLOCKED_LINE 64U    /* that, 16 digits and what is between and behind */

/* The hexadecimal number at the end of the line. */
static uint64_t parse_blocked(const char *line)
{
	const char *at = line + strlen(BLOCKED);
	uint64_t mask;

	at += strspn(at, " \t");
	(void)sp_text_number(&at, 16, &mask);
	return mask;
}

/* A file of thread tid below /proc. */
static int open_task_file(uint32_t tid, const char *name)
{
	char path[48];

	(void)sp_fmt_snprintf(path, sizeof(path), "/proc/self/task/%u/%s", tid, name);
	return (int)sp_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/*
 * The mask in a thread's status, all ones if it is not to be had. Through a window: the list of groups
 * comes before it and may be long.
 */
static uint64_t read_blocked(uint32_t tid)
{
	int fd = open_task_file(tid, "status");
	uint64_t mask = ~UINT64_C(0);
	char text[1024];
	size_t have = 0;
	ssize_t got;

	while (fd >= 0 &&
	       (got = sp_syscall(SYS_read, fd, text + have, sizeof(text) - 1 - have)) > 0) {
		const char *line;

		have += (size_t)got;
		text[have] = '\0';
		line = strstr(text, BLOCKED);
		if (line != NULL && strchr(line + 1, '\n') != NULL) {
			mask = parse_blocked(line);
			break;
		}
		if (have > BLOCKED_LINE) {
			memmove(text, text + have - BLOCKED_LINE, BLOCKED_LINE);
			have = BLOCKED_LINE;
		}
	}
	if (fd >= 0)
		(void)sp_syscall(SYS_close, fd);
	return mask;
}

/*
 * What the kernel shows as the thread's mask is that of the call it waits in. "running" is also what
 * a thread says that was woken in such a call and has not got a processor yet (task_current_syscall(),
 * linux 6.1), which on a busy machine takes a while.
 */
static bool waits_with_other_mask(uint32_t tid, bool if_running)
{
	int fd = open_task_file(tid, "syscall");
	ssize_t got = -1;
	char line[256];

	if (fd >= 0) {
		got = sp_syscall(SYS_read, fd, line, sizeof(line) - 1);
		(void)sp_syscall(SYS_close, fd);
	}
	line[got > 0 ? got : 0] = '\0';
	if (line[0] == 'r')
		return if_running;
	return sp_masking_call(line);
}

static uint64_t mask_of(uint32_t tid, bool blocked_before)
{
	uint64_t mask;

	/* before and after: it may have been on its way into or out of such a call */
	if (waits_with_other_mask(tid, blocked_before))
		return ~UINT64_C(0);
	mask = read_blocked(tid);
	return waits_with_other_mask(tid, blocked_before) ? ~UINT64_C(0) : mask;
}

bool sp_mask_blocks(uint32_t tid, bool blocked_before)
{
	int saved = errno;
	int signo = sp_signals_number();
	uint64_t mask;

	if ((uint32_t)sp_syscall(SYS_gettid) == tid) {
		mask = own_mask();
	} else {
		/* On a busy machine a whole wait may begin and end between the looks of one of these. */
		mask = mask_of(tid, blocked_before);
		mask |= mask_of(tid, blocked_before);
	}
	errno = saved;
	return signo > 0 && (mask >> (signo - 1) & 1) != 0;
}
