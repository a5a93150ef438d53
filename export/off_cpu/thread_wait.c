/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a thread where it waits, with stack and name (thread_wait.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/off_cpu/thread_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/clock.h"
#include "export/util/containers.h"

/*
 * Walking stacks may take a 25th of the time, and this much at once: the first walks, which read the host's
 * objects, take milliseconds, later ones 0.1.
 */
#define WALK_SHARE 25
#define WALK_MAX_NS ((int64_t)(100 * SP_NS_PER_MS))

void sp_thread_wait_allow(struct sp_thread_wait_env *e, uint64_t now_ns)
{
	if (e->allowed_at_ns != 0 && now_ns > e->allowed_at_ns)
		e->walk_ns += (int64_t)((now_ns - e->allowed_at_ns) / WALK_SHARE);
	if (e->walk_ns > WALK_MAX_NS || e->allowed_at_ns == 0)
		e->walk_ns = WALK_MAX_NS;
	e->allowed_at_ns = now_ns;
}

void sp_thread_wait_forget(struct sp_thread_wait *w)
{
	free(w->pc);
	memset(w, 0, sizeof(*w));
}

static void take_stack(const struct sp_core_ops *ops, struct sp_thread_wait *w,
		       const struct sp_sample *s)
{
	w->depth = 0;
	w->flags = s->flags;
	if (!SP_GROW(w->pc, w->pc_cap, s->depth, SP_FRAMES_MAX)) {
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		return;
	}
	w->depth = s->depth;
	memcpy(w->pc, s->pc, s->depth * sizeof(s->pc[0]));
}

static void refuse(struct sp_thread_wait_env *e, struct sp_thread_wait *w)
{
	const char *why = sp_wait_stacks_refusal(e->stacks);

	memset(&w->place, 0, sizeof(w->place));
	w->is_known = w->is_refused = true;
	w->depth = 0;
	w->flags = SP_SAMPLE_ROOTED;
	w->leaf = (struct sp_wait_leaf){.waited = SP_WAITED_UNKNOWN};
	(void)snprintf(w->leaf.text, sizeof(w->leaf.text), "[blocked, no stack: %s]",
		       why != NULL ? why : "unknown");
}

enum sp_sight sp_thread_wait_see(struct sp_thread_wait_env *e, uint32_t tid,
				 struct sp_task_place *place)
{
	int err;

	if (!sp_wait_stacks_may_try(e->stacks))
		return SP_SAW_REFUSAL;
	err = sp_wait_stacks_place(e->stacks, tid, place);
	if (err == -ESRCH || err == -EAGAIN)
		return SP_SAW_NOTHING;
	if (err != 0)
		return SP_SAW_REFUSAL;
	return place->state == SP_TASK_RUNS ? SP_SAW_RUNNING : SP_SAW_WAITING;
}

/* The thread is blocked at that place. */
static void take_place(struct sp_thread_wait_env *e, struct sp_thread_wait *w,
		       const struct sp_task_place *place)
{
	w->is_known = true;
	w->is_refused = false;
	w->place = *place;
	sp_wait_leaf(e->ops->config->off_cpu_targets ? &e->sockets : NULL, e->ops->proc, &w->place,
		     &w->leaf);
}

static void walk(struct sp_thread_wait_env *e, struct sp_thread_wait *w, uint32_t tid,
		 const struct sp_task_place *place)
{
	static struct sp_sample sample; /* too large for a stack */
	uint64_t begun = sp_clock_mono_ns();
	uint32_t epoch;
	int err;

	/* Without a profile of waits only what is waited for matters. */
	if (!e->ops->config->off_cpu && !e->ops->config->wall) {
		w->depth = 0;
		take_place(e, w, place);
		return;
	}
	if (e->walk_ns <= 0)
		return;
	epoch = e->hooks.prepare(e->hooks.arg, place->pc);
	err = sp_wait_stacks_walk(e->stacks, tid, place, &sample);
	e->walk_ns -= (int64_t)(sp_clock_mono_ns() - begun);
	if (err == -EAGAIN)
		return;
	if (err != 0) {
		refuse(e, w);
		return;
	}
	w->epoch = epoch;
	take_stack(e->ops, w, &sample);
	take_place(e, w, place);
}

void sp_thread_wait_enter(struct sp_thread_wait_env *e, struct sp_thread_wait *w, uint32_t tid,
			  enum sp_sight sight, const struct sp_task_place *place)
{
	w->looks = 0;
	w->is_known = false;
	if (sight == SP_SAW_REFUSAL)
		refuse(e, w);
	else
		walk(e, w, tid, place);
}
