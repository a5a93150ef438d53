/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of waiting time by span name, for threads whose every moment is known. A model of the threads runs by a clock
 * of its own, and the sums of the looks are compared with the model's.
 */
#define _GNU_SOURCE
#include "export/off_cpu/off_cpu.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core_double.h"
#include "export/util/clock.h"
#include "test/common/rounds.h"
#include "test/unit/emulated.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define THREADS 1000U
#define NAMES 11U
/* The cost of a look on a slow day. */
#define LOOK_NS (15 * US)

/* The model. */

/* The cycle of a thread: it waits for a processor, computes, and is blocked, in a span or in none. */
struct step {
	uint64_t span_id; /* 0 = no span */
	uint64_t delay_ns;
	uint64_t cpu_ns;
	uint64_t blocked_ns;
};

/* The lengths of the spans with ids 1 to 6. The shorter the spans are, the more they compute. */
static const struct step steps[NAMES] = {
	{0, 3 * US, 30 * US, 90 * US},   {1, 5 * US, 50 * US, 50 * US},
	{2, 30 * US, 300 * US, MS},      {3, 40 * US, 400 * US, 2 * MS},
	{4, 70 * US, 700 * US, 5 * MS},  {5, 100 * US, MS, 10 * MS},
	{6, 500 * US, 5 * MS, 100 * MS}, {0, 2 * MS, 20 * MS, 15 * MS},
	{7, 600 * US, 400 * US, 0},      {7, 0, 10 * MS, 0},
	{0, 40 * MS, 2 * MS, 0},
};
#define LENGTHS 6U
#define OUTSIDE 0U
#define COMPUTES_OUTSIDE 7U
#define STARVED 8U
#define STARVED_ID 7U
#define COMPUTES 9U
#define STARVED_OUTSIDE 10U

enum mode { RUNNABLE, RUNS, BLOCKED };

static struct model {
	uint64_t at_ns; /* the time up to which it is known */
	enum mode mode;
	unsigned step;
	uint64_t until_ns;
	struct sp_task_times times;
	uint64_t phase_ns; /* the thread repeats the step until then */
	uint32_t changes;
	bool is_walked;
} model[THREADS];

static uint64_t now_ns;
static uint64_t cpu_ns;
static uint64_t seed;
static unsigned threads;
static unsigned first_step, last_step; /* each draw is one of these */
static uint64_t share[NAMES];          /* a draw below this number takes that step */
static uint64_t phase_ns;
static uint64_t reads; /* of clocks */
static unsigned walks;
static bool is_hidden, is_gone;
static bool is_lock;        /* the first thread waits for a lock */
static bool is_handed_over; /* the second thread waits for it too */
static uint32_t owners[8];  /* the lock's owner, for each reading */
static uint16_t walked;     /* number of frames in a stack */
static unsigned lock_reads;
/* the first or second thread has run when the lock has been read this often */
static bool runs_at[8];
static bool other_runs_at[8];
static uint32_t circle; /* number of threads in a circle of locks; 0 = no circle */
static bool runs_for_ever;
static uint64_t begins_ns;     /* delay between the start of the threads and of the exporter */
static uint64_t late_ns;       /* mean delay of a round */
static unsigned starved;       /* the exporter gets 1 of this many units of time; 0 = all of them */
static uint64_t first_walk_ns; /* cost of the first stack of each thread */
static bool moves;             /* the first thread waits elsewhere after a reading of the lock */
static char last_leaf[256];
static uint16_t depth;
static bool is_unlabelled; /* the threads never change their labels */
static struct {
	uint64_t off_ns; /* real time */
	uint64_t got_ns; /* time in the records */
	uint64_t looks;
} sum[NAMES];
static uint64_t early_ns; /* time of the last step before the exporter began */
static struct sp_thread_labels_part *part;
static struct sp_off_cpu *off_cpu;

static uint64_t draw(uint64_t below)
{
	return sp_random_next(&seed) % below;
}

/* A random duration with that mean. */
static uint64_t about(uint64_t ns)
{
	return ns / 2 + draw(ns + 1);
}

/* Each step fills the same part of the time on the average, so short ones are drawn more often. */
static unsigned draw_step(void)
{
	uint64_t at = draw(share[last_step]);
	unsigned i = first_step;

	while (at >= share[i])
		i++;
	return i;
}

