/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads are looked at, and when (off_cpu.h). Context: the exporter. */
#include "export/off_cpu/off_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "export/off_cpu/thread_waits.h"
#include "export/util/clock.h"
#include "export/util/containers.h"

/* Looking at one takes 2 to 4 us. With more threads than that each is looked at less often. */
#define LOOKS_MAX 128U
#define THREADS_MAX 65536U

struct sp_off_cpu {
	struct sp_thread_waits_env env;
	struct sp_thread_waits *thread;
	size_t cap;
	uint32_t threads; /* in the array */
	uint32_t next;    /* the first one of the next round */
	uint64_t due_ns;
	uint32_t with_span;
};

struct sp_off_cpu *sp_off_cpu_new(const struct sp_core_ops *ops, struct sp_unwinder *unwinder,
				  const struct sp_off_cpu_hooks *hooks)
{
	struct sp_off_cpu *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	o->env.wait.ops = ops;
	o->env.wait.hooks = *hooks;
	o->env.wait.sockets.ops = ops;
	o->env.wait.stacks = sp_wait_stacks_new(ops, unwinder);
	if (o->env.wait.stacks != NULL)
		return o;
	free(o);
	return NULL;
}

void sp_off_cpu_free(struct sp_off_cpu *o)
{
	if (o == NULL)
		return;
	for (uint32_t i = 0; i < o->threads; i++)
		sp_thread_waits_forget(&o->thread[i]);
	free(o->thread);
	sp_wait_stacks_free(o->env.wait.stacks);
	free(o->env.wait.sockets.kept);
	free(o);
}

static bool make_room(struct sp_off_cpu *o, uint32_t used)
{
	uint32_t before = o->threads;

	if (used <= before)
		return true;
	if (!SP_GROW(o->thread, o->cap, used, THREADS_MAX))
		return false;
	memset(o->thread + before, 0, (used - before) * sizeof(*o->thread));
	o->threads = used;
	return true;
}

/* From the first one of this round on, until so many that have a span were looked at. */
static void look_at_some(struct sp_off_cpu *o, struct sp_thread_labels_part *part, uint32_t looks)
{
	uint32_t looked = 0;
	uint32_t with_span = 0;
	uint32_t i = 0;

	for (; i < o->threads && looked < looks; i++) {
		uint32_t at = (o->next + i) % o->threads;

		looked += sp_thread_waits_look(&o->env, &o->thread[at], &part->thread[at]);
		with_span += o->thread[at].has_label;
	}
	o->next = o->threads != 0 ? (o->next + i) % o->threads : 0;
	if (i == o->threads)
		o->with_span = with_span;
}

static void look(struct sp_off_cpu *o, uint32_t looks)
{
	uint32_t room = 0;
	struct sp_thread_labels_part *part =
		o->env.wait.ops->thread_labels(o->env.wait.ops->arg, &room);
	uint32_t used;

	if (part == NULL)
		return;
	used = atomic_load_explicit(&part->used, memory_order_acquire);
	used = used < room ? used : room;
	if (make_room(o, used < THREADS_MAX ? used : THREADS_MAX))
		look_at_some(o, part, looks);
	else
		o->env.wait.ops->counter_add(o->env.wait.ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
}

void sp_off_cpu_run(struct sp_off_cpu *o)
{
	uint64_t now = sp_clock_mono_ns();

	if (now < o->due_ns)
		return;
	/* In step, unless something has kept us for longer than that. */
	o->due_ns += SP_OFF_CPU_PERIOD_NS;
	if (o->due_ns <= now)
		o->due_ns = now + SP_OFF_CPU_PERIOD_NS;
	sp_thread_wait_allow(&o->env.wait, now);
	look(o, LOOKS_MAX);
}

void sp_off_cpu_settle(struct sp_off_cpu *o)
{
	sp_thread_wait_allow(&o->env.wait, sp_clock_mono_ns());
	look(o, UINT32_MAX);
}

uint64_t sp_off_cpu_due_ns(const struct sp_off_cpu *o)
{
	return o->due_ns;
}

void sp_off_cpu_news(const struct sp_off_cpu *o, struct sp_off_cpu_news *out)
{
	*out = (struct sp_off_cpu_news){
		.threads = o->with_span,
		.ns = o->env.put_ns,
		.refusal = sp_wait_stacks_refusal(o->env.wait.stacks),
	};
}
