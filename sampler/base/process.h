/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process this is: whether the sampler was set up in it, and how many forks led to it. A child
 * of vfork runs in our memory, but has none of our timers and threads: what it does must not be
 * taken for something that the process does. And what files in /proc say of a process (proc(5)).
 */
#ifndef SP_PROCESS_H
#define SP_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Since we were loaded; a process and those that it was forked from all have another number. */
extern _Atomic uint32_t sp_process_forks;

/* APP, when the sampler is set up. */
void sp_process_set(void);

/* INIT, in a forked child, before anything else of us: it is a process of its own. */
void sp_process_forked(void);

/* Any context. True in the process that was set up, or forked off and set up again. */
bool sp_process_is_ours(void);

/* APP. The calling thread's id; asked of the kernel once. In a child of vfork it is the parent's. */
uint32_t sp_process_own_tid(void);

/* APP. Whether this process has no thread of that number. errno preserved. */
bool sp_process_thread_is_gone(uint32_t tid);

/*
 * APP. Whether a function of ours in that frame of thread tid, which did not return, will never go on:
 * the thread is gone, or it is the calling one (is_own) and its stack has been unwound to `here` since.
 * False where that cannot be told. errno preserved.
 */
bool sp_process_has_left(uint32_t tid, bool is_own, uintptr_t frame, uintptr_t here);

/* Enough for a line of numbers. */
#define SP_PROC_STATUS_LINE 64U

/*
 * APP. The lines in the first `most` bytes of a file, each without its newline, until NULL; one of more than 1,024 bytes,
 * such as the list of a user's groups, is passed over. Raw system calls alone, those by which a loader reads a library; errno is not
 * preserved. False if the file cannot be read.
 */
struct sp_proc_lines {
	int fd;
	size_t left; /* bytes that may still be read */
	size_t have; /* bytes of text */
	size_t at;   /* the next line */
	bool is_cut; /* what comes next is the rest of a line that is too long */
	char text[1024];
};
bool sp_proc_open(struct sp_proc_lines *l, const char *path, size_t most);
const char *sp_proc_next(struct sp_proc_lines *l);
void sp_proc_close(const struct sp_proc_lines *l);

/* Copies the first line that begins so, as far as it has room. 1, 0 if there is none, or -1 if the file cannot be read. */
int sp_proc_line(const char *path, const char *start, char *line, size_t size);

/*
 * Fields of a stat file, counted from 1. The start of a process, in ticks since boot, names it for good together
 * with its number. The beginning of its stack is 0 to whom may not read its memory, and else another address in each
 * program that it executes.
 */
#define SP_STAT_START 22U
#define SP_STAT_STACK 28U

/*
 * Any context. The state of a process and one of those fields, from the text of its stat file. 0 = unknown, and the
 * state is '?' if it cannot be read either.
 */
uint64_t sp_proc_stat(const char *text, unsigned field, char *state);

#endif
