/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of this process, and of others by /proc: whether it is the one that the sampler was set up in
 * and how many forks led to it; how many seccomp filters it has put over itself (seccomp.h); and lines of status
 * files. Contexts: any; set in APP and INIT.
 */
#include "sampler/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"

_Atomic uint32_t sp_seccomp_filters;
_Atomic uint32_t sp_process_forks;
static pid_t owner; /* 0 = none yet */

void sp_seccomp_begin(void)
{
	/* pairs with the start of sampling (preload/lifecycle/lifecycle.c) */
	atomic_fetch_add_explicit(&sp_seccomp_filters, 1, memory_order_seq_cst);
}

void sp_seccomp_take_back(void)
{
	atomic_fetch_sub_explicit(&sp_seccomp_filters, 1, memory_order_relaxed);
}

void sp_process_set(void)
{
	owner = (pid_t)sp_syscall(SYS_getpid);
}

void sp_process_forked(void)
{
	atomic_fetch_add_explicit(&sp_process_forks, 1, memory_order_relaxed);
	sp_process_set();
}

bool sp_process_is_ours(void)
{
	long pid = sp_syscall(SYS_getpid);

	return pid > 0 && pid == owner;
}

uint32_t sp_process_own_tid(void)
{
	static SP_TLS uint32_t tid;
	static SP_TLS uint32_t forks;
	uint32_t now = atomic_load_explicit(&sp_process_forks, memory_order_relaxed) + 1;

	if (forks != now) {
		tid = (uint32_t)sp_syscall(SYS_gettid);
		forks = now;
	}
	return tid;
}

bool sp_process_thread_is_gone(uint32_t tid)
{
	int saved = errno;
	bool is_gone =
		sp_syscall(SYS_tgkill, sp_syscall(SYS_getpid), tid, 0) != 0 && errno == ESRCH;

	errno = saved;
	return is_gone;
}

bool sp_process_has_left(uint32_t tid, bool is_own, uintptr_t frame, uintptr_t here)
{
	int saved = errno;
	stack_t stack;
	bool left;

	if (!sp_process_is_ours())
		return false;
	if (!is_own)
		left = sp_process_thread_is_gone(tid);
	else
		/*
		 * The stack grows down, so a frame that is still there has the higher address, but
		 * on an alternate stack an interrupted frame may be anywhere.
		 */
		left = frame != 0 && here >= frame &&
		       sp_syscall(SYS_sigaltstack, NULL, &stack) == 0 &&
		       (stack.ss_flags & SS_ONSTACK) == 0;
	errno = saved;
	return left;
}

/* False as long as the end of the line is not there. */
static bool find(const char *text, const char *start, char *line, size_t size)
{
	const char *at = strstr(text, start);
	const char *end = at != NULL ? strchr(at + 1, '\n') : NULL;
	size_t len = end != NULL ? (size_t)(end - at) : 0;

	if (end == NULL)
		return false;
	len = len < size ? len : size - 1;
	memcpy(line, at, len);
	line[len] = '\0';
	return true;
}

/*
 * Through a buffer that keeps the line that is not yet whole: the list of a user's groups is in the middle of
 * the file and may be long, and is passed over in pieces. By a raw system call and not the C library's read():
 * a thread sanitizer of the host sees that read() write into memory, but does not see the atomic operations in
 * our object that order the accesses.
 */
int sp_proc_line(const char *path, const char *start, char *line, size_t size)
{
	int fd = (int)sp_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	char text[1024] = "\n";
	size_t have = 1;
	bool found = false;
	long got;

	if (fd < 0)
		return -1;
	while (!found &&
	       (got = sp_syscall(SYS_read, fd, text + have, sizeof(text) - 1 - have)) > 0) {
		const char *last;

		have += (size_t)got;
		text[have] = '\0';
		found = find(text, start, line, size);
		last = strrchr(text, '\n');
		if (last == NULL || (last == text && have == sizeof(text) - 1))
			last = text + have;
		have -= (size_t)(last - text);
		memmove(text, last, have);
	}
	(void)sp_syscall(SYS_close, fd);
	return found;
}

uint64_t sp_proc_stat(const char *text, unsigned field, char *state)
{
	/* The name, which may hold anything, ends at the last parenthesis. */
	const char *at = strrchr(text, ')');
	uint64_t value = 0;

	*state = '?';
	if (at == NULL || at[1] != ' ')
		return 0;
	*state = at[2];
	for (unsigned i = 2; at != NULL && i < field; i++)
		at = strchr(at + 1, ' ');
	if (at == NULL)
		return 0;
	at++;
	return sp_text_number(&at, 10, &value) ? value : 0;
}
