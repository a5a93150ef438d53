/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what /proc says of a thread: its clocks, and the system call in which it waits. Parses the kernel's text. */
#ifndef SP_TASK_H
#define SP_TASK_H

#include <stdbool.h>
#include <stdint.h>

/* More than the used part of any of these files. */
#define SP_TASK_TEXT 256U
#define SP_TASK_ARGS 6U

struct sp_task_times {
	uint64_t cpu_ns; /* on a processor */
	/* runnable, and waiting for a processor; the kernel adds it when the thread gets one */
	uint64_t delay_ns;
	uint64_t slices; /* how often the thread has got a processor */
};

enum sp_task_state {
	SP_TASK_RUNS,  /* on a processor, or waiting for one */
	SP_TASK_CALLS, /* blocked in a system call */
	/* blocked in the kernel outside of a system call, as a rule in a page fault */
	SP_TASK_IN_KERNEL,
	SP_TASK_HIDDEN, /* blocked, but we may not see where */
};

/* Compared as bytes, so there is no padding. */
struct sp_task_place {
	uint64_t state;  /* enum sp_task_state; if it is RUNS or HIDDEN, the other fields are 0 */
	uint64_t number; /* of the system call */
	uint64_t arg[SP_TASK_ARGS];
	uint64_t sp;
	uint64_t pc;
};

/* /proc/PID/task/TID/schedstat. False if the text is no such file. */
bool sp_task_times_parse(const char *text, struct sp_task_times *out);

/* /proc/PID/task/TID/syscall. False if the text is no such file. */
bool sp_task_place_parse(const char *text, struct sp_task_place *out);

/*
 * /proc/PID/task/TID/stat, which every user may read: whether the thread runs, or is blocked. False if the text is no
 * such file.
 */
bool sp_task_state_parse(const char *text, struct sp_task_place *out);

/* The file of a thread's clocks. It stays open while few are open, because opening takes longer than reading. */
struct sp_task_file {
	int file; /* descriptor + 1; 0 = not open */
};

/* False if the thread has ended. */
bool sp_task_times_read(struct sp_task_file *f, const char *proc, uint32_t tid,
			struct sp_task_times *out);
void sp_task_file_close(struct sp_task_file *f);

/* 0, or -ESRCH: the thread has ended. */
int sp_task_state_read(const char *proc, uint32_t tid, struct sp_task_place *out);

#endif