static void enter(struct model *m, enum mode mode)
{
	const struct step *s;

	if (mode == RUNNABLE) {
		m->changes++;
		if (m->at_ns >= m->phase_ns) {
			m->step = draw_step();
			m->phase_ns = m->at_ns + about(phase_ns);
		}
	}
	s = &steps[m->step];
	m->mode = mode;
	m->until_ns = m->at_ns + about(mode == RUNNABLE ? s->delay_ns
				       : mode == RUNS   ? s->cpu_ns
							: s->blocked_ns);
	m->times.slices += mode == RUNS;
}

/*
 * The kernel adds the time for which a thread waited for a processor when the thread gets one; time on a processor is
 * known at once here.
 */
static void go_on(struct model *m)
{
	while (m->at_ns < now_ns) {
		uint64_t to = m->until_ns < now_ns ? m->until_ns : now_ns;
		uint64_t ns = to - m->at_ns;

		m->at_ns = to;
		sum[steps[m->step].span_id].off_ns += m->mode != RUNS ? ns : 0;
		m->times.cpu_ns += m->mode == RUNS ? ns : 0;
		if (to < m->until_ns)
			return;
		m->times.delay_ns += m->mode == RUNNABLE ? ns : 0;
		enter(m, m->mode == BLOCKED ? RUNNABLE : m->mode + 1);
	}
}

static void show(unsigned i)
{
	struct model *m = &model[i];
	const struct sp_thread_labels_owner who = {.block = i, .tid = i + 1};
	const struct sp_thread_label none = {.span_id = 0};
	struct sp_thread_label label = {.span_id = steps[m->step].span_id};

	go_on(m);
	label.span_id = steps[m->step].span_id;
	if (m->changes != 0 && !is_unlabelled) {
		sp_thread_labels_put(&who, &none);
		sp_thread_labels_put(&who, &label);
	}
	m->changes = 0;
	part->thread[i].off_ns = SP_NS_PER_S;
}

static struct sp_thread_labels_part *labels(void *self, uint32_t *places)
{
	(void)self;
	*places = threads;
	for (unsigned i = 0; i < threads; i++)
		show(i);
	return part;
}

/* The model itself writes the labels, not a host. */
static struct sp_thread_labels_part *only_labels(void *self, uint32_t *places)
{
	(void)self;
	*places = threads;
	return part;
}

static uint64_t read_now(void *arg)
{
	(void)arg;
	return now_ns;
}

static uint64_t read_cpu(void *arg)
{
	(void)arg;
	return cpu_ns;
}

/* The exporter uses CPU time, and the clock of the model advances. */
static void spend_ns(uint64_t ns)
{
	cpu_ns += ns;
	now_ns += starved != 0 ? ns * starved : ns;
}

static bool read_times(void *arg, struct sp_task_file *file, uint32_t tid,
		       struct sp_task_times *out)
{
	(void)arg;
	(void)file;
	if (is_gone)
		return false;
	reads++;
	spend_ns(LOOK_NS);
	if (core.ops.thread_labels == labels)
		show(tid - 1);
	*out = model[tid - 1].times;
	return true;
}

static int read_place(void *arg, uint32_t tid, struct sp_task_place *out)
{
	(void)arg;
	memset(out, 0, sizeof(*out));
	out->state = model[tid - 1].mode != BLOCKED ? SP_TASK_RUNS
		     : is_hidden                    ? SP_TASK_HIDDEN
						    : SP_TASK_CALLS;
	if (!is_lock || (tid != 1 && circle == 0 && !is_handed_over))
		return 0;
	out->number = SYS_futex;
	out->arg[0] = 0x10000 + circle * tid * 8;
	out->arg[1] = FUTEX_LOCK_PI;
	out->arg[3] = moves && lock_reads != 0;
	return 0;
}

static bool read_memory(void *arg, uint32_t tid, uint64_t at, void *out, size_t bytes)
{
	(void)arg;
	if (circle != 0) {
		uint32_t owner = tid % circle + 1;

		cr_expect_eq(at, 0x10000 + circle * tid * 8);
		memcpy(out, &owner, bytes);
		model[tid - 1].times.slices += runs_for_ever;
		return true;
	}
	cr_expect_eq(at, 0x10000);
	if (is_handed_over && tid == 2) {
		memcpy(out, &tid, bytes);
		return true;
	}
	cr_expect_eq(tid, 1);
	memcpy(out, &owners[lock_reads], bytes);
	model[0].times.slices += runs_at[lock_reads];
	model[1].times.slices += other_runs_at[lock_reads];
	lock_reads++;
	return true;
}

