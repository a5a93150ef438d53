/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's loop: each process that it works for is drained, and at every upload interval what it
 * sampled is encoded and queued for the server. A process that has ended is forgotten once what is queued
 * of it was sent or lost. All state hangs on one object made by sp_export_run().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "export/export.h"
#include "export/loop/target.h"
#include "export/util/clock.h"

/* Of processes that have ended so many may have a profile queued beyond what the living ones may. */
#define ENDED_MAX 256U
#define SOON_NS (200 * SP_NS_PER_MS)
/* So often in a row a process has what it sampled made a profile for want of room. */
#define FULL_MAX 4U

struct exporter {
	const struct sp_export_family *family;
	struct sp_shared shared;
	struct sp_target *targets;  /* oldest first */
	uint32_t living;            /* of these */
	struct sp_target *flushing; /* the last one for which the server was waited for */
};

static void wait_for_news(struct exporter *x, uint32_t ms)
{
	x->family->wait(x->family->arg, ms);
}

static bool is_asked(const struct exporter *x)
{
	for (const struct sp_target *t = x->targets; t != NULL; t = t->next)
		if (!t->ended && (t->asked != 0 || t->is_full))
			return true;
	return false;
}

/* Those that are due soon have their turn as well, so that many wake us as seldom as one. */
static bool is_due(const struct sp_target *t, uint64_t now)
{
	return !t->ended && sp_target_due_ns(t) <= now + SOON_NS;
}

/* Nobody's ring may overflow while something takes its time for one of them. */
static void drain_all(struct exporter *x)
{
	uint64_t now = sp_clock_mono_ns();

	for (struct sp_target *t = x->targets; t != NULL; t = t->next)
		if (is_due(t, now))
			(void)sp_target_drain(t);
}

/* Between two slices of symbolization. What was asked for is served after it. */
static bool pause_symbols(void *arg, uint32_t ms)
{
	struct exporter *x = arg;

	wait_for_news(x, ms);
	drain_all(x);
	sp_upload_run(x->shared.upload);
	return !is_asked(x);
}

/* Who is to be told of what concerns all, and how much may be queued. */
static void lead(struct exporter *x, const struct sp_target *t)
{
	uint32_t ended = 0;

	for (const struct sp_target *at = x->targets; at != NULL && ended < ENDED_MAX;
	     at = at->next)
		ended += at->ended;
	if (t != NULL)
		sp_upload_serve(x->shared.upload, t->ops, x->living, ended);
}

static struct sp_target *first_living(const struct exporter *x)
{
	struct sp_target *t = x->targets;

	while (t != NULL && t->ended)
		t = t->next;
	return t;
}

/*
 * Somebody who will be there when this one has ended, and keeps the exporter alive. Not others that are
 * about to end, too: the workers of a server that stops ask all at once, and when the last of them has
 * gone the server ends, and often its container with all that runs in there.
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
	err = sp_target_init(t, ops, &x->shared);
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

/* While a flush waits for the server. False: somebody has come who will outlive it. */
static bool while_flushing(void *arg, uint32_t wait_ms)
{
	struct exporter *x = arg;

	wait_for_news(x, wait_ms);
	drain_all(x);
	welcome(x);
	return !is_outlived(x, x->flushing);
}

/*
 * The process is about to end, or has. As long as there are others it does not wait for the server: what
 * is queued will be sent.
 */
static void flush(struct exporter *x, struct sp_target *t, bool is_awaited)
{
	sp_target_finish(t);
	if (!is_outlived(x, t)) {
		lead(x, t);
		x->flushing = t;
		sp_upload_flush(x->shared.upload, is_awaited);
	}
	sp_target_report(t);
	/* The request may have been seen a second time while sending. */
	t->asked &= ~SP_WAIT_FLUSH;
	t->ops->flushed(t->ops->arg);
}

static void end(struct exporter *x, struct sp_target *t)
{
	if (x->living == 1)
		sp_upload_abandon(x->shared.upload);
	sp_target_abandon(t);
	sp_target_report(t);
	t->ended = true;
	x->living--;
	/* It may be queued for an hour, and there may be hundreds. */
	sp_target_retire(t);
	if (t->origin.queued != 0)
		x->family->ended(x->family->arg, t->ops);
	lead(x, first_living(x));
}

