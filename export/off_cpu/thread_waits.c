/* SPDX-License-Identifier: Apache-2.0 */
/* One thread: clocks, parts of time by label, and what was waited in (thread_waits.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/off_cpu/thread_waits.h"

#include <string.h>

#include "export/off_cpu/label_parts.h"
#include "export/off_cpu/span_waited.h"
#include "export/util/clock.h"

/* Who ran for so long at most has not moved on, as a rule: a wake-up that was for nothing. */
#define STILL_NS (10 * UINT64_C(1000))
/* A wait that goes on is read again at each 5th look. */
#define SURE_LOOKS 5U
void sp_thread_waits_forget(struct sp_thread_waits *t)
{
	sp_thread_times_close(&t->file);
	sp_thread_wait_forget(&t->wait);
	memset(t, 0, sizeof(*t));
}

static void cut(const struct sp_thread_waits *t, const struct sp_thread_labels_copy *c,
		uint64_t from, uint64_t now, struct sp_label_parts *out)
{
	const struct sp_label_window window = {
		.from_ns = from,
		.until_ns = now,
		.known = t->has_clocks ? t->n : c->first,
		.had_label = t->has_label,
	};

	sp_label_parts_cut(c, &window, out);
}

/* What is put down */

static const struct sp_wait_leaf leaf_processor = {"[waiting for a CPU]", SP_WAITED_CPU};
static const struct sp_wait_leaf leaf_unseen = {"[unseen waits]", SP_WAITED_UNKNOWN};

static void put_down(struct sp_thread_waits_env *e, struct sp_thread_waits *t,
		     const struct sp_wait *w, enum sp_waited waited)
{
	if (w->ns == 0)
		return;
	e->put_ns += w->ns;
	t->has_wait |= w->label->span_id == t->label_id && w->leaf != leaf_unseen.text;
	sp_span_waited_add(&t->waited, w->label, waited, w->ns);
	e->wait.hooks.put(e->wait.hooks.arg, w);
}

static void put(struct sp_thread_waits_env *e, struct sp_thread_waits *t,
		const struct sp_thread_label *label, const struct sp_wait_leaf *leaf, uint64_t ns)
{
	const struct sp_wait w = {
		.label = label,
		.tid = t->tid,
		.leaf = leaf->text,
		.flags = SP_SAMPLE_ROOTED,
		.begins = true,
		.ns = ns,
	};

	put_down(e, t, &w, leaf->waited);
}

static void put_wait(struct sp_thread_waits_env *e, struct sp_thread_waits *t, bool begins,
		     uint64_t ns)
{
	const struct sp_wait w = {
		.label = &t->label,
		.tid = t->tid,
		.leaf = t->wait.leaf.text,
		.pc = t->wait.pc,
		.epoch = t->wait.epoch,
		.depth = t->wait.depth,
		.flags = t->wait.flags,
		.begins = begins,
		.ns = ns,
	};

	put_down(e, t, &w, t->wait.leaf.waited);
}

/* What was found out about a thread under the label that it has now. */
struct finding {
	bool had;      /* it was waiting, with this label, when it was last looked at */
	bool is_still; /* it has hardly run since */
	enum sp_sight sight;
	struct sp_task_place place;
};

static bool is_same(const struct sp_thread_waits *t, const struct finding *f)
{
	const struct sp_thread_wait *w = &t->wait;
	bool is_refused = f->sight == SP_SAW_REFUSAL;

	return f->had && w->is_refused == is_refused &&
	       (is_refused || memcmp(&f->place, &w->place, sizeof(f->place)) == 0);
}

static void find(struct sp_thread_waits_env *e, struct sp_thread_waits *t, struct finding *f)
{
	if (f->had && f->is_still && ++t->wait.looks % SURE_LOOKS != 0) {
		f->sight = t->wait.is_refused ? SP_SAW_REFUSAL : SP_SAW_WAITING;
		f->place = t->wait.place;
		return;
	}
	f->sight = sp_thread_wait_see(&e->wait, t->tid, &f->place);
}

/* Time that the thread was blocked under the label that it has now. */
static void place_now(struct sp_thread_waits_env *e, struct sp_thread_waits *t,
		      const struct finding *f, uint64_t ns)
{
	bool same = is_same(t, f);
	bool begins = !same || !f->is_still;

	ns += t->left_ns;
	t->left_ns = 0;
	t->wait.is_known = f->sight == SP_SAW_WAITING || f->sight == SP_SAW_REFUSAL;
	if (t->wait.is_known && !same)
		sp_thread_wait_enter(&e->wait, &t->wait, t->tid, f->sight, &f->place);
	if (t->wait.is_known) {
		put_wait(e, t, begins, ns);
	} else if (f->had && f->sight == SP_SAW_RUNNING && !f->is_still) {
		/* The rest of the wait that it was seen in. */
		put_wait(e, t, false, ns);
	} else {
		/* What it waited for a processor, the clock of that tells when it has got one. */
		t->left_ns = ns;
	}
	t->is_starved = f->sight == SP_SAW_RUNNING && f->is_still;
}