static bool may_be_lock(void *arg, uint64_t pc)
{
	(void)arg;
	(void)pc;
	return is_lock;
}

/* Now and then the thread has gone on: no stack, but its time counts. */
static int walk(void *arg, uint32_t tid, const struct sp_task_place *place, struct sp_sample *s)
{
	(void)arg;
	(void)place;
	walks++;
	if (!model[tid - 1].is_walked)
		spend_ns(first_walk_ns);
	model[tid - 1].is_walked = true;
	s->depth = walked;
	s->pc[0] = tid;
	s->flags = SP_SAMPLE_ROOTED;
	return walked == 0 && draw(3) == 0 ? -EAGAIN : 0;
}

/* The draws are the same in each run. The bounds on sums allow for chance in one run, not in many. */
static const struct sp_off_cpu_kernel kernel = {read_now, read_cpu,    read_times, read_place,
						walk,     read_memory, NULL,       1};

/* reported deadlocks, and the number of threads in the last one */
static unsigned deadlocks, deadlocked;
static unsigned deadlocks_refused; /* this many reports are refused */
static unsigned put_owners;        /* waits with a known owner */
static uint64_t owner_span, owner_function;

static void keep(void *arg, const struct sp_wait *w)
{
	(void)arg;
	sum[w->label->span_id].got_ns += w->ns;
	sum[w->label->span_id].looks++;
	(void)snprintf(last_leaf, sizeof(last_leaf), "%s", w->leaf);
	depth = w->depth;
	if (w->owner == NULL)
		return;
	put_owners++;
	owner_span = w->owner->span_id;
	owner_function = w->owner_depth != 0 ? w->owner_pc[0] : 0;
}

static bool count_deadlock(void *arg, const struct sp_wait *thread, unsigned n)
{
	(void)arg;
	if (deadlocks_refused != 0) {
		deadlocks_refused--;
		return false;
	}
	deadlocks++;
	deadlocked = n;
	for (unsigned i = 0; i < n; i++)
		cr_expect_eq(thread[i].label->span_id, 6);
	return true;
}

static uint32_t prepare(void *arg, uint64_t pc)
{
	(void)arg;
	(void)pc;
	return 0;
}

static void set_up(void)
{
	core_reset();
	core.ops.thread_labels = labels;
	core.config.off_cpu = true;
	part = calloc(1, SP_THREAD_LABELS_BYTES(THREADS));
	sp_thread_labels_use(part, SP_THREAD_LABELS_BYTES(THREADS));
}

static void tear_down(void)
{
	sp_off_cpu_free(off_cpu);
	off_cpu = NULL;
	free(part);
}

TestSuite(off_cpu, .init = set_up, .fini = tear_down, .timeout = 120);

/* Advances to that moment without a look at it: a look that is due later is not awaited. */
static void go_to(uint64_t end)
{
	while (now_ns < end) {
		sp_off_cpu_run(off_cpu);
		if (sp_off_cpu_due_ns(off_cpu) > now_ns)
			now_ns = sp_off_cpu_due_ns(off_cpu);
		now_ns += about(late_ns);
	}
	now_ns = end;
}

/* n threads do these steps. Each thread repeats a step for a phase before it draws the next one. */
static void run_for(unsigned n, unsigned first, unsigned last, uint64_t phase, uint64_t ns)
{
	const struct sp_off_cpu_hooks hooks = {.put = keep,
					       .prepare = prepare,
					       .may_be_lock = may_be_lock,
					       .deadlock = count_deadlock,
					       .kernel = &kernel};

	threads = n;
	first_step = first;
	last_step = last;
	phase_ns = phase;
	for (unsigned i = first; i <= last; i++)
		share[i] =
			(i > first ? share[i - 1] : 0) +
			(phase > 1 || steps[i].blocked_ns == 0 ? 1
							       : SP_NS_PER_S / steps[i].blocked_ns);
	seed = n + first * 7 + last * 31 + phase;
	now_ns = SP_NS_PER_S;
	memset(model, 0, sizeof(model));
	memset(part, 0, SP_THREAD_LABELS_BYTES(THREADS));
	memset(sum, 0, sizeof(sum));
	for (unsigned i = 0; i < n; i++) {
		model[i].at_ns = model[i].phase_ns = now_ns;
		enter(&model[i], RUNNABLE);
	}
	now_ns += begins_ns;
	for (unsigned i = 0; i < n; i++)
		go_on(&model[i]);
	early_ns = sum[steps[last].span_id].off_ns;
	memset(sum, 0, sizeof(sum));
	sp_off_cpu_free(off_cpu);
	off_cpu = sp_off_cpu_new(&core.ops, NULL, &hooks);
	cr_assert_not_null(off_cpu);
	go_to(now_ns + ns);
	for (unsigned i = 0; i < n; i++)
		go_on(&model[i]);
}

