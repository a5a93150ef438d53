/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's loop. It drains the rings of each process that it serves, and at every upload
 * interval hands the collected samples to the worker, which makes profiles of them and sends them.
 * A process that has ended is forgotten once its last profiles were sent or lost. All state hangs
 * on one object made by sp_export_run().
 *
 * A process that is about to end waits for the exporter's answer. If another process outlives it,
 * the answer comes as soon as its rings are empty and, if profiles go into a folder, its files are
 * written. If it is the last one, the answer comes when the worker has sent everything, or when the
 * process's flush time is over.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "export/export.h"
#include "export/loop/target.h"
#include "export/loop/worker.h"
#include "export/util/clock.h"
#include "export/util/turn.h"

/*
 * The queue has places for the last profiles of at most this many ended processes, besides those of
 * living ones.
 */
#define ENDED_MAX 256U
#define SOON_NS (200 * SP_NS_PER_MS)
/* At most this many profiles of one process in one turn of the loop, if its tables are full. */
#define FULL_MAX 4U
/*
 * A worker that has not finished this long after the process's flush time hangs, in a library or in
 * a file system. A process has stopped waiting for its last profiles by then.
 */
#define LATE_NS (500 * SP_NS_PER_MS)
#define LATE_LOOK_MS 20U

struct exporter {
	const struct sp_export_family *family;
	struct sp_worker *worker;
	struct sp_target *targets;  /* oldest first */
	uint32_t living;            /* how many of them live */
	struct sp_target *flushing; /* the process for which the worker has an order */
	bool has_flushed;           /* the last order was a flush, and for that process */
	/* the exporter ends with this process; NULL = it stays as long as there are others */
	struct sp_target *last;
	bool has_left; /* it takes no more samples of the others */
	bool is_alone; /* the worker was given up */
};

/*
 * Serves everything due within the next 200 ms now, so that hundreds of processes share one
 * wake-up.
 */
static bool is_due(const struct sp_target *t, uint64_t now)
{
	return !t->ended && sp_target_due_ns(t) <= now + SOON_NS;
}

/* Tells the upload which process's settings and log to use, and how much may be queued. */
static void lead(struct exporter *x, const struct sp_target *t)
{
	uint32_t ended = 0;

	for (const struct sp_target *at = x->targets; at != NULL && ended < ENDED_MAX;
	     at = at->next)
		ended += at->ended;
	if (t != NULL)
		sp_upload_serve(sp_worker_upload(x->worker), t->ops, x->living, ended);
}

static struct sp_target *first_living(const struct exporter *x)
{
	struct sp_target *t = x->targets;

	while (t != NULL && t->ended)
		t = t->next;
	return t;
}

/*
 * Whether another process keeps the exporter alive after the end of this one. Processes that are
 * about to end do not count: the workers of a server that stops ask all at once, and when the last
 * of them has gone the server ends, and often its container with all that runs in there.
 */
static bool is_outlived(const struct exporter *x, const struct sp_target *t)
{
	if (t == NULL)
		return false;
	for (const struct sp_target *o = x->targets; o != NULL; o = o->next)
		if (o != t && !o->ended && !sp_target_ending(o))
			return true;
	return false;
}

static void free_target(struct exporter *x, struct sp_target *t, int err)
{
	const struct sp_core_ops *ops = t->ops;

	sp_target_fini(t);
	free(t);
	x->family->left(x->family->arg, ops, err);
}

static int add(struct exporter *x, const struct sp_core_ops *ops)
{
	struct sp_target *t = malloc(sizeof(*t));
	struct sp_target **at = &x->targets;
	int err;

	if (t == NULL) {
		x->family->left(x->family->arg, ops, -ENOMEM);
		return -ENOMEM;
	}
	err = sp_target_init(t, ops, x->worker);
	if (err != 0) {
		free_target(x, t, err);
		return err;
	}
	while (*at != NULL)
		at = &(*at)->next;
	*at = t;
	x->living++;
	lead(x, first_living(x));
	return 0;
}

static void welcome(struct exporter *x)
{
	const struct sp_core_ops *ops;

	while ((ops = x->family->next(x->family->arg)) != NULL)
		(void)add(x, ops);
}

/* Takes all samples of a process that may put no more. */
static void finish(struct sp_target *t, unsigned bits)
{
	sp_target_finish(t);
	t->awaited |= bits;
	t->late_ns = 0;
}

/*
 * The exporter has to end with this process, within its flush time. It sends the samples of all
 * other processes, too; those that it cannot send by then are lost.
 */
static void begin_end(struct exporter *x, struct sp_target *last)
{
	for (struct sp_target *t = x->targets; t != NULL; t = t->next)
		if (!t->ended)
			finish(t, t == last ? SP_WAIT_FLUSH | SP_WAIT_STOP | SP_WAIT_END : 0);
	x->last = last;
	x->flushing = NULL;
}

