/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of the rules of spans, as simple as these rules, runs beside the sampler. It knows which span is active on
 * a thread, its local root, names and trace, and the label of a sample there. Random sequences of what SDKs, programs
 * and the kernel do (starts, ends, scopes, names, manual labels, threads that end, forks) go to both, and after each
 * step the test compares both for every thread.
 *
 * Each sequence runs in a process of its own. Its threads pass one baton around, so a sequence always gives the same
 * result. A sequence that fails is shortened as long as it still fails, and printed as calls.
 *
 * MODEL_SEQUENCES=N tries more of them (make model-long), MODEL_SEED=N others.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "sampler/base/process.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/region/names.h"
#include "sampler/region/thread_labels.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "test/common/rounds.h"
#include "test/common/span_end.h"
#include "test/unit/emulated.h"

#define THREADS 3U
#define SPANS 1200U
#define ENTRIES 1200U
#define STEPS_MAX 160U
#define STORAGE 3U /* storages of the program; number 0 is the SDKs' */
#define NOBODY SPANS
/* Ids of manual labels are greater than those of spans. */
#define LABEL_ID 5000U
#define REMOTE 10000U
#define AGE_S 10U
/* A limit on CPU time, because the machine may be busy; and one for a sequence that waits for ever. */
#define CPU_LIMIT_S 20U
#define LIMIT_S 600U
#define SHRINK_S 8

enum kind {
	START,
	END,
	RENAME,
	ATTACH,
	DETACH,
	LABEL,
	UNLABEL,
	FORGET,
	SILENCE,
	AGREES,
	TELLS,
	SAMPLE,
	WAIT,
	KEYS,
	SWEEP,
	EXIT,
	FORK
};

/* Fields that a kind does not name are 0. */
struct step {
	uint8_t kind, thread, how, sdk, trace, storage;
	bool flag; /* START: found by its id; DETACH: through; LABEL: shown */
	uint16_t span, object, parent, key, name;
	uint16_t
		times; /* START, END, ATTACH, DETACH: number of repetitions, with consecutive spans and
                        * keys (precede) */
};

#define PARENT_UNSAID 0U
#define PARENT_NONE (SPANS + 1U)
#define PARENT_REMOTE (SPANS + 2U)

static struct setup {
	enum sp_active_span source;
	enum sp_label_scope id, name;
	bool trace_id;
	bool shown; /* the exporter asks for the labels */
	bool deep;  /* stacks are deeper than the limit */
	/* as in an event loop: many spans are started, and all but the last one end at once */
	bool loop;
} setup;
static struct step steps[STEPS_MAX];
static unsigned n_steps;

/* --- The model ------------------------------------------------------------------------------------ */

enum by { STARTED, STANDS_IN, YIELDS, ATTACHED, LABELLED };

struct entry {
	enum by by;
	unsigned span;  /* 0 = none; the id of a label */
	unsigned token; /* key and storage; the level of a label */
	unsigned name;  /* of a label */
	unsigned
		linked; /* the root of the span to which a start links, if it was open on this thread;
                         * or 0 */
	bool forgotten; /* its frame was forgotten */
};

static struct thread {
	bool has_block;
	struct entry list[ENTRIES];
	unsigned n;
	unsigned level;
	bool labelled[SP_MANUAL_LABEL_DEPTH_MAX + 1];
	bool forgot;  /* an entry was forgotten at some time */
	bool forgets; /* as the sampler reports: of some entries it knows at most the root */
	/*
	 * Scopes were forgotten whose tokens are unknown, or scopes of a silent storage. True until none of them is
	 * left.
	 */
	bool forgets_more;
	/* The first local root that was active, and the number of such roots. */
	struct {
		unsigned n, id, name;
	} roots;
	/*
	 * Since the label was last shown: stale: another change may have replaced it; struck: its span was ended
	 * elsewhere.
	 */
	bool stale, struck;
	unsigned wait; /* a span with a wait that the exporter has noted since then */
} threads[THREADS];

static struct span {
	bool was, open, by_id, root_open, sampled, waited;
	unsigned object, sdk, trace, root, name, root_name;
	unsigned on;    /* the thread on which its start put it, or NOBODY */
	bool orphan;    /* that thread has ended */
	bool forgotten; /* its entry there was forgotten */
	uint8_t keys;
	unsigned seen_s; /* time of the first sweep that saw it; 0 = none yet */
} spans[SPANS];

static bool scoped, silent, forked;
static unsigned n_spans = 1, now_s = 100, started, ended, aged, full;

struct answer {
	enum sp_span_active what;
	unsigned id, root, name, root_name, trace; /* trace + 1, 0 = none */
	unsigned top;                              /* the span of the deciding entry */
	bool forgotten;                            /* that entry was forgotten */
};

static bool counts(const struct entry *e)
{
	return !(e->by == YIELDS && scoped) &&
	       !(e->by == ATTACHED && silent && e->token % SP_SPAN_STORAGES == STORAGE);
}

static bool stands_in(const struct entry *e)
{
	return e->by == STANDS_IN || e->by == YIELDS;
}

static bool is_open(unsigned span)
{
	return span < SPANS && spans[span].open;
}

/* Renaming a root changes the name for all spans below it; after its end the root has its last name for ever. */
static unsigned root_name(unsigned span)
{
	const struct span *s = &spans[span];

	return s->root == span || s->root_open ? spans[s->root].name : s->root_name;
}

static void root_ended(struct span *s)
{
	if (s->root_open)
		s->root_name = spans[s->root].name;
	s->root_open = false;
}

/*
 * Whether another root is open below, by a start of the same SDK that stands in for a scope. Such a root does not
 * count if the span links to it, directly or through the links of spans between the two.
 */
