/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads where a thread of the host waits, and its stack. The kernel shows the system call, sp and pc of a thread that
 * is blocked. The stack does not change while the thread is blocked. So the exporter copies the stack, and the copy
 * counts if the kernel shows the same place afterwards. The thread gets no signal and notices nothing.
 *
 * This requires the right to trace the host. sp_wait_stacks_refusal() says why the exporter has not got it.
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

/* The file that shows Yama's setting. */
extern const char *sp_wait_stacks_yama;

/* NULL when out of memory. ops and unwinder must outlive the result. */
struct sp_wait_stacks *sp_wait_stacks_new(const struct sp_core_ops *ops,
					  struct sp_unwinder *unwinder);
void sp_wait_stacks_free(struct sp_wait_stacks *w);

/* Where the thread is now. 0, or -ESRCH: the thread has ended; other negative errno: we may not know. */
int sp_wait_stacks_place(struct sp_wait_stacks *w, uint32_t tid, struct sp_task_place *out);

/*
 * Walks the stack of a thread that was found blocked at that place. 0 with the walk in *s, which has at least one
 * frame; -EAGAIN: the thread has gone on meanwhile; other negative errno: we may not read the stack.
 */
int sp_wait_stacks_walk(struct sp_wait_stacks *w, uint32_t tid, const struct sp_task_place *place,
			struct sp_sample *s);

/* Memory of the host, as it is at this moment. False unless all bytes could be read. */
bool sp_wait_stacks_read(uint32_t tid, uint64_t at, void *out, size_t bytes);

/* Why stacks are missing, in a few words; NULL = no attempt has been refused since the last success. */
const char *sp_wait_stacks_refusal(const struct sp_wait_stacks *w);

/* False shortly after a refusal: it is too early for another attempt. */
bool sp_wait_stacks_may_try(const struct sp_wait_stacks *w);

#endif
