/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads are looked at, when, and for how much time a look stands (off_cpu.h).
 *
 * Looks come at random instants, so that no program can be in step with them, and each is independent of what went
 * before. What a look finds (the span, the stack, and what the thread waits for) stands for all the time that the
 * thread was blocked since it was last found blocked: the time that has passed, less what its clocks say that it was on
 * a processor or waited for one. So the sum of a thread is that of its clocks, and each name gets of it what it has, in
 * expectation, however short its spans are. In the thread's own time, which stands still while it is not blocked,
 * these looks are a Poisson process, and the time before such a look is as long, on the average, wherever it falls.
 *
 * That gives the rules. Nothing depends on when spans began and ended. A look that finds the thread running
 * changes nothing, and one that finds it blocked outside of spans takes the time and throws it away. A look that
 * failed, came late, or was not made makes later ones stand for more. A thread gets the time of one look in advance,
 * because as much is left over when it ends.
 *
 * What a thread waited for a processor is an account of its own, which a look takes that finds it runnable: the kernel
 * does not show whether it is on a processor just then. Its advance is the part of a look's time that the thread waits
 * when it could run.
 *
 * Looking takes a bounded part of a processor. If that does not suffice, each thread is looked at with a chance, the
 * same for all: so large that the round takes its part of the time since the round before it. The time of one look is
 * then what has really passed, divided by the chance that there really was: nothing in it is learnt, and so nothing is
 * wrong with it while the exporter does not know yet what looks cost, or how late a busy machine lets it come.
 *
 * Who waits for a lock waits for a thread: the one that holds it at the time of the look (lock_owner.h). The span
 * of that thread is read between two readings of the lock that find the same owner, and after them the first thread
 * must not have gone on. So the owner had the lock, and this span, while the other waited. Where the owner is blocked
 * itself, its stack is read too, and counts if it holds the lock afterwards and has not run meanwhile.
 *
 * Where three looks in a row at each of some threads have found that it waits for the next one, in a circle, all of the
 * locks are read once more. If then none of the threads has run since those looks, each still waits for the next one:
 * a deadlock, which is told once.
 *
 * Context: the exporter.
 */
#include "export/off_cpu/off_cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/off_cpu/lock_owner.h"
#include "export/off_cpu/wait_leaf.h"
#include "export/off_cpu/wait_stack.h"
#include "export/util/clock.h"
#include "export/util/containers.h"

#define THREADS_MAX 65536U
/* Looking may take so much of a processor: 1.5 %. */
#define BUDGET 0.015
/* And no more of one round than of so much time. */
#define LATE_NS (3.0 * SP_OFF_CPU_PERIOD_NS)
/* What a look costs, as if so many had been made. */
#define LOOK_NS 20000.0
#define LOOKS 50
/* The first stacks take milliseconds, as the host's objects are read; that says nothing of what follows. */
#define LOOK_MOST_NS 100000.0
/* An exporter begins milliseconds after the first span. What threads have waited then is told if it is more than this. */
#define UNWATCHED_NS SP_NS_PER_S
/* So many rounds are averaged over. */
#define ROUNDS 64
/* So many looks in a row make a deadlock. */
#define DEADLOCK_LOOKS 3
/* A chance of one. */
#define ALWAYS (UINT64_C(1) << 20)

/* Where a thread was found blocked, with its stack. */
struct place {
	bool is_known;
	uint64_t slices; /* of its time on processors: it has not run since if that is the same */
	struct sp_task_place at;
	uint32_t epoch;
	uint16_t depth;
	uint16_t flags;
	uint64_t *pc;
	size_t pc_cap;
	char leaf[SP_WAIT_LEAF];
};

