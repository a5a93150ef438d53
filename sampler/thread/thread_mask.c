/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a thread blocks the sampling signal. The calling thread asks the kernel; the
 * masks of other threads are read in /proc. Context: APP.
 */
#include "sampler/thread/thread_mask.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/fmt.h"
#include "sampler/base/masking_call.h"
#include "sampler/base/proc_status.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/thread/signals.h"

static uint64_t own_mask(void)
{
	uint64_t mask = 0;

	(void)sp_syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask;
}

#define TASK_PATH 48U

/* The path of a file of thread tid below /proc. */
static void name_task_file(char path[TASK_PATH], uint32_t tid, const char *name)
{
	(void)sp_fmt_snprintf(path, TASK_PATH, "/proc/self/task/%u/%s", tid, name);
}

#define BLOCKED "\nSigBlk:" /* fs/proc/array.c, task_sig */
#define PENDING "\nSigPnd:"

/* The hexadecimal number of that line of the thread's status file. False if it cannot be read. */
static bool read_set(uint32_t tid, const char *start, uint64_t *set)
{
	char path[TASK_PATH];
	char line[SP_PROC_STATUS_LINE];
	const char *at = line + strlen(start);

	name_task_file(path, tid, "status");
	if (sp_proc_status(path, start, line) <= 0)
		return false;
	at += strspn(at, " \t");
	return sp_text_number(&at, 16, set);
}

/* The mask in the thread's status file; all ones if it cannot be read. */
static uint64_t read_blocked(uint32_t tid)
{
	uint64_t mask;

	return read_set(tid, BLOCKED, &mask) ? mask : ~UINT64_C(0);
}

/*
 * Whether the thread waits in a call that replaces its mask (masking_call.h), so that the mask in
 * /proc is not its own. A thread that was woken in such a call and has not got a processor yet also
 * shows "running" (task_current_syscall() in linux 6.1), and on a busy machine that takes a while.
 */
static bool waits_with_other_mask(int syscall_file, bool if_running)
{
	ssize_t got = -1;
	char line[256];

	/* From its beginning, where the kernel writes the file anew. */
	if (syscall_file >= 0)
		got = sp_syscall(SYS_pread64, syscall_file, line, sizeof(line) - 1, 0L);
	line[got > 0 ? got : 0] = '\0';
	if (line[0] == 'r')
		return if_running;
	return sp_masking_call(line);
}

static uint64_t mask_of(uint32_t tid, int syscall_file, bool blocked_before)
{
	uint64_t mask;

	/* Before and after: the thread may have been about to enter or leave such a call. */
	if (waits_with_other_mask(syscall_file, blocked_before))
		return ~UINT64_C(0);
	mask = read_blocked(tid);
	return waits_with_other_mask(syscall_file, blocked_before) ? ~UINT64_C(0) : mask;
}

static uint64_t mask_of_other(uint32_t tid, bool blocked_before)
{
	char path[TASK_PATH];
	uint64_t mask;
	int fd;

	name_task_file(path, tid, "syscall");
	fd = (int)sp_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	/*
	 * Twice: on a busy machine a whole wait may begin and end between the steps of one of
	 * these.
	 */
	mask = mask_of(tid, fd, blocked_before);
	if (mask != ~UINT64_C(0))
		mask |= mask_of(tid, fd, blocked_before);
	if (fd >= 0)
		(void)sp_syscall(SYS_close, fd);
	return mask;
}

bool sp_thread_mask_blocks(uint32_t tid, bool blocked_before)
{
	int saved = errno;
	int signo = sp_signals_number();
	uint64_t mask;

	mask = (uint32_t)sp_syscall(SYS_gettid) == tid ? own_mask()
						       : mask_of_other(tid, blocked_before);
	errno = saved;
	return signo > 0 && (mask >> (signo - 1) & 1) != 0;
}

bool sp_thread_mask_pending(uint32_t tid, int signo)
{
	int saved = errno;
	uint64_t pending;
	bool is =
		signo > 0 && read_set(tid, PENDING, &pending) && (pending >> (signo - 1) & 1) != 0;

	errno = saved;
	return is;
}