/* Runs for that many looks: 50 a second at each thread, or about 1,000 in all. */
static void run(unsigned n, unsigned first, unsigned last, uint64_t phase, uint64_t looks)
{
	run_for(n, first, last, phase, looks * SP_NS_PER_S / (n < 20 ? n * 50 : 1000));
}

/*
 * Within 2 %, and the error that so many looks may have by chance. A standard error is 141 %, divided by the root of
 * their number; more than a hundred sums are checked, and none may be off by more than four of them.
 */
static void expect_right(const char *what)
{
	for (unsigned i = 1; i <= LENGTHS; i++) {
		double off;
		double beyond;

		if (sum[i].off_ns == 0)
			continue;
		off = 100 * ((double)sum[i].got_ns / (double)sum[i].off_ns - 1);
		beyond = off < -2 ? -2 - off : off > 2 ? off - 2 : 0;
		fprintf(stderr, "# %-9s %4u threads, %6llu us: %+6.2f %% of %llu looks\n", what,
			threads, (unsigned long long)(steps[i].blocked_ns / US), off,
			(unsigned long long)sum[i].looks);
		cr_expect_leq(beyond * beyond * (double)sum[i].looks, 600.0 * 600.0,
			      "%s, %u threads, waits of %llu us: %+.2f %% of %llu looks", what,
			      threads, (unsigned long long)(steps[i].blocked_ns / US), off,
			      (unsigned long long)sum[i].looks);
	}
	cr_expect_eq(sum[0].got_ns, 0, "outside of spans nothing is put");
}

/* The more threads, the less often each is looked at. */
static const struct {
	unsigned threads;
	uint64_t looks;
} crowds[] = {{1, ROUNDS(60000)}, {24, ROUNDS(60000)}, {200, ROUNDS(20000)}, {1000, ROUNDS(10000)}};
#define CROWDS (sizeof(crowds) / sizeof(crowds[0]))

Test(off_cpu, of_one_name_is_what_the_threads_waited)
{
	for (unsigned c = 0; c < CROWDS; c++)
		for (unsigned i = 1; i <= LENGTHS; i++) {
			run(crowds[c].threads, i, i, 1, 3000);
			expect_right("alone");
		}
}

/* A thread does all steps, in any order. */
Test(off_cpu, of_names_beside_each_other_is_what_the_threads_waited)
{
	for (unsigned c = 0; c < CROWDS; c++) {
		run(crowds[c].threads, 1, LENGTHS, 1, crowds[c].looks);
		expect_right("mixed");
	}
}

/* A thread does one step for a tenth of a second, which is a few looks long, and then another one. */
Test(off_cpu, of_names_in_turn_is_what_the_threads_waited)
{
	for (unsigned c = 0; c < CROWDS; c++) {
		run(crowds[c].threads, 1, LENGTHS, 100 * MS, crowds[c].looks);
		expect_right("in turn");
	}
}

/* Now and then the thread waits, and now and then it computes, outside of spans. */
Test(off_cpu, of_names_beside_time_outside_of_spans_is_what_the_threads_waited)
{
	for (unsigned c = 0; c < CROWDS; c++) {
		run(crowds[c].threads, OUTSIDE, COMPUTES_OUTSIDE, 1, crowds[c].looks);
		expect_right("outside");
		run(crowds[c].threads, OUTSIDE, COMPUTES_OUTSIDE, 100 * MS, crowds[c].looks);
		expect_right("by turns");
	}
}

/* On a machine with full processors rounds come late and take long, above all the first ones. */
Test(off_cpu, of_a_starved_exporter_is_what_the_threads_waited)
{
	late_ns = 50 * MS;
	starved = 10;
	first_walk_ns = MS;
	for (unsigned c = 0; c < CROWDS; c++) {
		run_for(crowds[c].threads, 1, LENGTHS, 100 * MS, ROUNDS(20 * SP_NS_PER_S));
		expect_right("starved");
	}
}