/* The label that it had has ended, or another one has begun. */
static void leave_label(struct sp_thread_waits_env *e, struct sp_thread_waits *t)
{
	if (t->has_label)
		put(e, t, &t->label, t->is_starved ? &leaf_processor : &leaf_unseen, t->left_ns);
	t->is_starved = false;
	t->left_ns = 0;
}

/* Time under labels that are over. */
static void place_past(struct sp_thread_waits_env *e, struct sp_thread_waits *t,
		       const struct sp_label_part *p, uint64_t ns)
{
	if (p->is_first && t->wait.is_known) {
		put_wait(e, t, false, ns + t->left_ns);
		t->left_ns = 0;
	} else if (p->is_first) {
		t->left_ns += ns;
	} else {
		put(e, t, &p->label, &leaf_unseen, ns);
	}
}

static bool is_quiet(const struct sp_thread_waits *t, const struct sp_label_part *p,
		     enum sp_sight sight)
{
	if (p->is_now)
		return sight == SP_SAW_WAITING || sight == SP_SAW_REFUSAL;
	return p->is_first && t->wait.is_known;
}

static void place(struct sp_thread_waits_env *e, struct sp_thread_waits *t,
		  struct sp_label_parts *p, const struct sp_spent *spent, bool is_still)
{
	const struct sp_label_part *now =
		p->n != 0 && p->part[p->n - 1].is_now ? &p->part[p->n - 1] : NULL;
	struct finding f = {.is_still = is_still, .sight = SP_SAW_RUNNING};
	struct sp_split split;
	uint64_t now_ns = 0;

	f.had = now != NULL && now->is_first && t->wait.is_known;
	/*
	 * To see what a thread waits in costs reading files of /proc. If the thread was not blocked
	 * since the last look, and no such time is left over, there is nothing to put to a wait,
	 * and the files are not read.
	 */
	if (now != NULL && spent->off_ns + t->left_ns != 0)
		find(e, t, &f);
	for (unsigned i = 0; i < p->n; i++)
		p->part[i].is_quiet = is_quiet(t, &p->part[i], f.sight);
	sp_label_parts_divide(p, spent, &split);
	for (unsigned i = 0; i < p->n; i++) {
		const struct sp_label_part *part = &p->part[i];
		struct sp_spent own;

		sp_label_part_share(part, &split, &own);
		put(e, t, &part->label, &leaf_processor, own.delay_ns);
		if (part->is_now)
			now_ns = own.off_ns;
		else
			place_past(e, t, part, own.off_ns);
	}
	if (now == NULL || !now->is_first)
		leave_label(e, t);
	t->has_label = now != NULL;
	if (now == NULL) {
		t->wait.is_known = false;
		return;
	}
	t->label = now->label;
	place_now(e, t, &f, now_ns);
}

/*
 * The clocks of a thread that runs lag behind by up to a tick of the kernel, so that a thread that never waits
 * would seem to: what was put down too much is taken off later.
 */
static void spend(struct sp_thread_waits *t, uint64_t window_ns, uint64_t cpu_ns, uint64_t delay_ns,
		  struct sp_spent *out)
{
	int64_t off = (int64_t)window_ns - (int64_t)cpu_ns - t->lead_ns;
	uint64_t too_much = off < 0 ? (uint64_t)-off : 0;
	uint64_t back = too_much < t->left_ns ? too_much : t->left_ns;

	t->left_ns -= back;
	t->lead_ns = (int64_t)(too_much - back);
	off = off > 0 ? off : 0;
	t->delay_ns += (int64_t)delay_ns;
	out->delay_ns = t->delay_ns > 0 ? (uint64_t)t->delay_ns : 0;
	if (out->delay_ns > (uint64_t)off)
		out->delay_ns = (uint64_t)off;
	t->delay_ns -= (int64_t)out->delay_ns;
	out->off_ns = (uint64_t)off - out->delay_ns;
}

/* Time that was left when the thread was seen running, and that it had waited for a processor, as it proves now. */
static void explain_left(struct sp_thread_waits_env *e, struct sp_thread_waits *t)
{
	uint64_t ns = t->delay_ns > 0 ? (uint64_t)t->delay_ns : 0;

	ns = ns < t->left_ns ? ns : t->left_ns;
	put(e, t, &t->label, &leaf_processor, ns);
	t->left_ns -= ns;
	t->delay_ns -= (int64_t)ns;
}

