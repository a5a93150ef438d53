/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which threads the exporter looks at, when, and how much time each look stands for (off_cpu.h).
 *
 * A look reads the state of a thread: its span, its stack, and what it waits for. Looks come at random moments, so no
 * program can be in step with them, and each look is independent of the earlier ones. A look that finds the thread
 * blocked stands for all the time that the thread was blocked since the last such look. That is the time that has
 * passed, less the time on a processor and the time waiting for one, which the thread's clocks tell. So the sum of a
 * thread equals its clocks, and each span name gets, in expectation, exactly its share, however short its spans are.
 * The reason: in blocked time, a clock that stands still while the thread is not blocked, the looks are a Poisson
 * process, and the average time before a look is the same at every moment.
 *
 * The rules follow from that. The moments at which spans begin and end do not matter. A look that finds the thread
 * running changes nothing. A look that finds it blocked outside of spans takes the time and throws it away. If a look
 * failed, came late, or was not made, later looks stand for more time. A thread gets the time of one look in advance,
 * because on the average as much is left over when it ends.
 *
 * The time that a thread waits for a processor is a separate sum. A look that finds the thread runnable takes it,
 * because the kernel does not show whether the thread is on a processor just then. The advance of that sum is one
 * look's time, multiplied by the share of its runnable time in which the thread waited for a processor.
 *
 * Looking takes a bounded part of a processor (BUDGET). If looking at all threads would take more, each thread is
 * looked at with the same chance. The chance is such that a round of looks takes its part of the time since the round
 * before it. The time of one look is then the time that has really passed, divided by the chance that was really
 * used. This time contains no estimate. So it is right even while the exporter does not know yet what a look costs,
 * or how late a busy machine lets the exporter run.
 *
 * A thread that waits for a lock waits for the thread that holds the lock at the time of the look (lock_owner.h). The
 * exporter reads the lock's owner, then the span of the owner, then the owner again. The span counts if both readings
 * found the same owner, and if the waiting thread has not gone on afterwards: then the owner had the lock and this
 * span while the other thread waited. If the owner is blocked too, its stack is read as well; it counts if the owner
 * still holds the lock afterwards and has not run meanwhile.
 *
 * A deadlock is a circle of threads, in which three looks in a row at each thread found that it waits for the next
 * one. Then the exporter reads all the locks once more. If none of the threads has run since those looks, each still
 * waits for the next one, and the deadlock is reported once.
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
/* The part of a processor that looks may take: 1.5 %. */
#define BUDGET 0.015
/* A round takes at most its part of this much time. */
#define LATE_NS (3.0 * SP_OFF_CPU_PERIOD_NS)
/* The average cost of a look begins as if LOOKS looks had cost LOOK_NS each. */
#define LOOK_NS 20000.0
#define LOOKS 50
/*
 * The first stacks take milliseconds, because the exporter reads the host's objects for them. Later ones do not, so
 * more than this is not averaged.
 */
#define LOOK_MOST_NS 100000.0
/*
 * The exporter starts milliseconds after the first span. If threads have waited longer than this before it started,
 * it is reported.
 */
#define UNWATCHED_NS SP_NS_PER_S
/* Averages are over this many rounds. */
#define ROUNDS 64
/* After this many looks in a row with the same owner a thread may be part of a deadlock. */
#define DEADLOCK_LOOKS 3
/* A chance of 1. */
#define ALWAYS (UINT64_C(1) << 20)

/* Where a look found the thread blocked: the system call and the stack. */
struct place {
	bool is_known;
	/* how often the thread had got a processor: it has not run since if the number is the same */
	uint64_t slices;
	struct sp_task_place at;
	uint32_t epoch;
	uint16_t depth;
	uint16_t flags;
	uint64_t *pc;
	size_t pc_cap;
	char leaf[SP_WAIT_LEAF];
};

/* One thread of the host. Initially zero. */
struct thread {
	uint32_t tid; /* 0 = unused */
	uint32_t n;   /* the version of its label at the last look */
	bool is_gone; /* the thread has ended, though its entry in the region does not say so */
	bool is_idle; /* the last look found it blocked outside of spans */
	bool has_clocks;
	uint32_t idle_looks;
	bool has_skipped; /* looks were left out: the clocks are older than at_ns */
	uint64_t at_ns;   /* the time of the last look */
	struct sp_task_times times;
	struct sp_task_file file;
	uint64_t advance_ns; /* the advance that it has got so far */
	int64_t blocked_ns;  /* blocked time that no look has taken yet; below 0 if clocks lag */
	int64_t delay_ns;
	uint64_t delay_advance_ns;
	struct place place;
	uint32_t owner;  /* index of the owner of its lock, + 1; 0 = unknown */
	uint32_t waited; /* looks in a row that found this owner, while the thread has not run */
	uint64_t wait_slices;
	bool is_told; /* the deadlock that this wait is part of has been reported */
};

struct sp_off_cpu {
	const struct sp_core_ops *ops;
	struct sp_off_cpu_hooks hooks;
	struct sp_off_cpu_kernel kernel;
	struct sp_wait_stacks *stacks;
	struct sp_sockets sockets;
	const struct sp_thread_labels_part *labels; /* valid during a round */
	struct thread *thread;
	size_t cap;
	uint32_t last_owner; /* index in the array; many threads may wait for one owner */
	uint32_t threads;    /* entries in the array */
	uint64_t begun_ns;
	bool has_begun; /* a round has found threads */
	uint64_t due_ns;
	uint64_t at_ns; /* when the last round was */
	uint64_t random;
	uint64_t chance;     /* the chance of each thread in this round, as a part of ALWAYS */
	uint64_t advance_ns; /* the advance of each thread that this round looks at */
	/* Averages of rounds. */
	struct {
		double period_ns; /* between two rounds; longer on a busy machine */
		double took_ns, looks, with_span, chance;
	} mean;
	uint32_t rounds;    /* the number of rounds in the averages */
	uint32_t with_span; /* threads in spans that this round has found */
	uint64_t put_ns;
};