/*
 * No look has the waiting time before the exporter began. That time is reported if it is more than is usual at the
 * start of a program.
 */
Test(off_cpu, tells_what_was_over_when_it_began)
{
	static const struct {
		unsigned threads, step;
		uint64_t begins_ns;
		bool is_told;
	} starts[] = {{1, 5, 10 * SP_NS_PER_S, true},
		      {200, 5, 10 * SP_NS_PER_S, true},
		      {200, 5, 100 * MS, false},
		      {200, OUTSIDE, 10 * SP_NS_PER_S, false}};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		double told, off;

		core.counter[SP_COUNT_WAITS_UNWATCHED] = 0;
		begins_ns = starts[i].begins_ns;
		run_for(starts[i].threads, starts[i].step, starts[i].step, 1, 20 * SP_NS_PER_S);
		expect_right("late");
		told = (double)core.counter[SP_COUNT_WAITS_UNWATCHED];
		off = (double)early_ns / (double)MS;
		/* The first round looks at some of the threads. */
		cr_expect(starts[i].is_told ? told > 0.5 * off && told < 2 * off : told == 0,
			  "start %zu: %.0f ms instead of %.0f", i, told, off);
		cr_expect(starts[i].threads > 1 || (told > 0.98 * off && told < 1.02 * off));
	}
}

/* A thread that does not wait counts as well. */
Test(off_cpu, counts_threads_in_spans)
{
	struct sp_off_cpu_results news;

	run(8, COMPUTES, COMPUTES, 1, 400);
	sp_off_cpu_results(off_cpu, &news);
	cr_expect_eq(news.threads, 8);
}

/*
 * Threads that end after a few looks, and have waited only for processors: the advance covers their last part. A few
 * looks of each round show how often the rounds come.
 */
Test(off_cpu, of_threads_that_end_is_what_they_waited_for_processors)
{
	double off = 0;
	double got = 0;

	for (unsigned i = 0; i < 400; i++) {
		run(8, STARVED, STARVED, 1, 24);
		off += (double)sum[STARVED_ID].off_ns;
		got += (double)sum[STARVED_ID].got_ns;
	}
	cr_expect(got > 0.9 * off && got < 1.1 * off, "%.0f ms instead of %.0f", got / 1e6,
		  off / 1e6);
}

/* The limit is the same for a thousand threads and for one. */
Test(off_cpu, takes_two_percent_of_a_processor)
{
	for (unsigned c = 0; c < CROWDS; c++) {
		struct sp_off_cpu_results news;
		uint64_t then_ns;
		uint64_t then;

		run(crowds[c].threads, 5, 5, 1, 3000);
		then_ns = now_ns;
		then = cpu_ns;
		go_to(now_ns + 10 * SP_NS_PER_S);
		cr_expect_leq((cpu_ns - then) * 50, now_ns - then_ns, "%u threads: %llu of %llu ns",
			      threads, (unsigned long long)(cpu_ns - then),
			      (unsigned long long)(now_ns - then_ns));
		sp_off_cpu_results(off_cpu, &news);
		cr_expect_eq(news.ns, sum[5].got_ns);
		cr_expect(threads > 24 || news.threads >= threads / 2);
	}
}

/* On full processors a longer round would not be over before the next one is due, or before the threads end. */
Test(off_cpu, takes_no_more_for_a_round_that_comes_very_late)
{
	uint64_t then;

	run(THREADS, 5, 5, 1, 3000);
	then = cpu_ns;
	now_ns += 10 * SP_NS_PER_S;
	sp_off_cpu_run(off_cpu);
	cr_expect_leq(cpu_ns - then, 2 * MS, "%llu us", (unsigned long long)((cpu_ns - then) / US));
}