static bool interleaves(const struct thread *t, unsigned at)
{
	const struct span *top = &spans[t->list[at].span];
	unsigned linked = t->list[at].linked;
	unsigned root = top->root;

	for (unsigned i = at; stands_in(&t->list[at]) && i-- > 0;) {
		unsigned n = stands_in(&t->list[i]) && counts(&t->list[i]) ? t->list[i].span : 0;

		if (!spans[n].open)
			continue;
		if (spans[n].root == root || spans[n].root == top->root ||
		    (linked != 0 && spans[n].root == linked)) {
			root = spans[n].root;
			linked = t->list[i].linked != 0 ? t->list[i].linked : linked;
		} else if (spans[n].sdk == top->sdk) {
			return true;
		}
	}
	return false;
}

/* The active span on the thread; beneath: without manual labels. */
static struct answer peek(const struct thread *t, bool beneath)
{
	struct answer a = {.what = SP_SPAN_NONE};

	for (unsigned i = t->n; i-- > 0;) {
		const struct entry *e = &t->list[i];

		if (!counts(e) || (e->by == LABELLED && beneath))
			continue;
		a.top = e->span;
		a.forgotten = e->forgotten;
		if (e->by == LABELLED) {
			struct answer around = peek(t, true);

			return (struct answer){.what = SP_SPAN_LABEL,
					       .id = e->span,
					       .root = e->span,
					       .name = e->name,
					       .root_name = e->name,
					       .trace = around.what == SP_SPAN_KNOWN ? around.trace
										     : 0,
					       .forgotten = e->forgotten};
		}
		/* A started span is active until its end, an attached one until the detach. */
		if (!is_open(e->span) && e->by != ATTACHED)
			continue;
		if (!is_open(e->span))
			return a;
		a.what = interleaves(t, i) ? SP_SPAN_INTERLEAVED : SP_SPAN_KNOWN;
		a.id = e->span;
		a.root = spans[e->span].root;
		a.name = spans[e->span].name;
		a.root_name = root_name(e->span);
		a.trace = spans[e->span].trace + 1;
		return a;
	}
	return (struct answer){.what = SP_SPAN_NONE};
}

/* Open spans and scopes that are not detached have frames, as long as there is room. */
static bool wants_frame(const struct entry *e)
{
	return !e->forgotten && counts(e) &&
	       (e->by == ATTACHED || e->by == LABELLED || is_open(e->span));
}

/* If all frames are in use, the oldest ones are forgotten. */
static void make_room(struct thread *t)
{
	unsigned left = SP_SPAN_FORGET;
	unsigned n = 0;

	for (unsigned i = 0; i < t->n && t->n >= SP_SPAN_DEPTH_MAX; i++)
		n += wants_frame(&t->list[i]);
	for (unsigned i = 0; n == SP_SPAN_DEPTH_MAX && i < t->n; i++) {
		struct entry *e = &t->list[i];

		if (!wants_frame(e))
			continue;
		e->forgotten = t->forgot = true;
		if (e->by < ATTACHED)
			spans[e->span].forgotten = true;
		n -= --left == 0;
	}
}

/* Whether a forgotten entry still counts. */
static bool has_forgotten(const struct thread *t)
{
	for (unsigned i = 0; i < t->n && t->forgot; i++)
		if (t->list[i].forgotten && t->list[i].by >= ATTACHED)
			return true;
	for (unsigned i = 1; i < n_spans && t->forgot; i++)
		if (spans[i].open && spans[i].forgotten && !spans[i].orphan &&
		    spans[i].on == (unsigned)(t - threads))
			return true;
	return false;
}

static void put(struct thread *t, struct entry e)
{
	struct answer a;

	make_room(t);
	t->list[t->n++] = e;
	a = peek(t, false);
	if (t->roots.n >= 2 || a.what == SP_SPAN_NONE)
		return;
	if (a.what == SP_SPAN_INTERLEAVED) {
		t->roots.n = 2;
	} else if (t->roots.n == 0 || t->roots.id != a.root) {
		t->roots.n++;
		t->roots.id = a.root;
		t->roots.name = a.root_name;
	}
}

static void take(struct thread *t, unsigned at, bool through)
{
	if (through)
		t->n = at;
	else
		memmove(&t->list[at], &t->list[at + 1], (--t->n - at) * sizeof(t->list[0]));
}

/* The index of the topmost entry with that token; t->n if there is none. */
static unsigned find_token(const struct thread *t, enum by by, unsigned token)
{
	for (unsigned i = t->n; i-- > 0;) {
		if (t->list[i].by == by && t->list[i].token == token)
			return i;
	}
	return t->n;
}

static void take_token(struct thread *t, enum by by, unsigned token, bool through)
{
	unsigned at = find_token(t, by, token);

	/* A silent storage says nothing reliable about other storages. */
	if (at < t->n)
		take(t, at, through && counts(&t->list[at]));
}

static void take_wait(struct thread *t)
{
	if (is_open(t->wait))
		spans[t->wait].waited = true;
	t->wait = 0;
}

/* Must happen now: later it is unknown to which span these waits belong. */
static void note_waits(struct thread *by, unsigned n)
{
	take_wait(by);
	if (spans[n].on != NOBODY && !spans[n].orphan)
		take_wait(&threads[spans[n].on]);
}

/* Shows the thread's label to the exporter. */
static void show(struct thread *t)
{
	take_wait(t);
	t->stale = t->struck = false;
}

static void close_span(unsigned n, struct thread *by)
{
	struct span *s = &spans[n];

	note_waits(by, n);
	if (by->roots.id == n)
		by->roots.name = s->name;
	s->open = false;
	for (unsigned i = 1; i < n_spans; i++) {
		if (spans[i].root == n)
			root_ended(&spans[i]);
	}
	for (struct thread *t = threads; t < threads + THREADS; t++) {
		t->stale |= t != by;
		for (unsigned i = 0;
		     i < t->n && t != by && (unsigned)(t - threads) == s->on && !s->orphan; i++)
			t->struck |= t->list[i].span == n && t->list[i].by < ATTACHED &&
				     counts(&t->list[i]);
	}
	show(by);
}

static bool activates(enum sp_activation how)
{
	switch (setup.source) {
	case SP_ACTIVE_START:
		return true;
	case SP_ACTIVE_SCOPE:
		return how == SP_ACTIVATION_START;
	case SP_ACTIVE_AUTO:
		return how != SP_ACTIVATION_SCOPE || !scoped;
	case SP_ACTIVE_CONTEXT:
		break;
	}
	return false;
}