/* No clock goes further than that in the lifetime of a machine; the sums below are safe then. */
#define TIME_MAX_NS (UINT64_C(1) << 60)

static uint64_t since(uint64_t now, uint64_t then)
{
	uint64_t ns = now > then ? now - then : 0;

	return ns < TIME_MAX_NS ? ns : TIME_MAX_NS;
}

/* The thread has ended; its clocks are gone. Where it waited when it was last seen it waited to the end. */
static void end(struct sp_thread_waits_env *e, struct sp_thread_waits *t,
		const struct sp_thread_labels_copy *c)
{
	uint64_t now = sp_clock_mono_ns();
	struct sp_label_parts p;

	if (t->has_clocks && t->has_label && t->wait.is_known && c != NULL) {
		cut(t, c, t->last_ns < now ? t->last_ns : now, now, &p);
		for (unsigned i = 0; i < p.n; i++)
			if (p.part[i].is_first && !p.part[i].is_now)
				put_wait(e, t, false, p.part[i].ns);
	}
	leave_label(e, t);
	sp_thread_waits_forget(t);
}

static void begin(struct sp_thread_waits *t, const struct sp_thread_labels_copy *c)
{
	t->tid = c->tid;
	t->n = c->first;
	t->times.cpu_ns = c->cpu_ns;
}

/* A look at a thread. */
struct look {
	const struct sp_thread_labels_copy *labels;
	struct sp_task_times times;
	uint64_t now;
};

/* What it was doing at this look. */
static enum sp_waited last_seen(const struct sp_thread_waits *t)
{
	if (t->is_starved)
		return SP_WAITED_CPU;
	return t->wait.is_known ? t->wait.leaf.waited : SP_WAITED_N;
}

/* What it computed since its last look, or, at the first one, since its first label. */
static void account(struct sp_thread_waits_env *e, struct sp_thread_waits *t, const struct look *at,
		    struct sp_thread_labels *labels)
{
	const struct sp_thread_labels_copy *c = at->labels;
	const struct sp_task_times *times = &at->times;
	uint64_t now = at->now;
	uint64_t from = t->has_clocks ? t->last_ns : c->label[0].since_ns;
	uint64_t cpu = since(times->cpu_ns, t->times.cpu_ns);
	struct sp_spent spent;
	struct sp_label_parts p;

	from = from < now && now - from < TIME_MAX_NS ? from : now;
	cut(t, c, from, now, &p);
	if (!t->has_clocks && cpu > p.window_ns)
		cpu = p.window_ns;
	t->label_id = c->label[c->labels - 1].span_id;
	t->has_wait = false;
	sp_span_waited_begin(&t->waited, c->label[c->labels - 1].part);
	spend(t, p.window_ns, cpu, t->has_clocks ? since(times->delay_ns, t->times.delay_ns) : 0,
	      &spent);
	explain_left(e, t);
	place(e, t, &p, &spent, cpu <= STILL_NS);
	sp_span_waited_tell(&t->waited, last_seen(t), labels);
	/* Without a profile of waits, what is put down goes nowhere else. */
	if (t->has_wait && t->label_id != 0 &&
	    (e->wait.ops->config->off_cpu || e->wait.ops->config->wall))
		sp_thread_labels_note_wait(labels, t->label_id);
	t->has_clocks = true;
	t->times = *times;
	t->last_ns = now;
	t->n = c->n;
}

/* No label now, none at the last look, and none in between. */
static bool is_idle(const struct sp_thread_waits *t, const struct sp_thread_labels *labels,
		    uint32_t tid)
{
	if (tid != t->tid)
		return false;
	return t->is_gone || (t->has_clocks && !t->has_label &&
			      atomic_load_explicit(&labels->n, memory_order_relaxed) == t->n);
}

bool sp_thread_waits_look(struct sp_thread_waits_env *e, struct sp_thread_waits *t,
			  struct sp_thread_labels *labels)
{
	uint32_t tid = atomic_load_explicit(&labels->tid, memory_order_acquire);
	struct sp_thread_labels_copy c;
	struct look at = {.labels = &c};

	if (is_idle(t, labels, tid) || (tid == 0 && t->tid == 0))
		return false;
	sp_thread_labels_copy(labels, &c);
	if (c.tid != t->tid) {
		end(e, t, c.tid == 0 ? &c : NULL);
		if (c.tid == 0)
			return true;
		begin(t, &c);
	}
	if (c.labels == 0)
		return true;
	at.now = sp_clock_mono_ns();
	if (!sp_thread_times_read(&t->file, e->wait.ops->proc, t->tid, &at.times)) {
		end(e, t, &c);
		t->tid = c.tid;
		t->is_gone = true;
		return true;
	}
	account(e, t, &at, labels);
	return true;
}
