/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about this process: whether the sampler was set up in it, how many forks led to it, and how
 * many seccomp filters it has installed (seccomp.h). Also facts about other processes, from files
 * in /proc. Contexts: any; the facts are set in APP and INIT.
 */
#include "sampler/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
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

struct sp_process_page sp_process_page;
_Atomic bool sp_process_page_works;

void sp_process_set(void)
{
	int saved = errno;

	owner = (pid_t)sp_syscall(SYS_getpid);
	/* A forked child inherits the advice. */
	if (!atomic_load_explicit(&sp_process_page_works, memory_order_relaxed) &&
	    sp_syscall(SYS_madvise, &sp_process_page, sizeof(sp_process_page),
		       (long)MADV_WIPEONFORK) == 0)
		atomic_store_explicit(&sp_process_page_works, true, memory_order_relaxed);
	sp_process_meet();
	errno = saved;
}

void sp_process_forked(void)
{
	atomic_fetch_add_explicit(&sp_process_forks, 1, memory_order_relaxed);
	owner = (pid_t)sp_syscall(SYS_getpid);
	sp_process_meet();
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
		 * The stack grows down, so an unfinished frame has a higher address than `here`;
		 * but if the thread is on an alternate stack, the interrupted frame may be
		 * anywhere.
		 */
		left = frame != 0 && here >= frame &&
		       sp_syscall(SYS_sigaltstack, NULL, &stack) == 0 &&
		       (stack.ss_flags & SS_ONSTACK) == 0;
	errno = saved;
	return left;
}

/*
 * A raw system call instead of the C library's read(): a thread sanitizer in the host sees that
 * read() writes into memory, but not the atomic operations of our object that order the accesses.
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

/*
 * kernel.overflowuid, which nobody changes: the number that stands for users without a number here.
 */
#define OVERFLOW_USER 65534U

/* A line has the first number inside, the first number outside, and the count of numbers. */
static bool maps(const char *line, uint64_t user)
{
	uint64_t number[3] = {0};

	for (size_t i = 0; i < 3; i++) {
		line += strspn(line, " ");
		for (; *line >= '0' && *line <= '9'; line++)
			number[i] = number[i] * 10 + (uint64_t)(*line - '0');
	}
	return user >= number[0] && user - number[0] < number[2];
}

bool sp_process_is_outsider(uint32_t user, bool without_proc)
{
	struct sp_proc_lines l;
	const char *line;

	if (user != OVERFLOW_USER)
		return false;
	if (!sp_proc_open(&l, "/proc/self/uid_map", SIZE_MAX))
		return without_proc;
	while ((line = sp_proc_next(&l)) != NULL && !maps(line, user))
		;
	sp_proc_close(&l);
	return line == NULL;
}

uint64_t sp_proc_stat(const char *text, unsigned field, char *state)
{
	/* The name, which may contain any character, ends at the last parenthesis. */
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
