/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells of a thread: its clocks, and the system call that it waits in. Texts of the kernel, parsed. */
#ifndef SP_TASK_H
#define SP_TASK_H

#include <stdbool.h>
#include <stdint.h>

/* More than these files are, or than of one of them matters. */
#define SP_TASK_TEXT 256U
#define SP_TASK_ARGS 6U

struct sp_task_times {
	uint64_t cpu_ns;   /* on a processor */
	uint64_t delay_ns; /* runnable, and waiting for one; counted when it gets one */
	uint64_t slices;   /* how often it has got one */
};

enum sp_task_state {
	SP_TASK_RUNS,      /* or could, and waits for a processor */
	SP_TASK_CALLS,     /* blocked in a system call */
	SP_TASK_IN_KERNEL, /* blocked in the kernel without one: a page fault, as a rule */
	SP_TASK_HIDDEN,    /* blocked, and we may not see in what */
};

/* Compared as bytes: no padding. */
struct sp_task_place {
	uint64_t state;  /* enum sp_task_state; nothing else is set if it runs, or is hidden */
	uint64_t number; /* of the system call */
	uint64_t arg[SP_TASK_ARGS];
	uint64_t sp;
	uint64_t pc;
};

/* /proc/PID/task/TID/schedstat. False if it is none. */
bool sp_task_times_parse(const char *text, struct sp_task_times *out);

/* /proc/PID/task/TID/syscall. False if it is none. */
bool sp_task_place_parse(const char *text, struct sp_task_place *out);

/* /proc/PID/task/TID/stat, which everybody may read: whether the thread runs, or is blocked. False if it is none. */
bool sp_task_state_parse(const char *text, struct sp_task_place *out);

/* The file of a thread's clocks. It stays open as long as there are few, as opening takes longer than reading. */
struct sp_task_file {
	int file; /* descriptor + 1; 0 = not open */
};

/* False if the thread has ended. */
bool sp_task_times_read(struct sp_task_file *f, const char *proc, uint32_t tid,
			struct sp_task_times *out);
void sp_task_file_close(struct sp_task_file *f);

/* 0, -ESRCH: the thread has ended. */
int sp_task_state_read(const char *proc, uint32_t tid, struct sp_task_place *out);

#endif