/* Threads that are blocked outside of spans, once with a label and then without a change, cost nothing. */
Test(off_cpu, leaves_idle_threads_alone)
{
	uint64_t then;

	run(24, 6, 6, 1, 3000);
	for (unsigned i = 0; i < threads; i++) {
		model[i].step = OUTSIDE;
		model[i].phase_ns = UINT64_MAX;
		model[i].mode = BLOCKED;
		model[i].until_ns = UINT64_MAX;
		model[i].changes = 1;
	}
	go_to(now_ns + SP_NS_PER_S);
	then = reads;
	go_to(now_ns + 100 * SP_NS_PER_S);
	cr_expect_leq(reads - then, threads * 10, "%llu reads", (unsigned long long)(reads - then));
	/* When they enter spans later, the sums are right again. */
	memset(sum, 0, sizeof(sum));
	for (unsigned i = 0; i < threads; i++) {
		model[i].phase_ns = 0;
		model[i].until_ns = now_ns + about(10 * SP_NS_PER_S);
	}
	go_to(now_ns + 60 * SP_NS_PER_S);
	for (unsigned i = 0; i < threads; i++)
		go_on(&model[i]);
	expect_right("idle");
}

/* Work outside of spans, as in requests that are not in the sample of traces, changes no label that a look reads. */
Test(off_cpu, what_was_done_outside_of_spans_after_a_long_rest_is_not_of_the_next_spans)
{
	run(24, 6, 6, 1, 3000);
	for (unsigned i = 0; i < threads; i++) {
		model[i].step = OUTSIDE;
		model[i].phase_ns = UINT64_MAX;
		model[i].mode = BLOCKED;
		model[i].until_ns = now_ns + 30 * SP_NS_PER_S;
		model[i].changes = 1;
	}
	go_to(now_ns + 29 * SP_NS_PER_S);
	for (unsigned i = 0; i < threads; i++)
		model[i].step = i % 2 == 0 ? COMPUTES_OUTSIDE : STARVED_OUTSIDE;
	is_unlabelled = true;
	go_to(now_ns + 11 * SP_NS_PER_S);
	is_unlabelled = false;
	memset(sum, 0, sizeof(sum));
	for (unsigned i = 0; i < threads; i++) {
		model[i].phase_ns = 0;
		model[i].changes = 1;
	}
	go_to(now_ns + 15 * SP_NS_PER_S);
	for (unsigned i = 0; i < threads; i++)
		go_on(&model[i]);
	expect_right("after a rest");
}

/* One thread is blocked in a span for ever. */
static void block_for_good(void)
{
	run(1, 6, 6, UINT64_MAX / 2, 0);
	model[0].mode = BLOCKED;
	model[0].until_ns = UINT64_MAX;
}

Test(off_cpu, looks_as_often_at_what_is_blocked_in_a_span_for_good)
{
	uint64_t then, in_a_second;

	block_for_good();
	go_to(now_ns + SP_NS_PER_S);
	then = reads;
	go_to(now_ns + SP_NS_PER_S);
	in_a_second = reads - then;
	cr_expect_gt(in_a_second, 10);
	then = reads;
	go_to(now_ns + 20 * SP_NS_PER_S);
	cr_expect_geq(reads - then, 15 * in_a_second);
}

Test(off_cpu, walks_a_stack_once_for_a_wait)
{
	unsigned then;

	block_for_good();
	/* A walk may have failed. */
	while (walks == 0 || sum[6].looks < walks + 3)
		go_to(now_ns + MS);
	then = walks;
	go_to(now_ns + SP_NS_PER_S);
	cr_expect_eq(walks, then);
	cr_expect_gt(sum[6].looks, 10);
	/* The thread has run meanwhile, and is blocked at the same place again. */
	model[0].times.slices++;
	while (walks == then)
		go_to(now_ns + MS);
}

/* Two threads in spans. The first waits for a lock of the second, which is blocked itself. */
static void wait_for_lock(void)
{
	run(2, 6, 6, UINT64_MAX / 2, 0);
	is_lock = true;
	walked = 1;
	for (unsigned i = 0; i < 2; i++) {
		model[i].mode = BLOCKED;
		model[i].until_ns = UINT64_MAX;
	}
	for (unsigned i = 0; i < 8; i++) {
		owners[i] = 2;
		runs_at[i] = other_runs_at[i] = false;
	}
	put_owners = 0;
	owner_span = owner_function = 0;
}

/* Runs until the next round that reads the lock. */
static void look_at_lock(void)
{
	for (lock_reads = 0; lock_reads == 0;) {
		if (sp_off_cpu_due_ns(off_cpu) > now_ns)
			now_ns = sp_off_cpu_due_ns(off_cpu);
		sp_off_cpu_run(off_cpu);
	}
}

