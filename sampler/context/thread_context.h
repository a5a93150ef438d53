/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread context of OpenTelemetry (OTEP 4947): a record per thread with the ids of its active
 * span, which profilers outside of the process, such as an eBPF profiler, read while they have
 * stopped the thread. They find it by the thread-local variable otel_thread_ctx_v1, and the meaning
 * of its attributes by the process context, of which there is one per process, and none in a forked child.
 *
 * The record is of the thread alone: nobody else writes there. A span that another thread ends
 * therefore stays in the record until the next change of its own thread. A manual label is no span,
 * so the span around it stays in the record. A span below the last frame of the stack is known by
 * its root only, and the record is invalid then.
 *
 * With SPANPROF_THREAD_CONTEXT=true we publish from the first recorded span on. A process has one
 * publisher: we do not publish if somebody else does, and withdraw if another publisher appears in a
 * thread's variable. Contexts: APP, calling thread, inside the reentrancy guard, unless it says
 * otherwise; errno preserved.
 */
#ifndef SP_THREAD_CONTEXT_H
#define SP_THREAD_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/context/foreign_context.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/region/region.h"

struct sp_config;

/*
 * Of one thread, in its block, and one line of memory there. All zero = nothing is published.
 * Written by the thread alone.
 */
struct sp_thread_context {
	_Alignas(64) struct sp_context_record record;
	uint32_t
		shown; /* sp_thread_context_turn when the thread's variable was set; 0 = it is not */
	uint64_t root_id; /* what record.root_id says */
};

/*
 * Whether a change of an active span has to be told. False where nothing is published, now or
 * later.
 */
SP_HIDDEN _Atomic bool sp_thread_context_on;

/* Incremented when threads have to look again whether they publish. Never 0 while that is on. */
SP_HIDDEN _Atomic uint32_t sp_thread_context_turn;

/*
 * At activation, before the first span. is_programs: our own references to otel_thread_ctx_v1 mean
 * the definition of another object.
 */
void sp_thread_context_init(const struct sp_config *config, bool is_programs);

/* For sp_thread_context_changed(). */
void sp_thread_context_write(struct sp_thread_context *c, const struct sp_span_stack *s);

/*
 * The active span of the calling thread, whose context and stack these are, may have changed. Half
 * of all changes leave the thread without any span.
 */
static inline void sp_thread_context_changed(struct sp_thread_context *c,
					     const struct sp_span_stack *s)
{
	if (!atomic_load_explicit(&sp_thread_context_on, memory_order_relaxed))
		return;
	if (sp_span_stack_empty(s) && !sp_span_stack_is_beyond(s) &&
	    c->shown == atomic_load_explicit(&sp_thread_context_turn, memory_order_relaxed))
		atomic_store_explicit(&c->record.valid, 0, memory_order_relaxed);
	else
		sp_thread_context_write(c, s);
}

/* The thread ends for us: its variable is empty from now on. */
void sp_thread_context_ended(struct sp_thread_context *c);

/* The block is given to a thread that is about to begin. */
void sp_thread_context_clean(struct sp_thread_context *c);

/*
 * Forked child, only thread; c is the thread's, or NULL. Nothing is published until the child's
 * next change of its active span.
 */
void sp_thread_context_forked(struct sp_thread_context *c);

/*
 * APP, one thread at a time, now and then: if somebody else is found to publish a process context, ours
 * is withdrawn. Only the first call after ours was published takes time: some 1 us for each mapping.
 */
void sp_thread_context_look(void);

/*
 * APP, any thread: spans are not followed any more, so what is published could not be kept true.
 * The process context goes at once. If the result is true, the caller makes all records invalid.
 * These are the only writes of another thread: a span that is over would stay there for ever.
 */
bool sp_thread_context_stop(void);
void sp_thread_context_invalidate(struct sp_thread_context *c);

/* Any context. Who publishes; and the same for the status file, which also says who is read. */
enum sp_region_context sp_thread_context_state(void);
enum sp_region_context sp_thread_context_told(void);

/* Any context. The program gave memory that name: ours is not made any more. */
void sp_process_context_made_by_program(void);

/* Makes the mapping. 0; -EEXIST if the program is known to have its own; or what the kernel said. */
int sp_process_context_publish(const struct sp_config *config);

/*
 * The message ProcessContext for that configuration, at most cap bytes: what does not fit is left
 * out. instance: a UUID, for a resource that has no service.instance.id. Returns its length.
 */
size_t sp_process_context_encode(const struct sp_config *config, const char *instance, uint8_t *out,
				 size_t cap);

#endif
