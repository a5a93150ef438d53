/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry's thread context (OTEP 4947): a record per thread with the ids of its active span,
 * which profilers outside of the process, such as an eBPF profiler, read while they have stopped
 * the thread. They find the record by the thread-local variable otel_thread_ctx_v1, and the meaning
 * of its attributes by the process context. A process has one process context; a forked child has
 * none.
 *
 * Only the thread itself writes its record. So if another thread ends the span, the span stays in
 * the record until the thread's next change. A manual label is no span, so the span around it stays
 * in the record. If the stack has forgotten the frame of the active span, only the span's root is
 * known, and the record is invalid.
 *
 * With SPANPROF_THREAD_CONTEXT=true we publish from the first recorded span on. A process has one
 * publisher: we do not publish if another library does, and withdraw ours if another publisher's
 * record appears in a thread's variable. Contexts: APP, calling thread, inside the reentrancy
 * guard, unless another is named; errno preserved.
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
 * The context of one thread, in its block, in one cache line. All zero = nothing is published. Only
 * the thread writes it.
 */
struct sp_thread_context {
	_Alignas(64) struct sp_context_record record;
	uint32_t shown;   /* sp_thread_context_turn when the variable was set; 0 = it is not set */
	uint64_t root_id; /* the id whose text is record.root_id */
};

/*
 * Whether changes of the active span have to be published. False = nothing is published, now or
 * later.
 */
SP_HIDDEN _Atomic bool sp_thread_context_on;

/*
 * Incremented when threads have to check again whether they publish. Never 0 while
 * sp_thread_context_on is set.
 */
SP_HIDDEN _Atomic uint32_t sp_thread_context_turn;

/*
 * At activation, before the first span. is_programs: our own references to otel_thread_ctx_v1 mean
 * another object's definition.
 */
void sp_thread_context_init(const struct sp_config *config, bool is_programs);

/* The part of sp_thread_context_changed() that writes a record. */
void sp_thread_context_write(struct sp_thread_context *c, const struct sp_span_stack *s);

/*
 * The active span of the calling thread, whose context and stack these are, may have changed. After
 * half of all changes the thread has no active span.
 */
static inline void sp_thread_context_changed(struct sp_thread_context *c,
					     const struct sp_span_stack *s)
{
	if (!atomic_load_explicit(&sp_thread_context_on, memory_order_relaxed))
		return;
	if (sp_span_stack_bare(s) &&
	    c->shown == atomic_load_explicit(&sp_thread_context_turn, memory_order_relaxed))
		atomic_store_explicit(&c->record.valid, 0, memory_order_relaxed);
	else
		sp_thread_context_write(c, s);
}

/* The thread ends, or is no longer followed: its variable becomes NULL. */
void sp_thread_context_ended(struct sp_thread_context *c);

/* Clears the context in a block that is given to a thread which is about to begin. */
void sp_thread_context_clean(struct sp_thread_context *c);

/*
 * Forked child, only thread; c is the thread's context, or NULL. Nothing is published until the
 * child's next change of its active span.
 */
void sp_thread_context_forked(struct sp_thread_context *c);

/*
 * APP, one thread at a time, by deferred work: searches for another publisher's process context,
 * and withdraws ours if there is one. Only the first call after we published takes time: about 1 us
 * for each mapping.
 */
void sp_thread_context_search(void);

/*
 * APP, any thread. Withdraws the process context at once, because spans are not followed any more
 * and records would become wrong. If the result is true, the caller must invalidate all records:
 * otherwise a span that has ended would stay in a record for ever. In no other case does another
 * thread write to a record.
 */
bool sp_thread_context_stop(void);
void sp_thread_context_invalidate(struct sp_thread_context *c);

/*
 * Any context. Which publisher the process has. sp_thread_context_publisher() is for the status file,
 * and also says whether we read another publisher's records.
 */
enum sp_region_context sp_thread_context_state(void);
enum sp_region_context sp_thread_context_publisher(void);

/*
 * Any context. The program gave memory the name of a process context: we do not make one any more.
 */
void sp_process_context_made_by_program(void);

/*
 * Makes the mapping. Returns 0; -EEXIST if the program is known to have its own; or the kernel's
 * error.
 */
int sp_process_context_publish(const struct sp_config *config);

/*
 * Encodes the message ProcessContext for that configuration into at most cap bytes and returns its
 * length; parts that do not fit are left out. instance: a UUID, for a resource without
 * service.instance.id.
 */
size_t sp_process_context_encode(const struct sp_config *config, const char *instance, uint8_t *out,
				 size_t cap);

#endif