/* Zero at first. */
struct thread {
	uint32_t tid; /* 0 = none */
	uint32_t n;   /* of its label at the last look */
	bool is_gone; /* that thread has ended, though its place does not say so */
	bool is_idle; /* it was blocked outside of spans */
	bool has_clocks;
	uint32_t idle_looks;
	bool has_skipped; /* its clocks are of before at_ns */
	uint64_t at_ns;   /* when these were read */
	struct sp_task_times times;
	struct sp_task_file file;
	uint64_t advance_ns; /* that it has got */
	int64_t blocked_ns; /* since a look has last taken it; the clocks of a thread that runs lag */
	int64_t delay_ns;
	uint64_t delay_advance_ns;
	struct place place;
	uint32_t
		owner; /* of the lock that it waits for: its place in the array, plus 1; 0 = not known */
	uint32_t waited; /* looks in a row that have found that, without having run between */
	uint64_t wait_slices;
	bool is_told; /* of that wait, that it is part of a deadlock */
};

struct sp_off_cpu {
	const struct sp_core_ops *ops;
	struct sp_off_cpu_hooks hooks;
	struct sp_off_cpu_kernel kernel;
	struct sp_wait_stacks *stacks;
	struct sp_sockets sockets;
	const struct sp_thread_labels_part *labels; /* during a round */
	struct thread *thread;
	size_t cap;
	uint32_t last_owner; /* its place in the array; many threads may wait for one */
	uint32_t threads;    /* in the array */
	uint64_t begun_ns;
	bool has_begun; /* a round has found threads */
	uint64_t due_ns;
	uint64_t at_ns; /* the last round */
	uint64_t random;
	uint64_t chance;     /* of a thread to be looked at in this round, of ALWAYS */
	uint64_t advance_ns; /* what a look in this round gives a thread in advance */
	/* Averages of rounds. */
	struct {
		double period_ns; /* on a busy machine they come late */
		double took_ns, looks, with_span, chance;
	} mean;
	uint32_t rounds;    /* that these are of */
	uint32_t with_span; /* threads that this round has found in spans */
	uint64_t put_ns;
};

/* The kernel of this machine */

static uint64_t now_ns(void *arg)
{
	(void)arg;
	return sp_clock_mono_ns();
}

static uint64_t cpu_ns(void *arg)
{
	(void)arg;
	return sp_clock_thread_ns();
}

static bool read_times(void *arg, struct sp_task_file *file, uint32_t tid,
		       struct sp_task_times *out)
{
	const struct sp_off_cpu *o = arg;

	return sp_task_times_read(file, o->ops->proc, tid, out);
}

/* Without the right to see in what a thread is blocked, whether it is. */
static int read_place(void *arg, uint32_t tid, struct sp_task_place *out)
{
	struct sp_off_cpu *o = arg;
	int err = -EPERM;

	if (sp_wait_stacks_may_try(o->stacks))
		err = sp_wait_stacks_place(o->stacks, tid, out);
	return err == 0 || err == -ESRCH || err == -EAGAIN
		       ? err
		       : sp_task_state_read(o->ops->proc, tid, out);
}

static int walk(void *arg, uint32_t tid, const struct sp_task_place *place, struct sp_sample *s)
{
	struct sp_off_cpu *o = arg;

	return sp_wait_stacks_walk(o->stacks, tid, place, s);
}

static bool read_memory(void *arg, uint32_t tid, uint64_t at, void *out, size_t bytes)
{
	(void)arg;
	return sp_wait_stacks_read(tid, at, out, bytes);
}

/*
 * Until the next round: a number that forgets, as each millisecond may be the last one with the same chance. Its mean
 * is the period.
 */
static uint64_t wait_ns(struct sp_off_cpu *o)
{
	uint64_t ns = sp_random_next(&o->random) % (2 * SP_NS_PER_MS);

	while (sp_random_next(&o->random) % (SP_OFF_CPU_PERIOD_NS / SP_NS_PER_MS) != 0)
		ns += SP_NS_PER_MS;
	return ns;
}