static bool looks_at_scopes(void)
{
	return setup.source == SP_ACTIVE_AUTO || setup.source == SP_ACTIVE_SCOPE;
}

static bool model_start(struct thread *t, const struct step *s)
{
	struct span *n = &spans[s->span];
	const struct span *to = &spans[s->key];
	unsigned linked =
		s->key < n_spans && to->open && to->on == (unsigned)(t - threads) ? to->root : 0;
	struct answer a;

	t->has_block = true;
	if (s->span == 0)
		return false;
	if (n->open)
		return n->object == s->object && n->by_id == s->flag;
	/* An SDK reuses an object only after its span has ended, so that end was missed. */
	for (unsigned i = 1; i < n_spans && !s->flag; i++) {
		if (spans[i].open && !spans[i].by_id && spans[i].object == s->object) {
			close_span(i, t);
			ended++;
		}
	}
	if (s->span >= n_spans)
		n_spans = s->span + 1U;
	*n = (struct span){.was = true,
			   .open = true,
			   .by_id = s->flag,
			   .root_open = true,
			   .object = s->object,
			   .sdk = s->sdk,
			   .trace = s->trace,
			   .root = s->span,
			   .name = s->name,
			   .root_name = s->name,
			   .on = NOBODY};
	a = peek(t, true);
	if (s->parent == PARENT_UNSAID && a.what == SP_SPAN_KNOWN &&
	    spans[a.id].trace == s->trace) {
		n->root = a.root;
		n->root_name = a.root_name;
	} else if (s->parent != PARENT_UNSAID && is_open(s->parent)) {
		n->root = spans[s->parent].root;
		n->root_name = root_name(s->parent);
	}
	n->root_open = spans[n->root].open;
	started++;
	if (activates(s->how)) {
		n->on = (unsigned)(t - threads);
		put(t, (struct entry){.by = s->how == SP_ACTIVATION_START ||
							    setup.source != SP_ACTIVE_AUTO
						    ? STARTED
					    : s->how == SP_ACTIVATION_SCOPE ? YIELDS
									    : STANDS_IN,
				      .span = s->span,
				      .linked = linked});
		show(t);
	}
	return true;
}

static bool model_end(struct thread *t, unsigned n)
{
	if (!is_open(n))
		return false;
	close_span(n, t);
	ended++;
	return true;
}

/* False if the program did not detach so many scopes that the sampler stops using scopes. */
static bool model_attach(struct thread *t, unsigned span, unsigned token)
{
	struct entry e = {.by = ATTACHED, .span = span, .token = token};

	if (!looks_at_scopes())
		return true;
	for (struct thread *other = threads; other < threads + THREADS && !scoped; other++)
		other->stale = true;
	scoped = true;
	t->has_block = true;
	if (!counts(&e))
		return true;
	put(t, e);
	show(t);
	return true;
}

static void model_detach(struct thread *t, unsigned token, bool through)
{
	take_token(t, ATTACHED, token, through);
	if (t->has_block)
		show(t);
}

static bool model_label(struct thread *t, const struct step *s)
{
	t->level++;
	t->has_block |= s->flag;
	if (!s->flag || t->level > SP_MANUAL_LABEL_DEPTH_MAX) {
		full += s->flag;
		return false;
	}
	t->labelled[t->level] = true;
	put(t, (struct entry){.by = LABELLED, .span = s->span, .token = t->level, .name = s->name});
	show(t);
	return true;
}

static bool model_unlabel(struct thread *t)
{
	if (t->level == 0)
		return false;
	if (t->level <= SP_MANUAL_LABEL_DEPTH_MAX && t->labelled[t->level]) {
		t->labelled[t->level] = false;
		take_token(t, LABELLED, t->level, false);
		show(t);
	}
	t->level--;
	return true;
}

static void model_forget(struct thread *t)
{
	for (unsigned i = t->n; i-- > 0;) {
		if (t->list[i].by == ATTACHED)
			take(t, i, false);
	}
	t->struck = false;
}

static void model_silence(struct thread *by)
{
	silent = true;
	for (struct thread *t = threads; t < threads + THREADS; t++) {
		t->stale |= t != by;
		t->struck = false;
	}
	take_wait(by);
}

/* Whether the answer of that storage agrees with what it has attached. */
static bool model_agrees(const struct thread *t, const struct step *s)
{
	struct answer a = peek(t, false);
	unsigned attached = 0;

	if (!looks_at_scopes() || !t->has_block)
		return true;
	for (unsigned i = 0; i < t->n; i++) {
		if (t->list[i].by == ATTACHED && t->list[i].token % SP_SPAN_STORAGES == s->storage)
			attached = t->list[i].span;
	}
	return s->span == attached ||
	       (s->span != 0 && a.what == SP_SPAN_KNOWN && a.id == s->span) ||
	       (!is_open(attached) && !is_open(s->span));
}

static bool model_tells(const struct thread *t, const struct step *s)
{
	struct answer a = peek(t, true);

	return t->has_block && looks_at_scopes() &&
	       (s->trace == 2 || (a.what == SP_SPAN_KNOWN && a.trace == s->trace + 1U));
}

static void model_sweep(struct thread *t, unsigned now)
{
	for (unsigned i = 1; i < n_spans; i++) {
		if (!spans[i].open)
			continue;
		if (spans[i].seen_s == 0) {
			spans[i].seen_s = now;
		} else if (now - spans[i].seen_s >= AGE_S) {
			close_span(i, t);
			aged++;
		}
	}
}

static void model_thread_ended(unsigned number)
{
	memset(&threads[number], 0, sizeof(threads[number]));
	for (unsigned i = 1; i < n_spans; i++)
		spans[i].orphan |= spans[i].on == number;
}

/* --- The sampler ---------------------------------------------------------------------------------- */

static struct {
	char why[200];
} * verdict;
static const struct sp_thread *blocks[THREADS];
static struct sp_thread_labels_part *part;
static bool alive[THREADS];

