/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread of the host waits, and its stack. The kernel shows the system call, sp and pc of a thread that
 * is blocked, and as long as it is the stack does not change; so it is copied, and counts if the kernel shows
 * the same afterwards. The thread gets no signal and notices nothing.
 *
 * That takes the right to trace the host. Where we have not got it, this says why.
 */
#ifndef SP_WAIT_STACK_H
#define SP_WAIT_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/objects/unwind_snapshot.h"
#include "export/off_cpu/task.h"

struct sp_wait_stacks;

/* The file in which Yama tells what it allows. */
extern const char *sp_wait_stacks_yama;

/* NULL when out of memory. What is passed must outlive it. */
struct sp_wait_stacks *sp_wait_stacks_new(const struct sp_core_ops *ops,
					  struct sp_unwinder *unwinder);
void sp_wait_stacks_free(struct sp_wait_stacks *w);

/* Where the thread is now. 0, -ESRCH: it has ended; other negative errno: we may not know. */
int sp_wait_stacks_place(struct sp_wait_stacks *w, uint32_t tid, struct sp_task_place *out);

/*
 * The stack of a thread that was found blocked at that place. 0 with the walk in *s, which has at least one
 * frame; -EAGAIN: it has gone on meanwhile; other negative errno: we may not read it.
 */
int sp_wait_stacks_walk(struct sp_wait_stacks *w, uint32_t tid, const struct sp_task_place *place,
			struct sp_sample *s);

/* Memory of the host, as it is at this moment. False unless all bytes could be read. */
bool sp_wait_stacks_read(uint32_t tid, uint64_t at, void *out, size_t bytes);

/* Why stacks are missing, in a few words; NULL = nothing has been refused since the last success. */
const char *sp_wait_stacks_refusal(const struct sp_wait_stacks *w);

/* False while nothing needs to be tried, because it was refused a moment ago. */
bool sp_wait_stacks_may_try(const struct sp_wait_stacks *w);

#endif