struct sp_off_cpu *sp_off_cpu_new(const struct sp_core_ops *ops, struct sp_unwinder *unwinder,
				  const struct sp_off_cpu_hooks *hooks)
{
	struct sp_off_cpu *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	o->ops = ops;
	o->hooks = *hooks;
	o->kernel = (struct sp_off_cpu_kernel){
		now_ns, cpu_ns,      read_times, read_place,
		walk,   read_memory, o,          sp_clock_seed(ops->pid)};
	if (hooks->kernel != NULL)
		o->kernel = *hooks->kernel;
	o->sockets.ops = ops;
	o->random = o->kernel.seed;
	o->mean.period_ns = SP_OFF_CPU_PERIOD_NS;
	o->mean.took_ns = LOOK_NS * LOOKS;
	o->mean.looks = LOOKS;
	o->begun_ns = o->at_ns = o->kernel.now_ns(o->kernel.arg);
	o->due_ns = o->begun_ns + wait_ns(o);
	o->stacks = sp_wait_stacks_new(ops, unwinder);
	if (o->stacks != NULL)
		return o;
	free(o);
	return NULL;
}

static void forget(struct thread *t)
{
	sp_task_file_close(&t->file);
	free(t->place.pc);
	memset(t, 0, sizeof(*t));
}

void sp_off_cpu_free(struct sp_off_cpu *o)
{
	if (o == NULL)
		return;
	for (uint32_t i = 0; i < o->threads; i++)
		forget(&o->thread[i]);
	free(o->thread);
	sp_wait_stacks_free(o->stacks);
	free(o->sockets.kept);
	free(o);
}

/* A look */

static void put(struct sp_off_cpu *o, const struct sp_wait *w, struct sp_thread_labels *labels)
{
	o->put_ns += w->ns;
	o->hooks.put(o->hooks.arg, w);
	if (w->label->span_id != 0 || w->label->root_id != 0)
		sp_thread_labels_note_wait(labels, w->label->span_id != 0 ? w->label->span_id
									  : w->label->root_id);
}