/*
 * Takes the last samples of the other processes, most of which end at about the same time as
 * x->last. Samples that they put from now on stay in their rings for the exporter that they start,
 * because this one makes no more profiles.
 */
static void leave(struct exporter *x)
{
	for (struct sp_target *t = x->targets; t != NULL; t = t->next) {
		if (t->ended || t == x->last)
			continue;
		finish(t, 0);
		t->is_left = true;
	}
	x->has_left = true;
}

static void serve(struct exporter *x, struct sp_target *t)
{
	unsigned bits;

	/* Empties the rings, so that the process does not wait with a full ring for an answer. */
	for (unsigned i = 0; i < FULL_MAX && sp_target_drain(t) && t->is_full; i++)
		sp_target_make_room(t);
	sp_target_make_room(t);
	/* The process repeats its request until it is answered. */
	bits = t->asked & ~t->awaited;
	if ((bits & SP_WAIT_END) != 0 && x->last == NULL)
		begin_end(x, t);
	else if ((bits & SP_WAIT_STOP) != 0 && (t->asked & SP_WAIT_FLUSH) == 0)
		t->awaited |= SP_WAIT_STOP;
	else if ((bits & (SP_WAIT_FLUSH | SP_WAIT_STOP)) != 0)
		finish(t, bits & (SP_WAIT_FLUSH | SP_WAIT_STOP));
	t->asked &= ~(t->awaited | SP_WAIT_END);
	if (t->awaited == 0 && sp_clock_mono_ns() >= t->tick_ns)
		sp_target_tick(t);
}

static void end(struct exporter *x, struct sp_target *t)
{
	sp_target_abandon(t);
	t->ended = true;
	x->living--;
	/* Its profiles may be queued for an hour, and there may be hundreds of such processes. */
	sp_target_retire(t);
	/*
	 * This writes only a status file: readers do not find the memory file of an ended process
	 * any more.
	 */
	sp_target_report(t);
	lead(x, first_living(x));
}

static void answer(struct exporter *x, struct sp_target *t)
{
	const struct sp_core_ops *ops = t->ops;
	unsigned awaited = t->awaited;

	if (x->flushing == t) {
		sp_worker_order(x->worker, SP_WORKER_NOTHING, 0);
		x->flushing = NULL;
	}
	t->awaited = 0;
	if ((awaited & SP_WAIT_STOP) != 0)
		end(x, t);
	else
		sp_target_report(t);
	if ((awaited & SP_WAIT_FLUSH) != 0 || (x->last != NULL && ops->flush_pending(ops->arg)))
		ops->flushed(ops->arg);
}

/* Whether the exporter ends with this process: nobody would send queued profiles later. */
static bool ends_all(const struct exporter *x, const struct sp_target *t)
{
	return (t->awaited & SP_WAIT_STOP) != 0 && (x->living == 1 || t == x->last);
}

/*
 * Whether the worker has intervals to name that came after its order: intervals of the process, or
 * of any process if this one is x->last.
 */
static bool has_more(const struct exporter *x, const struct sp_target *t)
{
	if (t != x->last)
		return t->origin.unnamed != 0;
	for (const struct sp_target *o = x->targets; o != NULL; o = o->next)
		if (o->origin.unnamed != 0)
			return true;
	return false;
}

static bool has_unsent(const struct exporter *x)
{
	const struct sp_target *t = x->targets;

	while (t != NULL && t->origin.unnamed == 0 && t->origin.queued == 0)
		t = t->next;
	return t != NULL;
}

/*
 * Gives the worker an order for process t, which may give one. False: the worker has nothing more
 * to do for it.
 */
static bool give_order(struct exporter *x, struct sp_target *t)
{
	enum sp_worker_order order;

	if (x->last != NULL && t == x->last && x->flushing == t && !x->has_left)
		leave(x);
	if (x->flushing == NULL ? (t->awaited & SP_WAIT_FLUSH) != 0
				: x->has_flushed && has_more(x, t))
		order = (t->awaited & SP_WAIT_STOP) != 0 && t != x->last ? SP_WORKER_FLUSH_LAST
									 : SP_WORKER_FLUSH;
	else if (ends_all(x, t) && (x->flushing == NULL || x->has_flushed) && has_unsent(x))
		order = SP_WORKER_ABANDON;
	else
		return false;
	lead(x, t);
	x->flushing = t;
	x->has_flushed = order != SP_WORKER_ABANDON;
	sp_worker_order(x->worker, order, t->ops->flush_left_ms(t->ops->arg));
	return true;
}

/* The flush time of the process has been over for so long that the worker will not finish. */
static bool is_late(struct sp_target *t)
{
	uint64_t now = sp_clock_mono_ns();

	if (t->ops->flush_left_ms(t->ops->arg) != 0)
		return false;
	if (t->late_ns == 0)
		t->late_ns = now;
	return now - t->late_ns >= LATE_NS;
}

