/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the parts of local roots that chance has chosen (root_cpu.h). Context: APP. */
#include "sampler/span/root_cpu.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "sampler/base/cpu_clock.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/random.h"
#include "sampler/base/seccomp.h"
#include "sampler/region/names.h"
#include "sampler/region/ring.h"

/*
 * A part whose label is hidden and shown again costs two readings of the clock each time. After this
 * many nobody measures it any more.
 */
#define EDGES_MAX 64U

/* No span has this id (span_stack.h). */
#define NO_ROOT SP_SPAN_BLANK

_Atomic bool sp_root_cpu_on;

/*
 * Between two readings of the clock lies the time of one reading, which a part that is not measured
 * does not take.
 */
static uint64_t reading_ns;

static bool read_clock(uint64_t *ns)
{
	return !sp_seccomp_is_on() && sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, ns);
}

int sp_root_cpu_init(void)
{
	uint64_t ns[5] = {0};

	if (sp_root_durations_init() != 0)
		return -ENOMEM;
	reading_ns = SP_NS_PER_S;
	for (unsigned i = 0; i < SP_ARRAY_LEN(ns); i++) {
		(void)read_clock(&ns[i]);
		if (i != 0 && ns[i] - ns[i - 1] < reading_ns)
			reading_ns = ns[i] - ns[i - 1];
	}
	atomic_store_explicit(&sp_root_cpu_on, true, memory_order_relaxed);
	sp_root_cpu_measure();
	return 0;
}

static void note_unsure(uint32_t name_id)
{
	struct sp_root_cpu *c = sp_root_cpu_of(name_id);

	if (c != NULL)
		atomic_fetch_add_explicit(&c->unsure, 1, memory_order_relaxed);
}

static void watch(struct sp_thread_root_cpu *p)
{
	p->is_watched = p->is_measured || p->is_mixed;
}

static void give_up(struct sp_thread_root_cpu *p)
{
	note_unsure(p->name_id);
	p->is_measured = false;
	p->is_running = false;
	watch(p);
}

/* The thread has the label from now on. */
static void run(struct sp_thread_root_cpu *p)
{
	if (!p->is_measured || p->is_running)
		return;
	if (p->edges++ < EDGES_MAX && read_clock(&p->from_ns))
		p->is_running = true;
	else
		give_up(p);
}

/* The thread has lost the label. */
static void pause_part(struct sp_thread_root_cpu *p)
{
	uint64_t now;
	uint64_t ns;

	if (!p->is_running)
		return;
	p->is_running = false;
	if (!read_clock(&now)) {
		give_up(p);
		return;
	}
	ns = now > p->from_ns ? now - p->from_ns : 0;
	p->sum_ns += ns > reading_ns ? ns - reading_ns : 0;
}

static void end_part(struct sp_thread_root_cpu *p)
{
	struct sp_root_cpu *c;

	pause_part(p);
	if (!p->is_measured)
		return;
	p->is_measured = false;
	/* The name may have no sample, from which the exporter would know it. */
	(void)sp_names_announce(sp_channel_now(), p->name_id);
	sp_root_cpu_add(p->name_id, p->shift, p->sum_ns);
	c = sp_root_cpu_of(p->name_id);
	for (uint32_t i = 1; c != NULL && i < p->edges && !sp_seccomp_is_on(); i++)
		sp_root_cpu_adapt(c, sp_monotonic_coarse_ns());
}

/* The root whose label the thread has, and its name; 0 = it has no label. */
static uint64_t label_of(const struct sp_thread *t, uint32_t *name_id)
{
	struct sp_span_record r;

	switch (sp_span_stack_peek(&t->spans, &r)) {
	case SP_SPAN_KNOWN:
	case SP_SPAN_ROOT_ALONE:
		*name_id = r.root_name_id;
		return r.root_id;
	/* The id of a label is what the program wants. */
	case SP_SPAN_LABEL:
		*name_id = r.root_name_id;
		return sp_random_scramble(r.root_id + r.root_name_id) | 1;
	case SP_SPAN_NONE:
	case SP_SPAN_FORGOTTEN:
	case SP_SPAN_INTERLEAVED:
	default:
		*name_id = 0;
		return 0;
	}
}

/* noinline: few parts are measured. */
__attribute__((noinline)) void sp_root_cpu_choose(struct sp_thread *t, struct sp_root_cpu *c,
						  uint32_t name_id, uint32_t shift)
{
	struct sp_thread_root_cpu *p = &t->root_cpu;
	uint32_t shown;

	if (sp_seccomp_is_on())
		return;
	sp_root_cpu_adapt(c, sp_monotonic_coarse_ns());
	p->name_id = name_id;
	p->shift = (uint8_t)(shift < SP_ROOT_CPU_SHIFT_MAX ? shift : SP_ROOT_CPU_SHIFT_MAX);
	p->sum_ns = 0;
	p->edges = 0;
	p->is_measured = true;
	p->is_watched = true;
	/* A span may have ended before it was attached. */
	if (label_of(t, &shown) == p->root_id)
		run(p);
}

static void leave(struct sp_thread_root_cpu *p)
{
	end_part(p);
	p->root_id = 0;
	p->is_mixed = false;
}

void sp_root_cpu_changed(struct sp_thread *t)
{
	struct sp_thread_root_cpu *p;
	uint32_t name_id;
	uint64_t root_id;

	if (t == NULL || !atomic_load_explicit(&sp_root_cpu_on, memory_order_relaxed))
		return;
	p = &t->root_cpu;
	root_id = label_of(t, &name_id);
	if (root_id == 0) {
		pause_part(p);
		if (sp_span_stack_empty(&t->spans))
			leave(p);
	} else if (root_id == p->root_id) {
		run(p);
	} else {
		end_part(p);
		p->is_mixed = p->is_mixed || p->root_id != 0;
		p->root_id = root_id;
		sp_root_cpu_begin(t, name_id);
	}
	watch(p);
}

void sp_root_cpu_thread_ended(struct sp_thread *t)
{
	leave(&t->root_cpu);
	watch(&t->root_cpu);
}

/*
 * The root's label has the new name on all threads. If another thread has it, or may have it, that
 * thread's part is of both names.
 */
void sp_root_cpu_renamed(const struct sp_span_record *r, uint32_t name_id)
{
	struct sp_thread *t = sp_thread_own;
	struct sp_thread_root_cpu *p = t != NULL ? &t->root_cpu : NULL;

	if (r->span_id != r->root_id ||
	    !atomic_load_explicit(&sp_root_cpu_on, memory_order_relaxed))
		return;
	if (p != NULL && p->root_id == r->span_id) {
		end_part(p);
		p->root_id = 0;
		sp_root_cpu_changed(t);
		/* The label is hidden. When it is shown again, a part of the new name begins. */
		if (p->root_id == 0) {
			p->root_id = NO_ROOT;
			p->is_mixed = true;
			watch(p);
		}
	} else if (p == NULL || p->started_id != r->span_id) {
		note_unsure(r->root_name_id);
		note_unsure(name_id);
	}
	if (p != NULL && p->started_root == r->span_id)
		p->started_name = name_id;
}

/* The CPU clock begins anew, and so does the part that the thread is in. */
void sp_root_cpu_forked(struct sp_thread *t)
{
	if (t != NULL)
		t->root_cpu = (struct sp_thread_root_cpu){
			.random = sp_random_scramble(
				t->root_cpu.random +
				atomic_load_explicit(&t->tid, memory_order_relaxed))};
}