#define PLACES 64U

/* Model and sampler must say the same about the span or thread of that number. */
static void same(const char *what, unsigned number, uint64_t is, uint64_t should)
{
	if (is == should)
		return;
	(void)snprintf(verdict->why, sizeof(verdict->why), "%s %u: %lu instead of %lu", what,
		       number, is, should);
	_exit(EXIT_FAILURE);
}

static size_t name_text(char text[16], unsigned name)
{
	return (size_t)snprintf(text, 16, "n%u", name);
}

static uint32_t name_id(unsigned name)
{
	char text[16];

	return name != 0 ? sp_names_intern(text, name_text(text, name)) : 0;
}

static void fill_trace(uint8_t *trace, unsigned number)
{
	memset(trace, number != 0 ? 0x59 + (int)number : 0, 16);
}

static const void *object_at(unsigned object)
{
	return (const void *)(uintptr_t)(0x10000 + object * 64);
}

static bool find_span(unsigned n, struct sp_span_record *r)
{
	const void *object = object_at(spans[n].object);

	return spans[n].by_id ? sp_span_of_id(n, object, r)
			      : sp_span_of(object, r) && r->span_id == n;
}

static void do_start(struct thread *t, const struct step *s)
{
	uint64_t id = s->span;
	uint64_t parent = s->parent != PARENT_NONE ? s->parent : 0;
	struct answer above = peek(t, true);
	bool deep = t->forgets && !spans[id].was && s->parent == PARENT_UNSAID;
	char name[16];
	struct sp_span_start start = {.handle = object_at(s->object),
				      .name = name,
				      .name_len = name_text(name, s->name),
				      .how = s->how,
				      .has_parent = s->parent != PARENT_UNSAID,
				      .by_id = s->flag,
				      .sdk = s->sdk};
	struct sp_span_record r;

	start.linked_root = s->key < SPANS ? sp_active_span_linked_root(s->key) : 0;

	/* No SDK reuses an id. */
	if (spans[id].was && !spans[id].open)
		return;
	memcpy(start.span_id, &id, sizeof(id));
	memcpy(start.parent_id, &parent, sizeof(parent));
	fill_trace(start.trace_id, s->trace + 1U);
	same("the start of span", s->span, sp_span_started(&start), model_start(t, s));
	/* The root of a span below a forgotten entry is right or unknown. */
	if (!deep || !find_span(s->span, &r) || r.root_id == spans[id].root)
		return;
	same("the root of span", s->span, r.root_id,
	     r.root_id != id && above.top < SPANS ? spans[above.top].root : id);
	spans[id].root = (unsigned)r.root_id;
	spans[id].root_open = is_open(spans[id].root);
	spans[id].root_name = r.root_id == id ? s->name : spans[r.root_id].name;
}

static bool end(struct thread *t, unsigned n)
{
	struct sp_span_record r;

	if (!find_span(n, &r))
		return false;
	if (!spans[n].by_id && n % 2 != 0)
		return span_ended(object_at(spans[n].object));
	if (!sp_span_close(&r))
		return false;
	same("closed twice is span", n, sp_span_close(&r), false);
	note_waits(t, n);
	same("has a sample at its end: span", n, sp_span_table_has_sample(&r), spans[n].sampled);
	same("has a wait at its end: span", n, sp_span_table_has_wait(&r), spans[n].waited);
	same("is noted at its end: span", n, sp_span_table_has_mark(&r),
	     spans[n].sampled || spans[n].waited);
	sp_span_table_release(&r);
	return true;
}

static void do_rename(const struct step *s)
{
	struct sp_span_record r;
	char text[16];
	size_t len = name_text(text, s->name);
	bool is = find_span(s->span, &r);

	if (is && spans[s->span].by_id)
		sp_span_rename(&r, text, len);
	else if (is)
		is = sp_span_renamed(object_at(spans[s->span].object), text, len);
	same("the new name of span", s->span, is, is_open(s->span));
	if (is)
		spans[s->span].name = s->name;
	/* Samples have the new name at once; the exporter learns it with the next change of the label. */
	for (struct thread *t = threads; t < threads + THREADS; t++)
		t->stale |= is;
}

/* A sample with the thread's label, or a wait with it that the exporter has seen. */
static void do_note(struct thread *t, bool wait)
{
	struct sp_span_label label;

	if (!t->has_block || (wait && part == NULL))
		return;
	sp_active_span_label(&sp_thread_own->spans, &label);
	if (wait) {
		t->wait = (unsigned)label.span_id;
		sp_thread_labels_put_wait(&part->thread[sp_thread_own->index], label.span_id);
	} else {
		sp_span_table_mark_sample(label.ref, label.span_id);
		if (is_open((unsigned)label.span_id))
			spans[label.span_id].sampled = true;
	}
}

static void do_keys(const struct step *s)
{
	struct sp_span_record r;

	if (!find_span(s->span, &r))
		return;
	sp_span_keys_add(&r, (uint8_t)s->key);
	spans[s->span].keys |= (uint8_t)s->key;
}

