/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about this process: whether the sampler was set up in it, and how many forks led to it. A
 * child of vfork() runs in the memory of this process, but has none of its timers and threads, so
 * calls of the child must not be taken for calls of the process. The last functions here read facts
 * about any process from files in /proc (proc(5)).
 *
 * A program may fork by a raw system call, by _Fork(), or by clone() without CLONE_VM. Then no
 * handler of pthread_atfork() runs, and the child would write its spans into its parent's region.
 * So one page says that the process is known. The kernel clears this page in each child that does
 * not share the memory of its parent (MADV_WIPEONFORK, Linux 4.14), and each hook reads the page
 * first. If the kernel refuses the advice, such a child is not noticed.
 */
#ifndef SP_PROCESS_H
#define SP_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * The number of forks since we were loaded; a process and its forked ancestors all have different
 * numbers.
 */
extern _Atomic uint32_t sp_process_forks;

/* The largest page of the processor. */
#if defined(__aarch64__)
#define SP_PROCESS_PAGE 65536U
#else
#define SP_PROCESS_PAGE 4096U
#endif
struct sp_process_page {
	_Alignas(SP_PROCESS_PAGE) _Atomic uint32_t is_known;
};
_Static_assert(sizeof(struct sp_process_page) == SP_PROCESS_PAGE, "nothing else lies there");
SP_HIDDEN struct sp_process_page sp_process_page;
SP_HIDDEN _Atomic bool sp_process_page_works;

/* APP, at the entry of a hook. Whether this is a child whose fork no handler saw. */
static inline __attribute__((always_inline)) bool sp_process_is_new(void)
{
	return __builtin_expect(
		       atomic_load_explicit(&sp_process_page.is_known, memory_order_relaxed) == 0,
		       0) &&
	       atomic_load_explicit(&sp_process_page_works, memory_order_relaxed);
}

/* APP and INIT. Marks this process as known. */
static inline void sp_process_meet(void)
{
	if (atomic_load_explicit(&sp_process_page_works, memory_order_relaxed))
		atomic_store_explicit(&sp_process_page.is_known, 1, memory_order_relaxed);
}

/* APP, when the sampler is set up. */
void sp_process_set(void);

/* INIT, in a forked child, before any other function of ours: the child is another process. */
void sp_process_forked(void);

/*
 * Any context. True in the process in which the sampler was set up, and in a forked child in which
 * it was set up again.
 */
bool sp_process_is_ours(void);

/*
 * APP. The calling thread's id; the kernel is asked once. In a child of vfork() it is the parent's.
 */
uint32_t sp_process_own_tid(void);

/* APP. Whether this process has no thread of that number. errno preserved. */
bool sp_process_thread_is_gone(uint32_t tid);

/*
 * APP. Whether a function of ours in that frame of thread tid will never return: the thread is
 * gone, or it is the calling thread (is_own) and its stack has been unwound to `here` since. False
 * if that is unknown. errno preserved.
 */
bool sp_process_has_left(uint32_t tid, bool is_own, uintptr_t frame, uintptr_t here);

/* Enough bytes for a line of a status file that has only numbers. */
#define SP_PROC_STATUS_LINE 64U

/*
 * APP. The lines in the first `most` bytes of a file, each without its newline, until NULL. A line
 * of more than 1,024 bytes, such as the list of a user's groups, is skipped. The functions make
 * only raw system calls that a loader also makes to read a library; errno is not preserved. False
 * if the file cannot be read.
 */
struct sp_proc_lines {
	int fd;
	size_t left; /* bytes that may still be read */
	size_t have; /* bytes in text */
	size_t at;   /* offset of the next line */
	bool is_cut; /* text begins in the middle of a line that is too long */
	char text[1024];
};
bool sp_proc_open(struct sp_proc_lines *l, const char *path, size_t most);
const char *sp_proc_next(struct sp_proc_lines *l);
void sp_proc_close(const struct sp_proc_lines *l);

/*
 * Copies the first line that begins with start, as far as there is room. Returns 1; 0 = no such
 * line; -1 = the file cannot be read.
 */
int sp_proc_line(const char *path, const char *start, char *line, size_t size);

/*
 * APP, INIT. Whether the owner of a file is a user outside of this user namespace, who has no
 * number in it. Such a user owns the files that are mounted into a container, and no process in the
 * container can become that user. If /proc cannot be read, the answer is without_proc. errno is not
 * preserved.
 */
bool sp_process_is_outsider(uint32_t user, bool without_proc);

/*
 * Fields of a stat file, counted from 1. The start of a process, in ticks since boot, identifies it
 * together with its number. The address where its stack begins is 0 for users that may not read its
 * memory; else it differs between the programs that the process executes.
 */
#define SP_STAT_PARENT 4U
#define SP_STAT_USER 14U
#define SP_STAT_SYSTEM 15U
/* Times of children that ended and were waited for, and of their children. */
#define SP_STAT_WAITED_USER 16U
#define SP_STAT_WAITED_SYSTEM 17U
#define SP_STAT_START 22U
#define SP_STAT_STACK 28U

/*
 * Any context. The state of a process and one of those fields, from the text of its stat file.
 * Returns 0 if the field is unknown; the state is '?' if it is unknown, too.
 */
uint64_t sp_proc_stat(const char *text, unsigned field, char *state);

#endif