static void take_stack(struct sp_off_cpu *o, struct thread *t, const struct sp_task_place *at)
{
	static struct sp_sample s; /* too large for a stack */
	struct place *p = &t->place;
	int err = -EPERM;

	p->depth = 0;
	p->flags = SP_SAMPLE_ROOTED;
	if (at->state != SP_TASK_HIDDEN) {
		sp_wait_leaf(o->ops->config->off_cpu_targets ? &o->sockets : NULL, o->ops->proc, at,
			     p->leaf);
		p->epoch = o->hooks.prepare(o->hooks.arg, at->pc);
		err = o->kernel.walk(o->kernel.arg, t->tid, at, &s);
	}
	if (err == 0 && SP_GROW(p->pc, p->pc_cap, s.depth, SP_FRAMES_MAX)) {
		p->depth = s.depth;
		p->flags = s.flags;
		if (s.depth != 0)
			memcpy(p->pc, s.pc, s.depth * sizeof(s.pc[0]));
	} else if (err == 0) {
		o->ops->counter_add(o->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
	} else if (err != -EAGAIN) {
		const char *why = sp_wait_stacks_refusal(o->stacks);

		(void)snprintf(p->leaf, sizeof(p->leaf), "[blocked, no stack: %s]",
			       why != NULL ? why : "unknown");
	}
	/* A thread that has gone on meanwhile was there all the same: what is known of it are its span and its call. */
	p->is_known = err == 0;
}

static void know_stack(struct sp_off_cpu *o, struct thread *t, const struct sp_task_place *at,
		       uint64_t slices)
{
	struct place *p = &t->place;

	if (p->is_known && p->slices == slices && memcmp(&p->at, at, sizeof(*at)) == 0)
		return;
	p->at = *at;
	p->slices = slices;
	take_stack(o, t, at);
}

/* The lock that a thread waits for */

struct lock {
	struct sp_off_cpu *o;
	uint32_t tid;
};

static bool read_lock(void *arg, uint64_t at, void *out, size_t bytes)
{
	const struct lock *l = arg;

	return l->o->kernel.memory(l->o->kernel.arg, l->tid, at, out, bytes);
}

static uint32_t tid_of(const struct sp_off_cpu *o, uint32_t place)
{
	return atomic_load_explicit(&o->labels->thread[place].tid, memory_order_acquire);
}

/* A thread of the host that has had a span; o->threads = there is none with that number. */
static uint32_t place_of(const struct sp_off_cpu *o, uint32_t tid)
{
	uint32_t i = 0;

	if (o->last_owner < o->threads && tid_of(o, o->last_owner) == tid)
		return o->last_owner;
	while (i < o->threads && tid_of(o, i) != tid)
		i++;
	return i;
}

/*
 * Where the owner of a lock is blocked, if it is. The kernel hands a lock with priority inheritance over to one that
 * waits for it: that one has not run yet, and may still be blocked there.
 */
static bool see_stack(struct sp_off_cpu *o, struct thread *t, const struct sp_task_place *lock)
{
	struct sp_task_times times;
	struct sp_task_place at;

	if (!o->kernel.times(o->kernel.arg, &t->file, t->tid, &times)) {
		sp_task_file_close(&t->file);
		return false;
	}
	if (o->kernel.place(o->kernel.arg, t->tid, &at) != 0 || at.state == SP_TASK_RUNS ||
	    (at.state == SP_TASK_CALLS && at.number == lock->number && at.arg[0] == lock->arg[0]))
		return false;
	know_stack(o, t, &at, times.slices);
	return t->place.is_known;
}

/* It has got no processor since then. */
static bool has_not_run(struct sp_off_cpu *o, struct thread *t, uint64_t slices)
{
	struct sp_task_times times;

	return o->kernel.times(o->kernel.arg, &t->file, t->tid, &times) && times.slices == slices;
}

/* Then it is where it was. Some kernels do not count how often a thread has run, and have to be asked for the place. */
static bool is_blocked_still(struct sp_off_cpu *o, struct thread *t, const struct sp_task_place *at)
{
	struct sp_task_place now;

	if (!has_not_run(o, t, t->times.slices))
		return false;
	return t->times.slices != 0 || (o->kernel.place(o->kernel.arg, t->tid, &now) == 0 &&
					memcmp(&now, at, sizeof(now)) == 0);
}

/* Who holds the lock that the thread waits for there, if it is one and its owner is in a span; else o->threads. */
static uint32_t know_owner(struct sp_off_cpu *o, struct thread *t, const struct sp_task_place *at,
			   struct sp_thread_labels_copy *label, struct sp_wait *w)
{
	struct lock lock = {o, t->tid};
	const struct sp_lock_memory memory = {read_lock, &lock};
	struct thread *owner;
	uint32_t place;
	uint32_t tid;

	if (!sp_lock_may_have_owner(at) || !o->hooks.may_be_lock(o->hooks.arg, at->pc))
		return o->threads;
	tid = sp_lock_owner(at, &memory);
	if (tid == 0 || tid == t->tid)
		return o->threads;
	place = place_of(o, tid);
	if (place == o->threads || !sp_thread_labels_copy(&o->labels->thread[place], label) ||
	    label->tid != tid || (label->label.span_id == 0 && label->label.name_id == 0))
		return o->threads;
	o->last_owner = place;
	if (sp_lock_owner(at, &memory) != tid || !is_blocked_still(o, t, at))
		return o->threads;
	w->owner = &label->label;
	owner = &o->thread[place];
	/* One that is new here, or in whose place another one was, is seen by its own look first. */
	if (owner->tid != tid || owner->is_gone || !see_stack(o, owner, at) ||
	    owner->place.epoch != w->epoch || sp_lock_owner(at, &memory) != tid ||
	    !has_not_run(o, owner, owner->place.slices))
		return place;
	w->owner_pc = owner->place.pc;
	w->owner_depth = owner->place.depth;
	return place;
}

/* Deadlocks */

static bool holds_what_waits(struct sp_off_cpu *o, struct thread *t, const struct thread *owner)
{
	struct lock lock = {o, t->tid};
	const struct sp_lock_memory memory = {read_lock, &lock};

	return sp_lock_owner(&t->place.at, &memory) == owner->tid;
}

static void tell_deadlock(struct sp_off_cpu *o, struct thread *const *member, unsigned n)
{
	struct sp_thread_labels_copy label[SP_DEADLOCK_MAX];
	struct sp_wait wait[SP_DEADLOCK_MAX];

	for (unsigned i = 0; i < n; i++) {
		const struct thread *m = member[i];

		if (!sp_thread_labels_copy(&o->labels->thread[m - o->thread], &label[i]))
			return;
		wait[i] = (struct sp_wait){.label = &label[i].label,
					   .tid = m->tid,
					   .pc = m->place.pc,
					   .epoch = m->place.epoch,
					   .depth = m->place.is_known ? m->place.depth : 0};
	}
	if (!o->hooks.deadlock(o->hooks.arg, wait, n))
		return;
	for (unsigned i = 0; i < n; i++)
		member[i]->is_told = true;
}

static void look_for_deadlock(struct sp_off_cpu *o, struct thread *t)
{
	struct thread *member[SP_DEADLOCK_MAX];
	struct thread *m = t;
	unsigned n = 0;

	do {
		if (n == SP_DEADLOCK_MAX || m->owner == 0 || m->waited < DEADLOCK_LOOKS ||
		    m->is_told)
			return;
		member[n++] = m;
		m = &o->thread[m->owner - 1];
	} while (m != t);
	for (unsigned i = 0; i < n; i++)
		if (!holds_what_waits(o, member[i], member[(i + 1) % n]))
			return;
	for (unsigned i = 0; i < n; i++)
		if (!has_not_run(o, member[i], member[i]->wait_slices))
			return;
	tell_deadlock(o, member, n);
}

/* That place in the array has who holds the lock; o->threads = it is not known. */
static void waits_for(struct sp_off_cpu *o, struct thread *t, uint32_t place)
{
	uint32_t owner = place < o->threads ? place + 1 : 0;

	if (owner != t->owner || t->wait_slices != t->times.slices) {
		t->waited = 0;
		t->is_told = false;
	}
	t->owner = owner;
	t->wait_slices = t->times.slices;
	t->waited++;
	if (owner != 0)
		look_for_deadlock(o, t);
}

static void put_blocked(struct sp_off_cpu *o, struct thread *t, const struct sp_task_place *at,
			const struct sp_thread_label *label, uint64_t ns,
			struct sp_thread_labels *labels)
{
	struct sp_thread_labels_copy owner;
	struct place *p = &t->place;
	struct sp_wait w;

	know_stack(o, t, at, t->times.slices);
	w = (struct sp_wait){
		.label = label,
		.tid = t->tid,
		.leaf = p->leaf,
		.pc = p->pc,
		.epoch = p->epoch,
		.depth = p->depth,
		.flags = p->flags,
		.ns = ns,
	};
	waits_for(o, t, know_owner(o, t, at, &owner, &w));
	put(o, &w, labels);
}

static bool has_label(const struct sp_thread_label *label)
{
	return label->span_id != 0 || label->name_id != 0;
}

static uint64_t since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/*
 * What a thread waited before the exporter began is no look's: what it did then may have been something else. The
 * first round tells how much that was, of all threads, as each is looked at with that chance.
 */
static void tell_unwatched(const struct sp_off_cpu *o, uint64_t ns)
{
	double all_ns = (double)ns * ALWAYS / (double)o->chance;

	if (!o->has_begun && ns > UNWATCHED_NS)
		o->ops->counter_add(o->ops->arg, SP_COUNT_WAITS_UNWATCHED,
				    (uint64_t)(all_ns / (double)SP_NS_PER_MS));
}

/* What the thread did since its clocks were read last, or at the first time, since its first label. */
static void spend(const struct sp_off_cpu *o, struct thread *t,
		  const struct sp_thread_labels_copy *c, uint64_t now,
		  const struct sp_task_times *times)
{
	if (t->has_clocks) {
		uint64_t passed = since(now, t->at_ns);
		uint64_t delay = since(times->delay_ns, t->times.delay_ns);
		uint64_t ran = since(times->cpu_ns, t->times.cpu_ns);

		/* What it did before the last look that was left out was outside of spans. */
		if (t->has_skipped) {
			delay = delay < passed ? delay : passed;
			ran = ran < passed - delay ? ran : passed - delay;
		}
		t->delay_ns += (int64_t)delay;
		t->blocked_ns += (int64_t)(passed - ran - delay);
	} else {
		uint64_t most = since(now, o->begun_ns);
		uint64_t off = since(now - times->cpu_ns, c->off_ns);

		if (off > most && has_label(&c->label))
			tell_unwatched(o, off - most);
		off = off < most ? off : most;
		t->delay_ns = times->delay_ns <= off ? (int64_t)times->delay_ns : 0;
		t->blocked_ns = (int64_t)off - t->delay_ns;
	}
	t->blocked_ns += (int64_t)(o->advance_ns - t->advance_ns);
	t->advance_ns = o->advance_ns;
	t->has_clocks = true;
	t->has_skipped = false;
	t->at_ns = now;
	t->times = *times;
}

/* What it has waited for processors of the time of one look at it while it could run. */
static void advance_delay(struct thread *t)
{
	uint64_t could_run = t->times.cpu_ns + t->times.delay_ns;
	uint64_t advance = could_run != 0
				   ? (uint64_t)((double)t->advance_ns * (double)t->times.delay_ns /
						(double)could_run)
				   : 0;

	t->delay_ns += (int64_t)(advance - t->delay_advance_ns);
	t->delay_advance_ns = advance;
}

static void take(struct sp_off_cpu *o, struct thread *t, const struct sp_task_place *at,
		 const struct sp_thread_label *label, struct sp_thread_labels *labels)
{
	bool is_in_span = has_label(label);
	uint64_t ns;

	if (at->state == SP_TASK_RUNS) {
		advance_delay(t);
		ns = t->delay_ns > 0 ? (uint64_t)t->delay_ns : 0;
		t->delay_ns -= (int64_t)ns;
		if (is_in_span && ns != 0)
			put(o,
			    &(struct sp_wait){.label = label,
					      .tid = t->tid,
					      .leaf = "[waiting for a CPU]",
					      .flags = SP_SAMPLE_ROOTED,
					      .ns = ns},
			    labels);
	} else if (t->blocked_ns > 0) {
		ns = (uint64_t)t->blocked_ns;
		t->blocked_ns = 0;
		if (is_in_span)
			put_blocked(o, t, at, label, ns, labels);
	}
	o->with_span += is_in_span;
	t->is_idle = !is_in_span && at->state != SP_TASK_RUNS;
}

/*
 * A thread that is idle outside of spans costs nothing: as long as its label has not changed it has none, and its files
 * are read at the 1st, 2nd, 4th, 8th such look, and so on. All that time is thrown away.
 */
static bool is_still_idle(struct thread *t, const struct sp_thread_labels *labels)
{
	if (!t->is_idle || atomic_load_explicit(&labels->n, memory_order_relaxed) != t->n)
		return false;
	t->idle_looks++;
	return (t->idle_looks & (t->idle_looks - 1)) != 0;
}

static void look(struct sp_off_cpu *o, struct thread *t, struct sp_thread_labels *labels)
{
	uint32_t tid = atomic_load_explicit(&labels->tid, memory_order_acquire);
	struct sp_thread_labels_copy c;
	struct sp_task_times times;
	struct sp_task_place at;
	uint64_t now;
	int err;

	if (tid != t->tid) {
		forget(t);
		t->tid = tid;
	}
	if (tid == 0 || t->is_gone)
		return;
	if (is_still_idle(t, labels)) {
		t->has_skipped = true;
		t->at_ns = o->kernel.now_ns(o->kernel.arg);
		return;
	}
	if (!o->kernel.times(o->kernel.arg, &t->file, tid, &times)) {
		sp_task_file_close(&t->file);
		t->is_gone = true;
		return;
	}
	now = o->kernel.now_ns(o->kernel.arg);
	/* The label immediately before the place: a thread may change both within microseconds. */
	if (!sp_thread_labels_copy(labels, &c) || c.tid != tid)
		return;
	err = o->kernel.place(o->kernel.arg, tid, &at);
	if (times.slices != t->times.slices || c.n != t->n)
		t->idle_looks = 0;
	spend(o, t, &c, now, &times);
	t->n = c.n;
	t->is_idle = false;
	if (err == 0)
		take(o, t, &at, &c.label, labels);
}

/* A round */

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

/*
 * The chance of each thread for the time since the last round. One that comes very late takes no more for it: where
 * processors are that full, it would not be over before the next one is due, or the host has ended.
 */
static void spread(struct sp_off_cpu *o, double since_ns)
{
	double all_ns = o->mean.took_ns / o->mean.looks * o->threads;
	double budget_ns = (since_ns < LATE_NS ? since_ns : LATE_NS) * BUDGET;

	o->chance = budget_ns < all_ns ? (uint64_t)((double)ALWAYS * budget_ns / all_ns) : ALWAYS;
	o->chance += o->chance == 0;
	o->advance_ns = (uint64_t)(since_ns * (double)ALWAYS / (double)o->chance - since_ns +
				   o->mean.period_ns);
}

static void average(const struct sp_off_cpu *o, double *mean, double next)
{
	*mean += (next - *mean) / (o->rounds + 1);
}

static void learn(struct sp_off_cpu *o, double took_ns, uint32_t looks)
{
	double most = (looks + 1) * LOOK_MOST_NS;

	average(o, &o->mean.took_ns, took_ns < most ? took_ns : most);
	average(o, &o->mean.looks, looks);
	average(o, &o->mean.with_span, o->with_span);
	average(o, &o->mean.chance, (double)o->chance);
}

static void look_around(struct sp_off_cpu *o, double since_ns)
{
	uint64_t begun = o->kernel.cpu_ns(o->kernel.arg);
	uint32_t room = 0;
	struct sp_thread_labels_part *part = o->ops->thread_labels(o->ops->arg, &room);
	uint32_t looks = 0;
	uint32_t used;

	if (part == NULL)
		return;
	o->labels = part;
	used = atomic_load_explicit(&part->used, memory_order_acquire);
	used = used < room ? used : room;
	if (!make_room(o, used < THREADS_MAX ? used : THREADS_MAX)) {
		o->ops->counter_add(o->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		return;
	}
	o->with_span = 0;
	spread(o, since_ns);
	for (uint32_t i = 0; i < o->threads; i++) {
		if (sp_random_next(&o->random) % ALWAYS >= o->chance)
			continue;
		look(o, &o->thread[i], &part->thread[i]);
		looks++;
	}
	o->has_begun = o->has_begun || o->threads != 0;
	if (o->threads != 0)
		learn(o, (double)(o->kernel.cpu_ns(o->kernel.arg) - begun), looks);
}

void sp_off_cpu_run(struct sp_off_cpu *o)
{
	uint64_t now = o->kernel.now_ns(o->kernel.arg);
	double since_ns;

	if (now < o->due_ns)
		return;
	since_ns = (double)since(now, o->at_ns);
	o->at_ns = now;
	o->rounds += o->rounds < ROUNDS;
	average(o, &o->mean.period_ns, since_ns);
	look_around(o, since_ns);
	o->due_ns = now + wait_ns(o);
}

uint64_t sp_off_cpu_due_ns(const struct sp_off_cpu *o)
{
	return o->due_ns;
}

void sp_off_cpu_news(const struct sp_off_cpu *o, struct sp_off_cpu_news *out)
{
	*out = (struct sp_off_cpu_news){
		.threads = o->mean.chance > 0
				   ? (uint32_t)(o->mean.with_span * ALWAYS / o->mean.chance + 0.5)
				   : 0,
		.ns = o->put_ns,
		.refusal = sp_wait_stacks_refusal(o->stacks),
	};
}