/* The child continues the sequence. This is its only thread. */
static void do_fork(unsigned me)
{
	struct sp_span_record r;
	int status = 0;
	pid_t pid = fork();

	if (pid != 0) {
		(void)waitpid(pid, &status, 0);
		_exit(pid > 0 && status == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	(void)alarm(LIMIT_S);
	sp_process_forked();
	sp_span_forked(sp_thread_forked());
	memset(alive, 0, sizeof(alive));
	memset(blocks, 0, sizeof(blocks));
	alive[me] = true;
	forked = true;
	for (unsigned i = 0; i < THREADS; i++) {
		if (i != me)
			model_thread_ended(i);
	}
	for (unsigned i = 1; i < n_spans; i++) {
		struct span *s = &spans[i];
		bool is = s->open && find_span(i, &r);
		bool kept = s->on == me && !s->orphan;
		bool on_list = false;

		for (unsigned k = 0; k < threads[me].n; k++) {
			on_list |= threads[me].list[k].span == i;
			kept |= threads[me].list[k].span == i && counts(&threads[me].list[k]);
		}
		/* An entry that counts for nothing may still be there, and so may one that lies too deep. */
		if (s->open &&
		    (kept ? !threads[me].forgets : !on_list && s->on != me && !s->orphan))
			same("in the child is open: span", i, is, kept);
		s->open = is;
		s->seen_s = 0;
		/* The table's entries have moved, so marks of other entries may be read. */
		s->sampled = is && sp_span_table_has_sample(&r);
		s->waited = is && sp_span_table_has_wait(&r);
	}
	for (unsigned i = 1; i < n_spans; i++) {
		if (!spans[spans[i].root].open)
			root_ended(&spans[i]);
	}
}

/* One of the repetitions of a step. */
static void do_once(struct thread *t, const struct step *s)
{
	unsigned number = (unsigned)(t - threads);
	uint64_t token = sp_span_token_of(s->storage, s->key + 1U);
	uint64_t id = s->span;
	uint8_t trace[16];
	bool is = false;
	bool should = false;

	switch ((enum kind)s->kind) {
	case START:
		do_start(t, s);
		break;
	case END:
		is = end(t, s->span);
		should = model_end(t, s->span);
		break;
	case RENAME:
		do_rename(s);
		break;
	case ATTACH:
		/* A context may contain a span that is not recorded here. */
		id += id != 0 && !spans[id].was ? REMOTE : 0;
		is = sp_active_span_attached(token, id != 0 ? (const uint8_t *)&id : NULL);
		should = model_attach(t, (unsigned)id, (unsigned)token);
		break;
	case DETACH:
		/* The tokens of some forgotten scopes are unknown. */
		if (t->forgets && find_token(t, ATTACHED, (unsigned)token) == t->n)
			break;
		sp_active_span_detached(token, s->flag);
		model_detach(t, (unsigned)token, s->flag);
		break;
	case LABEL:
		sp_manual_label_enter();
		is = s->flag && sp_manual_label_show(id, name_id(s->name)) == 0;
		should = model_label(t, s);
		break;
	case UNLABEL:
		is = sp_manual_label_exit();
		should = model_unlabel(t);
		break;
	case FORGET:
		sp_active_span_forget_scopes();
		model_forget(t);
		break;
	case SILENCE:
		sp_active_span_silence(STORAGE);
		model_silence(t);
		break;
	case AGREES:
		if (silent && s->storage == STORAGE)
			break;
		is = sp_active_span_agrees(s->storage, id);
		should = model_agrees(t, s) || t->forgets;
		is |= t->forgets;
		break;
	case TELLS:
		fill_trace(trace, s->trace + 1U);
		is = sp_active_span_shows_parent(s->trace != 2 ? trace : NULL) && !t->forgets;
		should = model_tells(t, s) && !t->forgets;
		break;
	case SAMPLE:
	case WAIT:
		do_note(t, s->kind == WAIT);
		break;
	case KEYS:
		do_keys(s);
		break;
	case SWEEP:
		now_s += s->key;
		while (!sp_span_age_sweep(now_s * SP_NS_PER_S, AGE_S * SP_NS_PER_S))
			continue;
		model_sweep(t, now_s);
		break;
	case FORK:
		do_fork(number);
		break;
	case EXIT:
		if (sp_thread_own != NULL)
			(void)sp_thread_labels_take_wait(sp_thread_own->index);
		sp_thread_ended();
		model_thread_ended(number);
		break;
	}
	blocks[number] = sp_thread_own;
	same("what it says on thread", number, is, should);
}

/* --- Both ----------------------------------------------------------------------------------------- */

static void check_label(unsigned number, const struct answer *a, const struct sp_span_label *is)
{
	struct sp_span_label should = {.what = a->what};
	bool root = setup.id == SP_SCOPE_ROOT;

	if (a->what == SP_SPAN_KNOWN || a->what == SP_SPAN_LABEL) {
		if (setup.id != SP_SCOPE_NONE)
			should.span_id = root ? a->root : a->id;
		if (setup.name != SP_SCOPE_NONE)
			should.name_id =
				name_id(setup.name == SP_SCOPE_ROOT ? a->root_name : a->name);
		if (setup.trace_id)
			fill_trace(should.trace_id, a->trace);
	}
	same("the state of thread", number, is->what, should.what);
	same("the span that labels thread", number, is->span_id, should.span_id);
	same("the name that labels thread", number, is->name_id, should.name_id);
	same("the trace that labels thread", number, is->trace_id[0], should.trace_id[0]);
	same("the trace that labels, to its end, thread", number, is->trace_id[15],
	     should.trace_id[15]);
	if (a->what == SP_SPAN_KNOWN && is_open((unsigned)is->span_id))
		same("samples are noted of the label of thread", number,
		     sp_span_table_holds(is->ref, is->span_id), true);
}

/* The label of a forgotten entry may be missing, or be its root alone, but never another label. */
static void check_forgotten(unsigned number, const struct answer *a)
{
	struct sp_span_record r;
	enum sp_span_active is = sp_span_stack_peek(&blocks[number]->spans, &r);

	if (is == SP_SPAN_KNOWN || is == SP_SPAN_LABEL) {
		same("with forgotten ones, the state of thread", number, is, a->what);
		same("with forgotten ones, the span of thread", number, r.span_id, a->id);
	} else if (is == SP_SPAN_ROOT_ALONE) {
		same("with forgotten ones, a root in the state of thread", number,
		     a->what == SP_SPAN_KNOWN || a->what == SP_SPAN_NONE, true);
		same("with forgotten ones, the root of thread", number, r.root_id,
		     a->top < SPANS ? spans[a->top].root : 0);
	} else if (a->what == SP_SPAN_KNOWN || a->what == SP_SPAN_LABEL) {
		/* It is unknown to which SDK the forgotten entries belong. */
		same("with forgotten ones, nothing instead of the active one of thread", number,
		     a->forgotten || is == SP_SPAN_INTERLEAVED || threads[number].forgets_more,
		     true);
	}
}

/* The label that the exporter knows. */
static void check_shown(unsigned number, const struct sp_span_label *label)
{
	const struct thread *t = &threads[number];
	struct sp_thread_labels_copy copy = {0};
	struct sp_thread_label last = {0};
	bool some = label->span_id != 0 || label->name_id != 0;

	if (sp_thread_labels_copy(&part->thread[blocks[number]->index], &copy) &&
	    copy.tid == atomic_load(&blocks[number]->tid))
		last = copy.label;
	if (t->struck)
		same("an ended span is shown by thread", number, last.span_id, 0);
	if (t->stale || forked)
		return;
	same("the span shown by thread", number, last.span_id, label->span_id);
	same("the name shown by thread", number, last.name_id, label->name_id);
	same("the trace shown by thread", number, (uint8_t)last.trace[1],
	     some ? label->trace_id[8] : 0);
}

static void check_thread(unsigned number)
{
	struct thread *t = &threads[number];
	struct answer a = peek(t, false);
	const struct sp_span_stack *stack = &blocks[number]->spans;
	struct sp_span_label label;

	t->forgets = sp_span_stack_forgot(stack);
	t->forgets_more = t->forgets &&
			  (t->forgets_more || silent || stack->scopes == SP_SPAN_FORGOTTEN_SCOPES);
	if (t->forgets && !t->forgets_more)
		same("something was forgotten that is left on thread", number, has_forgotten(t),
		     true);
	if (t->forgets || has_forgotten(t)) {
		check_forgotten(number, &a);
		t->roots.n = stack->root.n;
		t->roots.id = (unsigned)stack->root.id;
		return;
	}
	sp_active_span_label(stack, &label);
	check_label(number, &a, &label);
	if (part != NULL)
		check_shown(number, &label);
	same("roots so far of thread", number, stack->root.n, t->roots.n);
	if (t->roots.n == 1 && !setup.deep) {
		same("the only root of thread", number, stack->root.id, t->roots.id);
		same("the name of the only root of thread", number, stack->root.name_id,
		     name_id(t->roots.name));
	}
}

static void check_spans(void)
{
	struct sp_span_record r;
	const void *object;
	unsigned open = 0;
	unsigned met = 0;
	uint32_t at = 0;

	for (unsigned i = 1; i < n_spans; i++) {
		const struct span *s = &spans[i];

		open += s->open;
		if (!s->was)
			continue;
		same("open is span", i, find_span(i, &r), s->open);
		object = object_at(s->object);
		same("found by its object is span", i, sp_span_of(object, &r) && r.span_id == i,
		     s->open && !s->by_id);
		same("found by its id is span", i, sp_span_of_id(i, object, &r),
		     s->open && s->by_id);
		same("found by another object is span", i, sp_span_of_id(i, object_at(SPANS), &r),
		     false);
		if (!find_span(i, &r))
			continue;
		same("the root of span", i, r.root_id, s->root);
		same("the name of span", i, r.name_id, name_id(s->name));
		same("the name of the root of span", i, sp_span_table_root_name(&r),
		     name_id(root_name(i)));
		same("a root is span", i, sp_span_is_root(&r), s->root == i);
		same("a sample has span", i, sp_span_table_has_sample(&r), s->sampled);
		same("the keys of span", i, sp_span_keys(&r), s->keys);
	}
	while (sp_span_table_next(&at, &r)) {
		same("met in the table is span", (unsigned)r.span_id, is_open((unsigned)r.span_id),
		     true);
		met++;
	}
	same("met are all spans but", 0, met, open);
	same("spans in the table", 0, sp_span_table_count(), open);
	same("counted starts", 0, sp_count_read(SP_COUNT_SPANS_STARTED), started);
	same("counted ends", 0, sp_count_read(SP_COUNT_SPANS_ENDED), ended);
	same("counted as given up", 0, sp_count_read(SP_COUNT_SPANS_AGED), aged);
	if (!setup.deep)
		same("counted labels without room", 0, sp_count_read(SP_COUNT_SPAN_STACK_FULL),
		     full);
}

static void do_step(const struct step *s)
{
	for (unsigned i = 0; i < s->times; i++) {
		unsigned back = s->kind == END || s->kind == DETACH ? i : 0;
		unsigned on = s->kind == START || s->kind == ATTACH ? i : 0;
		struct step one = *s;

		one.span = (uint16_t)(back > s->span ? 0
						     : s->span - back + (s->kind == START ? i : 0));
		one.object = (uint16_t)(s->object + on);
		one.key = (uint16_t)(back > s->key ? 0 : s->key - back + on);
		errno = 4711;
		do_once(&threads[s->thread], &one);
		if (s->kind != FORK && s->kind != EXIT)
			same("errno of thread", s->thread, (uint64_t)errno, 4711);
		for (unsigned t = 0; t < THREADS; t++) {
			if (blocks[t] != NULL && threads[t].has_block)
				check_thread(t);
		}
	}
	check_spans();
}

/* --- A sequence, in a process of its own ---------------------------------------------------------- */

static sem_t baton[THREADS];
static unsigned next;
static pthread_t gone;
static bool someone_gone;

static void *go_on(void *arg);

/* Passes the baton. A thread that the sequence names begins at its first turn, and waits for its next one. */
static void hand_over(unsigned to)
{
	pthread_t thread;

	if (alive[to]) {
		(void)sem_post(&baton[to]);
		return;
	}
	alive[to] = true;
	(void)sem_init(&baton[to], 0, 1);
	same("a new thread, number", to,
	     (uint64_t)pthread_create(&thread, NULL, go_on, (void *)(uintptr_t)to), 0);
}

static void *go_on(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	bool ended_here = false;

	while (!ended_here) {
		while (sem_wait(&baton[me]) != 0)
			continue;
		/* A thread that is ending may hold locks of the C library, which a fork would copy. */
		if (someone_gone)
			(void)pthread_join(gone, NULL);
		someone_gone = false;
		while (!ended_here && next < n_steps && steps[next].thread == me) {
			const struct step *s = &steps[next++];

			do_step(s);
			if (s->kind == EXIT) {
				alive[me] = false;
				gone = pthread_self();
				someone_gone = ended_here = true;
			}
		}
		if (next == n_steps)
			_exit(EXIT_SUCCESS);
		hand_over(steps[next].thread);
	}
	return NULL;
}

/* True if the sequence fails; verdict has the reason, except after a crash. */
static bool fails(void)
{
	int status = 0;
	pid_t pid;

	verdict->why[0] = '\0';
	if (n_steps == 0)
		return false;
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid != 0) {
		(void)waitpid(pid, &status, 0);
		return status != 0;
	}
	(void)alarm(LIMIT_S);
	(void)setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_LIMIT_S, CPU_LIMIT_S});
	sp_process_forked();
	sp_active_span_set_source(setup.source);
	sp_active_span_label_scopes = (struct sp_active_span_label_scopes){
		.id = setup.id, .name = setup.name, .trace_id = setup.trace_id};
	if (setup.shown) {
		part = calloc(1, SP_THREAD_LABELS_BYTES(PLACES));
		sp_thread_labels_use(part, SP_THREAD_LABELS_BYTES(PLACES));
		sp_shown_label_notes_waits = true;
	}
	hand_over(steps[0].thread);
	for (;;)
		(void)pause();
}

