/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU time of a random few local roots (SPANPROF_MEASURE_ROOTS), summed up by span name in the
 * region (struct sp_root_cpu). The kernel looks for expired CPU timers at its tick alone, so samples
 * give short roots too little or too much time. With these sums the exporter gives each name its time.
 *
 * A part of a root begins when a thread gets the root's label, and ends when the thread gets the label
 * of another root, or its stack of spans is empty. All parts are counted. When a part begins, chance
 * decides whether it is measured; how likely that is depends on how often its name was chosen before,
 * never on the part. A measured part has the CPU time for which the thread has the root's label, by
 * CLOCK_THREAD_CPUTIME_ID: the same time in which samples get that label, whatever spans below the root
 * come and go, and however often the label is hidden meanwhile. A root that is renamed begins a part of
 * the new name. Work for a root on other threads, and the time after another root on top of it, are
 * parts of their own.
 *
 * Most parts are not measured. For those the functions here only find out whether a part begins, and
 * most starts of spans show that by one comparison. If a stack has had more than one root since it was
 * last empty, each change of the active span asks the stack (sp_span_stack_peek()).
 *
 * No clock is read behind a seccomp filter. APP, calling thread; errno untouched, no lock, no memory
 * after sp_root_cpu_init().
 */
#ifndef SP_ROOT_CPU_H
#define SP_ROOT_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/root_durations.h"
#include "sampler/thread/thread.h"

/* APP, at activation, when there is a table of names. Idempotent. 0 or -ENOMEM. */
int sp_root_cpu_init(void);
SP_HIDDEN _Atomic bool sp_root_cpu_on;

/* Asks the stack which root's label the thread has; t may be NULL. */
void sp_root_cpu_changed(struct sp_thread *t);

/* The calling thread ends, with that block. */
void sp_root_cpu_thread_ended(struct sp_thread *t);

/* That open span was renamed. */
void sp_root_cpu_renamed(const struct sp_span_record *r, uint32_t name_id);

/* In a forked child, which has one thread, with that block. t may be NULL. */
void sp_root_cpu_forked(struct sp_thread *t);

/* The rare part of sp_root_cpu_begin(): the part is to be measured. */
void sp_root_cpu_choose(struct sp_thread *t, struct sp_root_cpu *c, uint32_t name_id,
			uint32_t shift);

/* A part begins, of a root with that name. */
static inline __attribute__((always_inline)) void sp_root_cpu_begin(struct sp_thread *t,
								    uint32_t name_id)
{
	struct sp_root_cpu *c = sp_root_cpu_of(name_id);
	uint32_t shift;

	if (c == NULL)
		return;
	atomic_fetch_add_explicit(&c->parts, 1, memory_order_relaxed);
	shift = atomic_load_explicit(&c->shift, memory_order_relaxed) % 32;
	/* A linear congruential generator (Knuth, MMIX): its upper bits are random enough. */
	t->root_cpu.random =
		t->root_cpu.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	if (__builtin_expect((t->root_cpu.random >> 32) >> (32 - shift) == 0, 0))
		sp_root_cpu_choose(t, c, name_id, shift);
}

/*
 * A span of that root was put on top of the thread's stack; first: the stack was empty.
 */
static inline __attribute__((always_inline)) void
sp_root_cpu_entered(struct sp_thread *t, uint64_t root_id, uint32_t name_id, bool first)
{
	struct sp_thread_root_cpu *p = &t->root_cpu;

	if (__builtin_expect(!first || p->is_watched, 0)) {
		if (p->is_watched || root_id != p->root_id)
			sp_root_cpu_changed(t);
		return;
	}
	p->root_id = root_id;
	sp_root_cpu_begin(t, name_id);
}

/* A span was started on the thread that does not become active by that: it may be attached next. */
static inline void sp_root_cpu_started(struct sp_thread *t, uint64_t id, uint64_t root_id,
				       uint32_t root_name_id)
{
	t->root_cpu.started_id = id;
	t->root_cpu.started_root = root_id;
	t->root_cpu.started_name = root_name_id;
}

/* The span with that id was attached; 0 = none. */
static inline __attribute__((always_inline)) void sp_root_cpu_attached(struct sp_thread *t,
								       uint64_t id)
{
	struct sp_thread_root_cpu *p = &t->root_cpu;

	if (id == 0 ? p->is_watched : id != p->started_id)
		sp_root_cpu_changed(t);
	else if (id != 0)
		sp_root_cpu_entered(t, p->started_root, p->started_name,
				    atomic_load_explicit(&t->spans.depth, memory_order_relaxed) ==
					    1);
}

/* A span or a scope has left the thread's stack; t may be NULL. */
static inline __attribute__((always_inline)) void sp_root_cpu_left(struct sp_thread *t)
{
	if (t == NULL || t->root_cpu.root_id == 0)
		return;
	if (__builtin_expect(t->root_cpu.is_watched, 0))
		sp_root_cpu_changed(t);
	else if (sp_span_stack_empty(&t->spans))
		t->root_cpu.root_id = 0;
}

#endif
