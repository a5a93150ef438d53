/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of this process, and of others by /proc: whether it is the one that the sampler was set up in
 * and how many forks led to it; how many seccomp filters it has put over itself (seccomp.h); and lines of its
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

/*
 * By a raw system call and not the C library's read(): a thread sanitizer of the host sees that read() write into
 * memory, but does not see the atomic operations in our object that order the accesses.
 */
bool sp_proc_open(struct sp_proc_lines *l, const char *path, size_t most)
{
	l->fd = (int)sp_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	l->left = most;
	l->have = l->at = 0;
	l->is_cut = false;
	return l->fd >= 0;
}

const char *sp_proc_next(struct sp_proc_lines *l)
{
	for (;;) {
		char *line = l->text + l->at;
		char *end = memchr(line, '\n', l->have - l->at);
		bool is_rest = l->is_cut;
		size_t room;
		long got;

		if (end != NULL) {
			*end = '\0';
			l->at = (size_t)(end + 1 - l->text);
			l->is_cut = false;
			if (!is_rest)
				return line;
			continue;
		}
		l->have -= l->at;
		memmove(l->text, line, l->have);
		l->at = 0;
		if (l->have == sizeof(l->text)) {
			l->have = 0;
			l->is_cut = true;
		}
		room = sizeof(l->text) - l->have;
		got = sp_syscall(SYS_read, l->fd, l->text + l->have,
				 room < l->left ? room : l->left);
		if (got <= 0)
			return NULL;
		l->have += (size_t)got;
		l->left -= (size_t)got;
	}
}

void sp_proc_close(const struct sp_proc_lines *l)
{
	(void)sp_syscall(SYS_close, l->fd);
}

int sp_proc_line(const char *path, const char *start, char *line, size_t size)
{
	struct sp_proc_lines l;
	const char *found;

	if (!sp_proc_open(&l, path, SIZE_MAX))
		return -1;
	while ((found = sp_proc_next(&l)) != NULL && strncmp(found, start, strlen(start)) != 0)
		;
	if (found != NULL)
		(void)sp_fmt_snprintf(line, size, "%s", found);
	sp_proc_close(&l);
	return found != NULL;
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