/* --- Random sequences ----------------------------------------------------------------------------- */

/* The weight of each kind in the draw, and the letters of its fields. */
static const struct {
	const char *name, *fields;
	unsigned weight;
} kinds[] = {
	[START] = {"start", "nsophdtfxk", 24},
	[END] = {"end", "sx", 6},
	[RENAME] = {"rename", "sn", 4},
	[ATTACH] = {"attach", "skmx", 18},
	[DETACH] = {"detach", "kmfx", 4},
	[LABEL] = {"label", "snfx", 5},
	[UNLABEL] = {"unlabel", "x", 2},
	[FORGET] = {"forget_scopes", "", 1},
	[SILENCE] = {"silence", "", 1},
	[AGREES] = {"agrees", "sm", 2},
	[TELLS] = {"tells_parent", "t", 2},
	[SAMPLE] = {"sample", "", 4},
	[WAIT] = {"wait", "", 4},
	[KEYS] = {"keys", "sk", 2},
	[SWEEP] = {"sweep", "k", 2},
	[EXIT] = {"exit", "", 1},
	[FORK] = {"fork", "", 1},
};

static uint64_t seed;

static unsigned below(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)((seed >> 11) % n);
}

static bool one_of(unsigned n)
{
	return below(n) == 0;
}

static uint8_t any_kind(void)
{
	unsigned sum = 0;
	uint8_t kind = 0;

	for (unsigned i = 0; i < SP_ARRAY_LEN(kinds); i++)
		sum += kinds[i].weight;
	for (sum = below(sum); sum >= kinds[kind].weight; kind++)
		sum -= kinds[kind].weight;
	/* The emulator fails in a child if a thread other than the first one forks it. */
	return kind == FORK && emulated() ? SAMPLE : kind;
}