/* Questions to the kernel of this machine, for struct sp_off_cpu_kernel. */

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

/* If the exporter may not see where a thread is blocked, this says only whether it is. */
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
 * The time until the next round. It is drawn from a distribution without memory: each millisecond is the last one
 * with the same chance. The mean is SP_OFF_CPU_PERIOD_NS.
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

/* The result of a look, and the stack that it reads. */

static void put(struct sp_off_cpu *o, const struct sp_wait *w, struct sp_thread_labels *labels)
{
	o->put_ns += w->ns;
	o->hooks.put(o->hooks.arg, w);
	if (w->label->span_id != 0 || w->label->root_id != 0)
		sp_thread_labels_put_wait(labels, w->label->span_id != 0 ? w->label->span_id
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
	/*
	 * If the thread has gone on meanwhile, its stack is not known, but its span and its system call still count.
	 */
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

/* Reads memory of the host for lock_owner.h, on behalf of the thread that waits for the lock. */

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

/* The index of a thread of the host that has had a span; o->threads = no thread has that id. */
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
 * Reads where the owner of a lock is blocked, if it is. The kernel may hand a lock with priority inheritance to a
 * waiting thread: that thread is the owner then, and may still be blocked in the wait for this lock, because it has
 * not run yet.
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

/* Whether the thread has got no processor since then. */
static bool has_not_run(struct sp_off_cpu *o, struct thread *t, uint64_t slices)
{
	struct sp_task_times times;

	return o->kernel.times(o->kernel.arg, &t->file, t->tid, &times) && times.slices == slices;
}

/*
 * Whether the thread is still where it was. A kernel that does not count how often a thread has run shows 0 slices,
 * and then the place is compared.
 */
static bool is_blocked_still(struct sp_off_cpu *o, struct thread *t, const struct sp_task_place *at)
{
	struct sp_task_place now;

	if (!has_not_run(o, t, t->times.slices))
		return false;
	return t->times.slices != 0 || (o->kernel.place(o->kernel.arg, t->tid, &now) == 0 &&
					memcmp(&now, at, sizeof(now)) == 0);
}

/*
 * The index of the thread that holds the lock for which the thread waits there, if it is a lock and the owner is in a
 * span; otherwise o->threads.
 */
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
	/* If the owner's entry is new, or was another thread's, a look at the owner has to come first. */
	if (owner->tid != tid || owner->is_gone || !see_stack(o, owner, at) ||
	    owner->place.epoch != w->epoch || sp_lock_owner(at, &memory) != tid ||
	    !has_not_run(o, owner, owner->place.slices))
		return place;
	w->owner_pc = owner->place.pc;
	w->owner_depth = owner->place.depth;
	return place;
}

/* The functions that find deadlocks. */

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

/*
 * A look found that the thread waits for the thread at index `place`; o->threads = unknown. Counts
 * such looks in a row.
 */
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
		.at_ns = t->at_ns,
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
 * Time that a thread waited before the exporter started belongs to no look, because the thread may have waited for
 * something else. The first round reports how much that was, extrapolated to all threads by the chance of a look.
 */
static void tell_unwatched(const struct sp_off_cpu *o, uint64_t ns)
{
	double all_ns = (double)ns * ALWAYS / (double)o->chance;

	if (!o->has_begun && ns > UNWATCHED_NS)
		o->ops->counter_add(o->ops->arg, SP_COUNT_WAITS_UNWATCHED,
				    (uint64_t)(all_ns / (double)SP_NS_PER_MS));
}

/* Adds the thread's time since its clocks were last read, or at the first look since its first label. */
static void spend(const struct sp_off_cpu *o, struct thread *t,
		  const struct sp_thread_labels_copy *c, uint64_t now,
		  const struct sp_task_times *times)
{
	if (t->has_clocks) {
		uint64_t passed = since(now, t->at_ns);
		uint64_t delay = since(times->delay_ns, t->times.delay_ns);
		uint64_t ran = since(times->cpu_ns, t->times.cpu_ns);

		/* All that the thread did before the last skipped look was outside of spans. */
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

/*
 * Updates the advance of the sum of waits for a processor: the part of one look's time for which the thread waits
 * while it could run.
 */
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
					      .ns = ns,
					      .at_ns = t->at_ns},
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
 * A thread that is idle outside of spans costs almost nothing. As long as the version of its label has not changed,
 * it is in no span. Then only the 1st, 2nd, 4th, 8th such look and so on reads its files, and its blocked time is
 * thrown away.
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
	/* The label is read immediately before the place, because a thread may change both within microseconds. */
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

/* The functions of a round, in which each thread gets at most one look. */

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
 * Computes the chance of each thread for the time since the last round. A round that comes very late does not take
 * more than its part of LATE_NS: on such a busy machine a longer round would not be over before the next one is due,
 * or before the host has ended.
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

void sp_off_cpu_results(const struct sp_off_cpu *o, struct sp_off_cpu_results *out)
{
	*out = (struct sp_off_cpu_results){
		.threads = o->mean.chance > 0
				   ? (uint32_t)(o->mean.with_span * ALWAYS / o->mean.chance + 0.5)
				   : 0,
		.ns = o->put_ns,
		.refusal = sp_wait_stacks_refusal(o->stacks),
	};
}