/*
 * The exporter has to end with this process, within its time, and whatever cannot be sent by then is
 * lost. What all the others have is sent with it. What they put after that stays in their rings, and is
 * taken by the exporter that they start: no profile follows here that it could be in.
 */
static void end_all(struct exporter *x, struct sp_target *last)
{
	for (struct sp_target *t = x->targets; t != NULL; t = t->next) {
		if (t->ended)
			continue;
		sp_target_finish(t);
		t->is_left = t != last;
	}
	lead(x, last);
	x->flushing = NULL;
	sp_upload_flush(x->shared.upload, true);
	sp_upload_abandon(x->shared.upload);
	for (struct sp_target *t = x->targets; t != NULL; t = t->next) {
		if (t->ended)
			continue;
		end(x, t);
		if (t->ops->flush_pending(t->ops->arg))
			t->ops->flushed(t->ops->arg);
	}
}

static void serve(struct exporter *x, struct sp_target *t)
{
	unsigned bits;

	/* All that is there, so that nothing is waited for with a full ring. */
	for (unsigned i = 0; i < FULL_MAX && sp_target_drain(t) && t->is_full; i++)
		sp_target_make_room(t);
	sp_target_make_room(t);
	bits = t->asked;
	t->asked = 0;
	if ((bits & SP_WAIT_END) != 0) {
		end_all(x, t);
		return;
	}
	if ((bits & SP_WAIT_FLUSH) != 0)
		flush(x, t, (bits & SP_WAIT_STOP) == 0);
	if ((bits & SP_WAIT_STOP) != 0) {
		end(x, t);
		return;
	}
	if (sp_clock_mono_ns() >= t->tick_ns)
		sp_target_tick(t);
}

/*
 * Those that have ended, and of whom nothing is queued any more. Their stderr has ended with them: what was
 * lost of them is told to one that lives.
 */
static void dismiss(struct exporter *x)
{
	struct sp_target *heir = first_living(x);
	struct sp_target **at = &x->targets;

	while (*at != NULL) {
		struct sp_target *t = *at;

		if (!t->ended || t->origin.queued != 0) {
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
		if (t->report_due && !t->ended && t->origin.pushing == 0)
			sp_target_report(t);
}

static uint32_t wait_ms(const struct exporter *x)
{
	uint32_t ms = sp_upload_due_ms(x->shared.upload);
	uint64_t now = sp_clock_mono_ns();

	for (const struct sp_target *t = x->targets; t != NULL && ms != 0; t = t->next) {
		uint64_t due = t->ended ? UINT64_MAX : sp_target_due_ns(t);
		uint64_t left = due > now ? (due - now - 1) / SP_NS_PER_MS + 1 : 0;

		ms = left < ms ? (uint32_t)left : ms;
	}
	return ms;
}

static void loop(struct exporter *x)
{
	do {
		uint64_t now;

		wait_for_news(x, wait_ms(x));
		now = sp_clock_mono_ns();
		for (struct sp_target *t = x->targets; t != NULL; t = t->next)
			if (is_due(t, now))
				serve(x, t);
		sp_upload_run(x->shared.upload);
		report(x);
		dismiss(x);
		welcome(x);
	} while (x->targets != NULL || x->family->open(x->family->arg));
}

static int create(struct exporter *x, const struct sp_core_ops *ops)
{
	int err;

	x->shared.symbols = sp_symbols_new(ops, pause_symbols, x);
	if (x->shared.symbols == NULL)
		return -ENOMEM;
	err = sp_upload_new(ops, while_flushing, x, &x->shared.upload);
	return err == 0 ? add(x, ops) : err;
}

int sp_export_run(const struct sp_export_family *family)
{
	struct exporter *x = calloc(1, sizeof(*x));
	const struct sp_core_ops *ops = family->next(family->arg);
	int err = x != NULL && ops != NULL ? 0 : -ENOMEM;

	if (err == 0) {
		x->family = family;
		err = create(x, ops);
	}
	if (err == 0)
		loop(x);
	if (x != NULL) {
		sp_upload_free(x->shared.upload);
		sp_symbols_free(x->shared.symbols);
	}
	free(x);
	return err;
}
