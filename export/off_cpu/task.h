/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells of a thread: its clocks, and the system call that it waits in. Texts of the kernel, parsed. */
#ifndef SP_TASK_H
#define SP_TASK_H

#include <stdbool.h>
#include <stdint.h>

/* More than either file ever is. */
#define SP_TASK_TEXT 256U
#define SP_TASK_ARGS 6U

struct sp_task_times {
	uint64_t cpu_ns;   /* on a processor */
	uint64_t delay_ns; /* runnable, and waiting for one; counted when it gets one */
};

enum sp_task_state {
	SP_TASK_RUNS,      /* or could, and waits for a processor */
	SP_TASK_CALLS,     /* blocked in a system call */
	SP_TASK_IN_KERNEL, /* blocked in the kernel without one: a page fault, as a rule */
};

/* Compared as bytes: no padding. */
struct sp_task_place {
	uint64_t state;  /* enum sp_task_state; nothing else is set if it runs */
	uint64_t number; /* of the system call */
	uint64_t arg[SP_TASK_ARGS];
	uint64_t sp;
	uint64_t pc;
};

/* /proc/PID/task/TID/schedstat. False if it is none. */
bool sp_task_times_parse(const char *text, struct sp_task_times *out);

/* /proc/PID/task/TID/syscall. False if it is none. */
bool sp_task_place_parse(const char *text, struct sp_task_place *out);

#endif