Test(off_cpu, tells_who_holds_the_lock)
{
	wait_for_lock();
	look_at_lock();
	look_at_lock();
	cr_expect_eq(put_owners, 2);
	cr_expect_eq(owner_span, 6);
	cr_expect_eq(owner_function, 2);
	cr_expect_eq(lock_reads, 3);
	/* The second thread has entered another span. */
	model[1].step = 5;
	model[1].changes = 1;
	look_at_lock();
	cr_expect_eq(owner_span, 5);
}

Test(off_cpu, tells_no_owner_that_may_be_wrong)
{
	static const struct {
		uint32_t owners[3];
		bool runs, is_outside;
	} wrong[] = {
		{.owners = {1, 1, 1}},                     /* the thread itself */
		{.owners = {0, 2, 2}},                     /* no thread */
		{.owners = {3, 3, 3}},                     /* no thread with spans */
		{.owners = {2, 0, 2}},                     /* released while its span is read */
		{.owners = {2, 1, 2}},                     /* and taken by another thread */
		{.owners = {2, 2, 2}, .runs = true},       /* the waiting thread has gone on */
		{.owners = {2, 2, 2}, .is_outside = true}, /* the owner is in no span */
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		wait_for_lock();
		look_at_lock();
		put_owners = 0;
		memcpy(owners, wrong[i].owners, sizeof(wrong[i].owners));
		runs_at[1] = wrong[i].runs;
		if (wrong[i].is_outside) {
			model[1].step = OUTSIDE;
			model[1].changes = 1;
		}
		look_at_lock();
		cr_expect_eq(put_owners, 0, "case %zu", i);
	}
}

/* If the kernel does not count how often a thread has run, its place has to be the same. */
Test(off_cpu, tells_an_owner_where_nothing_is_counted)
{
	for (unsigned i = 0; i < 2; i++) {
		wait_for_lock();
		look_at_lock();
		put_owners = 0;
		model[0].times.slices = model[1].times.slices = 0;
		moves = i == 1;
		look_at_lock();
		cr_expect_eq(put_owners, i == 0);
	}
}

/* The owner's span is right, but the place where it waits may be from the time before it had the lock. */
Test(off_cpu, tells_no_function_that_may_be_wrong)
{
	for (unsigned i = 0; i < 5; i++) {
		wait_for_lock();
		look_at_lock();
		put_owners = 0;
		owner_function = 0;
		is_handed_over = i == 4;
		owners[2] = i == 0 ? 0 : 2;
		other_runs_at[2] = i == 1;
		walked = i == 2 ? 0 : 1;
		model[1].times.slices += i == 2;
		model[1].mode = i == 3 ? RUNS : BLOCKED;
		look_at_lock();
		cr_expect_eq(put_owners, 1, "case %u", i);
		cr_expect_eq(owner_span, 6);
		cr_expect_eq(owner_function, 0, "case %u", i);
	}
}

static void wait_in_circle(uint32_t n)
{
	run(n, 6, 6, UINT64_MAX / 2, 0);
	is_lock = true;
	walked = 1;
	circle = n;
	deadlocks = 0;
	for (unsigned i = 0; i < n; i++) {
		model[i].mode = BLOCKED;
		model[i].until_ns = UINT64_MAX;
	}
}

Test(off_cpu, tells_of_a_deadlock_once)
{
	for (uint32_t n = 2; n <= SP_DEADLOCK_MAX + 1; n++) {
		wait_in_circle(n);
		/* The first look makes them known to each other. */
		for (unsigned i = 0; i < 2; i++) {
			while (sp_off_cpu_due_ns(off_cpu) > now_ns)
				now_ns = sp_off_cpu_due_ns(off_cpu);
			sp_off_cpu_run(off_cpu);
			cr_expect_eq(deadlocks, 0, "after so many looks: %u", i + 1);
		}
		go_to(now_ns + 2 * SP_NS_PER_S);
		cr_expect_eq(deadlocks, n <= SP_DEADLOCK_MAX, "%u threads", n);
		cr_expect(n > SP_DEADLOCK_MAX || deadlocked == n);
	}
	/* The threads leave the circle, and enter the next one. */
	wait_in_circle(3);
	go_to(now_ns + SP_NS_PER_S);
	for (unsigned i = 0; i < 3; i++)
		model[i].times.slices++;
	go_to(now_ns + SP_NS_PER_S);
	cr_expect_eq(deadlocks, 2);
	/* At first the report was refused. */
	wait_in_circle(3);
	deadlocks_refused = 4;
	go_to(now_ns + SP_NS_PER_S);
	cr_expect_eq(deadlocks, 1);
	cr_expect_eq(deadlocks_refused, 0);
}