/*
 * For a process that no other outlives. The worker has one order at a time. False: the process has
 * to wait.
 */
static bool settle_last(struct exporter *x, struct sp_target *t)
{
	bool is_free = x->flushing == NULL || (x->flushing == t && sp_worker_is_done(x->worker));

	if (x->is_alone || (is_free && !give_order(x, t)))
		return true;
	if (is_free || !is_late(t))
		return false;
	if (x->flushing == t && ends_all(x, t)) {
		sp_worker_give_up(x->worker);
		x->is_alone = true;
	}
	return true;
}

static bool is_settled(struct exporter *x, struct sp_target *t)
{
	if (x->last != NULL ? t == x->last : !is_outlived(x, t))
		return settle_last(x, t);
	/* Profiles that go into a folder are written before the process ends. */
	return (t->awaited & SP_WAIT_FLUSH) == 0 || t->ops->config->output_dir == NULL ||
	       t->origin.unnamed == 0 || is_late(t);
}

/*
 * Answers all processes that need not wait any longer; the worker may then take orders for others.
 */
static void settle(struct exporter *x)
{
	struct sp_target *t = x->targets;

	while (t != NULL) {
		if (t->ended || t->awaited == 0 || !is_settled(x, t)) {
			t = t->next;
			continue;
		}
		answer(x, t);
		t = x->targets;
	}
	for (t = x->targets; t != NULL && x->last != NULL && x->last->ended; t = t->next) {
		if (t->ended)
			continue;
		t->awaited = SP_WAIT_STOP;
		answer(x, t);
	}
}

/*
 * Forgets processes that have ended and have no profile in the queue. Their stderr has ended with
 * them, so their losses are logged by a process that lives.
 */
static void dismiss(struct exporter *x)
{
	struct sp_target *heir = first_living(x);
	struct sp_target **at = &x->targets;

	while (*at != NULL) {
		struct sp_target *t = *at;

		if (!t->ended || t->origin.unnamed != 0 || t->origin.queued != 0) {
			if (t->ended && t->origin.unnamed == 0 && !t->is_retired) {
				t->is_retired = true;
				x->family->ended(x->family->arg, t->ops);
			}
			at = &t->next;
			continue;
		}
		*at = t->next;
		if (heir != NULL)
			sp_losses_hand_over(&t->origin.losses, &heir->origin.losses);
		sp_target_report(t);
		free_target(x, t, 0);
	}
}

static void report(struct exporter *x)
{
	for (struct sp_target *t = x->targets; t != NULL; t = t->next)
		if (t->report_due && !t->ended && t->origin.unnamed == 0 && t->origin.pushing == 0)
			sp_target_report(t);
}

static uint32_t wait_ms(const struct exporter *x)
{
	uint32_t ms = UINT32_MAX;
	uint64_t now = sp_clock_mono_ns();

	for (const struct sp_target *t = x->targets; t != NULL && ms != 0; t = t->next) {
		uint64_t due = t->ended ? UINT64_MAX : sp_target_due_ns(t);
		uint64_t left = due > now ? (due - now - 1) / SP_NS_PER_MS + 1 : 0;

		if (!t->ended && t->awaited != 0) {
			uint32_t flush = t->ops->flush_left_ms(t->ops->arg);

			flush = flush != 0 ? flush : LATE_LOOK_MS;
			ms = flush < ms ? flush : ms;
		}
		ms = left < ms ? (uint32_t)left : ms;
	}
	return ms;
}

static void loop(struct exporter *x)
{
	do {
		uint64_t now;

		x->family->wait(x->family->arg, wait_ms(x));
		now = sp_clock_mono_ns();
		for (struct sp_target *t = x->targets; t != NULL; t = t->next)
			if (is_due(t, now))
				serve(x, t);
		settle(x);
		report(x);
		/* A worker that hangs may still use the objects of its process. */
		if (x->is_alone)
			continue;
		dismiss(x);
		welcome(x);
	} while (x->is_alone ? x->living != 0
			     : x->targets != NULL || x->family->open(x->family->arg));
}

static void tell(void *arg)
{
	const struct exporter *x = arg;

	x->family->wake(x->family->arg);
}

int sp_export_run(const struct sp_export_family *family)
{
	struct exporter *x = calloc(1, sizeof(*x));
	bool had = sp_turn_set(true);
	const struct sp_core_ops *ops = family->next(family->arg);
	int err = x != NULL && ops != NULL ? 0 : -ENOMEM;

	if (err == 0) {
		x->family = family;
		err = sp_worker_start(ops, tell, x, &x->worker);
	}
	if (err == 0)
		err = add(x, ops);
	if (err == 0)
		loop(x);
	if (x != NULL && !x->is_alone && (err != 0 || !family->ends_process)) {
		sp_worker_stop(x->worker);
		free(x);
	}
	(void)sp_turn_set(had);
	return err;
}