/* One of the last n numbers. */
static uint16_t recent(unsigned last, unsigned n)
{
	return (uint16_t)(last > n ? last - below(n) : 1 + below(last + 1));
}

/* The numbers of the last steps: programs start something, and continue with something recent. */
static unsigned last_span, last_key, mostly_how;

static struct step any_step(unsigned thread)
{
	struct step s = {
		.kind = any_kind(),
		.thread = (uint8_t)thread,
		.how = (uint8_t)(one_of(3) ? below(3) : mostly_how),
		.sdk = (uint8_t)one_of(4),
		.trace = (uint8_t)one_of(6),
		.storage = one_of(3) ? STORAGE : 0,
		.flag = one_of(2),
		.span = one_of(8) ? 0 : recent(last_span, 6),
		.parent = !one_of(3) ? PARENT_UNSAID : (uint16_t)(PARENT_NONE + below(2)),
		.key = recent(last_key, 3),
		.name = (uint16_t)(1 + below(30)),
		.times = (uint16_t)((setup.deep && one_of(4)) || (setup.loop && one_of(2))
					    ? 1 + below(90)
					    : 1),
	};

	if (s.parent != PARENT_UNSAID && one_of(2))
		s.parent = recent(last_span, 6);
	s.object = s.span;
	if (s.kind == START)
		s.key = s.key % 3 == 0 && last_span > s.key % 6 ? (uint16_t)(last_span - s.key % 6)
								: 0;
	if (s.kind == LABEL) {
		s.span = (uint16_t)(LABEL_ID + below(20));
		s.times = one_of(20) ? 40 : 1;
	} else if (s.kind == ATTACH && (setup.deep || setup.loop || !one_of(4))) {
		s.key = (uint16_t)(last_key + 1);
		last_key += s.times;
	} else if (s.kind == KEYS || s.kind == SWEEP) {
		s.key = (uint16_t)(1 + below(AGE_S));
	} else if (s.kind == TELLS && one_of(2)) {
		s.trace = 2;
	}
	/* Two hooks may report one span, and two objects may stand for it. */
	if (s.kind != START || (one_of(15) && s.times == 1))
		return s;
	s.span = (uint16_t)(last_span + 1);
	last_span += s.times;
	s.object = one_of(12) && s.times == 1 ? recent(last_span, 5) : s.span;
	return s;
}