Test(off_cpu, tells_of_no_deadlock_where_one_may_have_gone_on)
{
	wait_in_circle(2);
	runs_for_ever = true;
	go_to(now_ns + SP_NS_PER_S);
	cr_expect_eq(deadlocks, 0);
	/* No circle: each waits for the next one, but the last one waits for nothing. */
	wait_in_circle(3);
	runs_for_ever = false;
	model[2].mode = RUNS;
	go_to(now_ns + SP_NS_PER_S);
	cr_expect_eq(deadlocks, 0);
}

Test(off_cpu, says_why_there_is_no_stack)
{
	is_hidden = true;
	block_for_good();
	go_to(now_ns + SP_NS_PER_S);
	cr_expect_str_eq(last_leaf, "[blocked, no stack: unknown]");
	cr_expect_eq(walks, 0);
	cr_expect_gt(sum[6].got_ns, SP_NS_PER_S / 2);
}

/* Its files are not opened again until another thread has its entry. */
Test(off_cpu, forgets_a_thread_that_has_ended)
{
	uint64_t then;

	block_for_good();
	go_to(now_ns + SP_NS_PER_S);
	is_gone = true;
	go_to(now_ns + SP_NS_PER_S);
	is_gone = false;
	then = reads;
	go_to(now_ns + SP_NS_PER_S);
	cr_expect_eq(reads, then);
	part->thread[0].tid = 0;
	go_to(now_ns + 1);
}

/* A host may write any values: only its own numbers are wrong then. */
Test(off_cpu, of_a_hostile_host_is_no_longer_than_the_time)
{
	struct sp_off_cpu_results before, after;

	for (unsigned i = 0; i < 300; i++) {
		unsigned char *at = (unsigned char *)&part->thread[0];

		block_for_good();
		sp_off_cpu_results(off_cpu, &before);
		core.ops.thread_labels = only_labels;
		for (size_t n = 0; n < sizeof(part->thread[0]); n++)
			at[n] = (unsigned char)draw(256);
		part->thread[0].tid = 1;
		part->thread[0].word[0] = draw(NAMES);
		go_to(now_ns + SP_NS_PER_S);
		sp_off_cpu_results(off_cpu, &after);
		cr_assert_leq(after.ns - before.ns, SP_NS_PER_S + 3 * SP_OFF_CPU_PERIOD_NS);
		core.ops.thread_labels = labels;
	}
}

/* The threads of this process, as this machine's kernel shows them. */
static _Atomic bool may_end;

static void *sleep_in_span(void *arg)
{
	const struct sp_thread_labels_owner who = {.tid = (uint32_t)syscall(SYS_gettid)};
	const struct sp_thread_label label = {.span_id = 5};
	const struct timespec ts = {.tv_nsec = 20000000};

	sp_thread_labels_put(&who, &label);
	while (!may_end)
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	sp_thread_labels_end(0);
	return arg;
}

Test(off_cpu, sees_what_threads_wait_in)
{
	const struct sp_off_cpu_hooks hooks = {
		.put = keep, .prepare = prepare, .may_be_lock = may_be_lock};
	struct sp_host_objects *host = sp_host_objects_new("/proc/self", -1);
	struct sp_unwinder *unwinder = sp_unwinder_new(host);
	struct sp_off_cpu_results news;
	pthread_t thread;

	if (emulated())
		return;
	threads = 1;
	core.ops.thread_labels = only_labels;
	core.ops.proc = "/proc/self";
	core.config.stack_depth = 64;
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	off_cpu = sp_off_cpu_new(&core.ops, unwinder, &hooks);
	cr_assert_eq(pthread_create(&thread, NULL, sleep_in_span, NULL), 0);
	do {
		sp_off_cpu_run(off_cpu);
		sp_off_cpu_results(off_cpu, &news);
	} while (strcmp(last_leaf, "clock_nanosleep (timer)") != 0 || depth < 2 ||
		 news.threads != 1);
	cr_expect_eq(news.ns, sum[5].got_ns);
	may_end = true;
	pthread_join(thread, NULL);
	sp_off_cpu_free(off_cpu);
	off_cpu = NULL;
	sp_unwinder_free(unwinder);
	sp_host_objects_free(host);
}
