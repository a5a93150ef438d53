/* SPDX-License-Identifier: Apache-2.0 */
/* Where one thread was found waiting: its stack there, and the name of what it waits in. */
#ifndef SP_THREAD_WAIT_H
#define SP_THREAD_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/off_cpu/descriptor.h"
#include "export/off_cpu/off_cpu.h"
#include "export/off_cpu/task.h"
#include "export/off_cpu/wait_kind.h"
#include "export/off_cpu/wait_stack.h"

/* What all threads share. */
struct sp_thread_wait_env {
	const struct sp_core_ops *ops;
	struct sp_off_cpu_hooks hooks;
	struct sp_wait_stacks *stacks;
	uint64_t allowed_at_ns; /* sp_thread_wait_allow() */
	int64_t walk_ns;        /* so long stacks may be walked */
	struct sp_sockets sockets;
};

/* Where a thread was found waiting when it was last looked at. Zero at first. */
struct sp_thread_wait {
	bool is_known;
	bool is_refused; /* we may not look: there is no place, and no stack */
	struct sp_task_place place;
	uint32_t looks; /* that found it still there */
	uint32_t epoch;
	uint16_t depth;
	uint16_t flags;
	uint64_t *pc;
	size_t pc_cap;
	struct sp_wait_leaf leaf;
};

enum sp_sight { SP_SAW_NOTHING, SP_SAW_RUNNING, SP_SAW_WAITING, SP_SAW_REFUSAL };

/* A round begins: gives it time for stacks. */
void sp_thread_wait_allow(struct sp_thread_wait_env *e, uint64_t now_ns);

/* What that thread is doing now, and where. */
enum sp_sight sp_thread_wait_see(struct sp_thread_wait_env *e, uint32_t tid,
				 struct sp_task_place *place);

/*
 * Takes down the wait that it was seen in, or the refusal. The wait is not known if the thread has gone on
 * meanwhile, or if no time is left to walk its stack.
 */
void sp_thread_wait_enter(struct sp_thread_wait_env *e, struct sp_thread_wait *w, uint32_t tid,
			  enum sp_sight sight, const struct sp_task_place *place);

/* Frees what it holds. */
void sp_thread_wait_forget(struct sp_thread_wait *w);

#endif