static void make_sequence(void)
{
	/* The open scopes and spans of each thread, which good programs end in reverse order. */
	static struct step open[THREADS][STEPS_MAX];
	unsigned n_open[THREADS] = {0};
	unsigned thread = 0;

	setup.id = one_of(3) ? below(3) : SP_SCOPE_ROOT;
	setup.name = one_of(3) ? below(3) : SP_SCOPE_ALL;
	setup.trace_id = !one_of(4);
	setup.shown = !one_of(3);
	mostly_how = below(3);
	last_span = last_key = 0;
	n_steps = 20 + below(STEPS_MAX - 20);
	for (unsigned i = 0; i < n_steps; i++) {
		struct step *s = &steps[i];
		struct step *end;

		if (one_of(setup.loop ? 20 : 5))
			thread = below(THREADS);
		if (n_open[thread] != 0 &&
		    (below(10) < (setup.loop ? 3U : 4U) || last_span + 100 >= SPANS)) {
			*s = open[thread][--n_open[thread]];
			continue;
		}
		*s = any_step(last_span + 100 < SPANS ? thread : 0);
		if (s->kind == EXIT)
			n_open[thread] = 0;
		if (s->kind != START && s->kind != ATTACH && s->kind != LABEL)
			continue;
		end = &open[thread][n_open[thread]++];
		*end = *s;
		end->span = (uint16_t)(s->span + s->times - 1);
		end->key = (uint16_t)(s->key + s->times - 1);
		end->kind = s->kind == START ? END : s->kind == ATTACH ? DETACH : UNLABEL;
		if (!setup.loop || end->kind == UNLABEL || s->times == 1 || i + 1 == n_steps)
			continue;
		end->times = 1;
		steps[++i] = *end;
		steps[i].times = (uint16_t)(s->times - 1);
		steps[i].span--;
		steps[i].key--;
		steps[i].flag = false;
	}
}

/* Leaves out as many steps as possible, large parts first, then reduces repetitions; stops after a limit. */
static void shrink(void)
{
	static struct step whole[STEPS_MAX];
	time_t until = time(NULL) + SHRINK_S;
	bool less = true;

	for (unsigned size = n_steps; size > 0; size = less ? size : size / 2) {
		less = false;
		for (unsigned at = 0; at + size <= n_steps && time(NULL) < until;) {
			unsigned n = n_steps;

			memcpy(whole, steps, sizeof(whole));
			memmove(&steps[at], &steps[at + size], (n - at - size) * sizeof(steps[0]));
			n_steps -= size;
			if (fails()) {
				less = true;
				continue;
			}
			memcpy(steps, whole, sizeof(steps));
			n_steps = n;
			at += size;
		}
	}
	for (unsigned i = 0; i < n_steps; i++) {
		while (steps[i].times > 1 && time(NULL) < until) {
			steps[i].times--;
			if (!fails()) {
				steps[i].times++;
				break;
			}
		}
	}
}

static void print(char *to, size_t size)
{
	size_t used =
		(size_t)snprintf(to, size, "source %d, labels %d %d %d, shown %d:\n", setup.source,
				 setup.id, setup.name, setup.trace_id, setup.shown);

	for (unsigned i = 0; i < n_steps && used < size; i++) {
		const struct step *s = &steps[i];
		const struct {
			char letter;
			const char *name;
			unsigned value;
		} fields[] = {{'s', "span", s->span},     {'n', "name", s->name},
			      {'o', "object", s->object}, {'p', "parent", s->parent},
			      {'k', "key", s->key},       {'m', "storage", s->storage},
			      {'h', "how", s->how},       {'d', "sdk", s->sdk},
			      {'t', "trace", s->trace},   {'f', "flag", s->flag},
			      {'x', "times", s->times}};

		used += (size_t)snprintf(to + used, size - used, "\ton(%u); %s(", s->thread,
					 kinds[s->kind].name);
		for (unsigned f = 0; f < SP_ARRAY_LEN(fields) && used < size; f++) {
			if (strchr(kinds[s->kind].fields, fields[f].letter) != NULL)
				used += (size_t)snprintf(to + used, size - used, " %s %u",
							 fields[f].name, fields[f].value);
		}
		used += used < size ? (size_t)snprintf(to + used, size - used, ");\n") : 0;
	}
}

static void try_sequences(enum sp_active_span source, bool deep, bool loop, unsigned many)
{
	static char text[12000];
	const char *n = getenv("MODEL_SEQUENCES");
	const char *other = getenv("MODEL_SEED");

	setup.source = source;
	setup.deep = deep;
	setup.loop = loop;
	/* Sequences take ten times as long in the emulator. */
	if (emulated())
		many /= 5;
	many = ROUNDS(many);
	if (n != NULL)
		many = (unsigned)strtoul(n, NULL, 10);
	for (unsigned i = 0; i < many; i++) {
		seed = (i + 1 + (other != NULL ? strtoull(other, NULL, 10) : 0)) *
		       UINT64_C(0x9e3779b97f4a7c15);
		make_sequence();
		if (!fails())
			continue;
		shrink();
		cr_assert(fails(), "sequence %u does not fail each time", i);
		print(text, sizeof(text));
		cr_assert_fail("sequence %u: %s\n%s", i, verdict->why, text);
	}
}

static void set_up(void)
{
	sp_process_set();
	cr_assert_eq(sp_names_init(1000), 0);
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert_eq(sp_span_table_init(), 0);
	verdict = mmap(NULL, sizeof(*verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	cr_assert_neq(verdict, MAP_FAILED);
}

TestSuite(span_model, .init = set_up, .timeout = 3600);

Test(span_model, of_spans_that_are_active_as_the_sdks_say)
{
	try_sequences(SP_ACTIVE_AUTO, false, false, 300);
}

Test(span_model, of_stacks_that_are_deeper_than_we_keep_them)
{
	try_sequences(SP_ACTIVE_AUTO, true, false, 40);
}

Test(span_model, of_spans_that_are_active_by_scope)
{
	try_sequences(SP_ACTIVE_SCOPE, false, false, 60);
}

Test(span_model, of_spans_that_are_active_by_start)
{
	try_sequences(SP_ACTIVE_START, false, false, 60);
}

Test(span_model, of_spans_of_which_a_foreign_context_tells)
{
	try_sequences(SP_ACTIVE_CONTEXT, false, false, 20);
}

Test(span_model, of_event_loops_that_begin_more_than_we_keep_with_few_open)
{
	try_sequences(SP_ACTIVE_AUTO, false, true, 25);
}

Test(span_model, of_event_loops_where_spans_are_active_by_start)
{
	try_sequences(SP_ACTIVE_START, false, true, 25);
}
