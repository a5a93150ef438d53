/* SPDX-License-Identifier: Apache-2.0 */
/* The waits of one thread: its account of time not on a processor, by label and by what it waited in. */
#ifndef SP_THREAD_WAITS_H
#define SP_THREAD_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/off_cpu/task.h"
#include "export/off_cpu/thread_times.h"
#include "export/off_cpu/thread_wait.h"

struct sp_thread_waits_env {
	struct sp_thread_wait_env wait;
	uint64_t put_ns;
};

/* Zero at first. */
struct sp_thread_waits {
	uint32_t tid;    /* 0 = none */
	uint32_t n;      /* labels it had when it was last looked at */
	bool is_gone;    /* that thread has ended, though its labels do not say so */
	bool has_clocks; /* these are: */
	bool has_label;  /* the last one was active then: this is it */
	struct sp_thread_label label;
	uint64_t last_ns;
	struct sp_task_times times;
	int64_t lead_ns;  /* by which the time put down is ahead of the clocks, which lag */
	int64_t delay_ns; /* waited for a processor and not yet put down */
	bool is_starved;  /* it could run, and did not, when it was last looked at */
	uint64_t left_ns; /* blocked under that label, and not yet put to a stack */
	struct sp_thread_times file;
	struct sp_thread_wait wait;
	struct sp_thread_waited waited; /* what the thread is told of its part of a root */
	uint64_t label_id; /* the span id of the label that it has now, while it is looked at; */
	bool has_wait;     /* and whether a wait with that id was put down at this look */
};

/* Looks at the thread of that place. Whether that took more than a look at its labels. */
bool sp_thread_waits_look(struct sp_thread_waits_env *e, struct sp_thread_waits *t,
			  struct sp_thread_labels *labels);

/* Frees what it holds. */
void sp_thread_waits_forget(struct sp_thread_waits *t);

#endif
