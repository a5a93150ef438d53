/* SPDX-License-Identifier: Apache-2.0 */
/* The account of a thread that waits, of this process: all of its time, and to which label. */
#define _GNU_SOURCE
#include "export/off_cpu/thread_waits.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core_double.h"
#include "export/util/clock.h"
#include "test/unit/emulated.h"
#include "test/unit/scratch.h"

#define PLACES 2U
#define KINDS 8U

static struct sp_host_objects *host;
static struct sp_unwinder *unwinder;
static struct sp_thread_waits_env env;
static struct sp_thread_waits waits;
static struct sp_thread_labels_part *part;

/* What was put. */
static struct {
	char leaf[SP_WAIT_LEAF];
	uint64_t span_id;
	uint64_t ns;
	unsigned begun;
	uint16_t depth;
} kept[KINDS];
static unsigned kinds;

static void keep(void *arg, const struct sp_wait *w)
{
	unsigned i = 0;

	(void)arg;
	while (i < kinds &&
	       (strcmp(kept[i].leaf, w->leaf) != 0 || kept[i].span_id != w->label->span_id))
		i++;
	cr_assert_lt(i, KINDS);
	kinds += i == kinds;
	(void)strcpy(kept[i].leaf, w->leaf);
	kept[i].span_id = w->label->span_id;
	kept[i].ns += w->ns;
	kept[i].begun += w->begins;
	kept[i].depth = w->depth;
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
	core.ops.proc = "/proc/self";
	core.config.stack_depth = 64;
	core.config.off_cpu = true;
	host = sp_host_objects_new("/proc/self", -1);
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	unwinder = sp_unwinder_new(host);
	env.wait.ops = &core.ops;
	env.wait.hooks = (struct sp_off_cpu_hooks){.put = keep, .prepare = prepare};
	env.wait.stacks = sp_wait_stacks_new(&core.ops, unwinder);
	part = calloc(1, SP_THREAD_LABELS_BYTES(PLACES));
	sp_thread_labels_use(part, SP_THREAD_LABELS_BYTES(PLACES));
}

static void tear_down(void)
{
	sp_thread_waits_forget(&waits);
	sp_wait_stacks_free(env.wait.stacks);
	sp_unwinder_free(unwinder);
	sp_host_objects_free(host);
	free(part);
}

TestSuite(thread_waits, .init = set_up, .fini = tear_down, .timeout = 30);

static void label_of_part(uint64_t span_id, uint64_t number)
{
	const struct sp_thread_labels_owner who = {.tid = (uint32_t)syscall(SYS_gettid)};
	struct sp_thread_label l = {.span_id = span_id, .part = number};

	sp_thread_labels_put(&who, &l);
}

static void label(uint64_t span_id)
{
	label_of_part(span_id, 0);
}

static void sleep_ms(unsigned ms)
{
	const struct timespec ts = {.tv_nsec = ms * 1000000L};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* The time of the calling thread. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void burn_ms(unsigned ms)
{
	uint64_t end = cpu_ns() + ms * SP_NS_PER_MS;

	while (cpu_ns() < end)
		;
}

static _Atomic bool done;
static uint64_t noted[2];  /* the span of which a wait was noted, at the end of its label */
static uint64_t off_ns[2]; /* what the thread was off the processor under each of two labels */

static uint64_t off_now(void)
{
	return sp_clock_mono_ns() - cpu_ns();
}

static void *wait_twice(void *arg)
{
	uint64_t begun;

	label(1);
	begun = off_now();
	sleep_ms(150);
	off_ns[0] = off_now() - begun;
	noted[0] = sp_thread_labels_take_note(0);
	label(2);
	begun = off_now();
	burn_ms(60);
	sleep_ms(150);
	off_ns[1] = off_now() - begun;
	noted[1] = sp_thread_labels_take_note(0);
	label(0);
	burn_ms(30);
	done = true;
	sleep_ms(60);
	return arg;
}

static void look(void)
{
	sp_thread_wait_allow(&env.wait, sp_clock_mono_ns());
	(void)sp_thread_waits_look(&env, &waits, &part->thread[0]);
}

static uint64_t sum_of(uint64_t span_id, const char *leaf)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < kinds; i++)
		if (kept[i].span_id == span_id && (leaf == NULL || strcmp(kept[i].leaf, leaf) == 0))
			sum += kept[i].ns;
	return sum;
}

static void expect_near(uint64_t got, uint64_t want, uint64_t by_ms)
{
	cr_expect_leq(got > want ? got - want : want - got, by_ms * SP_NS_PER_MS,
		      "%llu ns instead of %llu", (unsigned long long)got, (unsigned long long)want);
}

Test(thread_waits, are_those_of_the_clocks)
{
	pthread_t thread;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	cr_assert_eq(pthread_create(&thread, NULL, wait_twice, NULL), 0);
	while (!done) {
		look();
		sleep_ms(20);
	}
	look();
	pthread_join(thread, NULL);
	cr_expect_eq(noted[0], 1);
	cr_expect_eq(noted[1], 2);
	/* README: within 20 ms at the edges, one look in this test may come as much later */
	expect_near(sum_of(1, NULL), off_ns[0], 20);
	expect_near(sum_of(2, NULL), off_ns[1], 25);
	cr_expect_geq(sum_of(1, "clock_nanosleep (timer)"), off_ns[0] / 2);
	cr_expect_geq(sum_of(2, "clock_nanosleep (timer)"), 100 * SP_NS_PER_MS);
	cr_expect_eq(sum_of(0, NULL), 0);
	for (unsigned i = 0; i < kinds; i++)
		if (strcmp(kept[i].leaf, "clock_nanosleep (timer)") == 0)
			cr_expect(kept[i].depth >= 2 && kept[i].begun >= 1 && kept[i].begun <= 4,
				  "%u waits began", kept[i].begun);
}

static int fd[2];
static struct sp_thread_waited told[3]; /* at the ends of these parts */

static void *wait_in_parts(void *arg)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec end;
	char byte;

	label_of_part(1, 1);
	(void)clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += 150000000L;
	end.tv_sec += end.tv_nsec / 1000000000L;
	end.tv_nsec %= 1000000000L;
	pthread_mutex_lock(&mutex);
	while (pthread_cond_timedwait(&cond, &mutex, &end) == 0)
		;
	pthread_mutex_unlock(&mutex);
	(void)sp_thread_labels_waited(0, 1, &told[0]);
	label_of_part(2, 2);
	cr_assert_eq(read(fd[0], &byte, 1), 1);
	(void)sp_thread_labels_waited(0, 2, &told[1]);
	/* The same span again, after another one. */
	label_of_part(1, 3);
	sleep_ms(150);
	(void)sp_thread_labels_waited(0, 3, &told[2]);
	label(0);
	done = true;
	return arg;
}

Test(thread_waits, are_told_to_the_thread)
{
	static const enum sp_waited want[] = {SP_WAITED_LOCK, SP_WAITED_IO, SP_WAITED_OTHER};
	uint64_t begun = sp_clock_mono_ns();
	pthread_t thread;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	/* Without a profile no stack is walked. */
	core.config.off_cpu = false;
	cr_assert_eq(pipe(fd), 0);
	cr_assert_eq(pthread_create(&thread, NULL, wait_in_parts, NULL), 0);
	for (bool fed = false; !done;) {
		look();
		if (!fed && sp_clock_mono_ns() - begun > 300 * SP_NS_PER_MS)
			fed = write(fd[1], "x", 1) == 1;
		sleep_ms(20);
	}
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(told[i].part, i + 1);
		/* It may just have waited for a processor. */
		cr_expect(told[i].last == want[i] || told[i].last == SP_WAITED_CPU, "part %u: %u",
			  i, told[i].last);
		cr_expect_geq(told[i].ns[want[i]], 50 * SP_NS_PER_MS, "part %u", i);
		for (unsigned k = SP_WAITED_LOCK; k < SP_WAITED_N; k++)
			cr_expect(k == want[i] || told[i].ns[k] <= 20 * SP_NS_PER_MS,
				  "part %u: %llu ns in %u", i, (unsigned long long)told[i].ns[k],
				  k);
	}
	for (unsigned i = 0; i < kinds; i++)
		cr_expect_eq(kept[i].depth, 0);
	cr_expect_eq(sp_thread_labels_take_note(0), 0, "it is in no profile");
}

static void *wait_for_byte(void *arg)
{
	char byte;

	label(1);
	done = true;
	cr_assert_eq(read(fd[0], &byte, 1), 1);
	sp_thread_labels_end(0);
	return arg;
}

/* What it waited for when it was seen last, it waited for to its end. */
Test(thread_waits, go_on_to_the_end_of_a_thread)
{
	pthread_t thread;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	cr_assert_eq(pipe(fd), 0);
	cr_assert_eq(pthread_create(&thread, NULL, wait_for_byte, NULL), 0);
	while (!done || sum_of(1, "read (pipe)") == 0) {
		sleep_ms(1);
		look();
	}
	sleep_ms(50);
	cr_assert_eq(write(fd[1], "x", 1), 1);
	pthread_join(thread, NULL);
	look();
	cr_expect_geq(sum_of(1, "read (pipe)"), 50 * SP_NS_PER_MS);
	cr_expect_eq(waits.tid, 0);
	look();
}

/* A host may write whatever it wants: its own numbers are wrong then, and nothing else is. */
Test(thread_waits, of_a_hostile_host_are_no_longer_than_the_time)
{
	uint64_t begun = sp_clock_mono_ns();
	unsigned seed = 7;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	for (unsigned i = 0; i < 300; i++) {
		unsigned char *at = (unsigned char *)&part->thread[0];
		uint64_t before = env.put_ns;

		for (size_t n = 0; n < sizeof(part->thread[0]); n++)
			at[n] = (unsigned char)rand_r(&seed);
		/* now and then a thread that exists, and labels that began in this test */
		part->thread[0].tid = i % 3 == 0 ? (uint32_t)rand_r(&seed) : (uint32_t)getpid();
		for (unsigned n = 0; n < SP_THREAD_LABELS_KEPT && i % 2 == 0; n++)
			part->thread[0].word[n][0] = begun + (unsigned)rand_r(&seed) % 1000000;
		kinds = 0;
		memset(kept, 0, sizeof(kept));
		look();
		cr_assert_leq(env.put_ns - before, UINT64_C(1) << 61);
		cr_assert(i % 2 != 0 || env.put_ns - before <= sp_clock_mono_ns() - begun);
	}
}

/*
 * A /proc of this thread that says what the test wants. The time between two looks is the one thing that is real; the
 * account has noted when they were.
 */
static void pretend(void)
{
	char path[128];

	scratch_make();
	(void)snprintf(path, sizeof(path), "%s/task", scratch);
	cr_assert_eq(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/task/%u", scratch, (unsigned)getpid());
	cr_assert_eq(mkdir(path, 0700), 0);
	core.ops.proc = scratch;
}

static void write_task(const char *name, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "task/%u/%s", (unsigned)getpid(), name);
	(void)scratch_write(path, text, strlen(text));
}

static void set_cpu(uint64_t ns)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%llu 0 1\n", (unsigned long long)ns);
	write_task("schedstat", text);
}

/* In a read of descriptor 3, which is none. */
static void block(void)
{
	static char stack[8192];
	char text[160];

	(void)snprintf(text, sizeof(text), "0 0x3 0x0 0x0 0x0 0x0 0x0 0x%lx 0x%lx\n",
		       ((unsigned long)stack + 4096) & ~7UL, (unsigned long)block);
	write_task("syscall", text);
}

static uint64_t all_put(void)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < kinds; i++)
		ns += kept[i].ns;
	return ns;
}

static void look_with_budget(int64_t ns)
{
	env.wait.walk_ns = ns;
	(void)sp_thread_waits_look(&env, &waits, &part->thread[0]);
}

/* A clock that has lagged and catches up shows more time than there was: that much was put down too much. */
Test(thread_waits, take_back_by_which_the_clocks_have_lagged)
{
	uint64_t last;
	uint64_t put;
	uint64_t lead;

	pretend();
	set_cpu(0);
	block();
	label(1);
	look_with_budget(SP_NS_PER_S);
	cr_assert(waits.has_clocks);
	put = all_put();

	last = waits.last_ns;
	set_cpu(SP_NS_PER_S);
	look_with_budget(SP_NS_PER_S);
	lead = SP_NS_PER_S - (waits.last_ns - last);
	cr_expect_eq(waits.lead_ns, (int64_t)lead);
	cr_expect_eq(all_put(), put, "it ran all the time");

	last = waits.last_ns;
	look_with_budget(SP_NS_PER_S);
	lead -= waits.last_ns - last;
	cr_expect_eq(waits.lead_ns, (int64_t)lead, "the rest of the lead");
	cr_expect_eq(all_put(), put);

	waits.lead_ns = 1000;
	last = waits.last_ns;
	while (sp_clock_mono_ns() - last <= 1000)
		;
	look_with_budget(SP_NS_PER_S);
	cr_expect_eq(all_put() + waits.left_ns, put + waits.last_ns - last - 1000);
	cr_expect_eq(waits.lead_ns, 0);
	scratch_remove();
}

/* Where there is no time for a stack, the wait is put down at a later look, or as unseen when its label ends. */
Test(thread_waits, that_could_not_be_walked_are_put_down_later)
{
	uint64_t from;

	pretend();
	set_cpu(0);
	block();
	label(1);
	from = part->thread[0].word[0][0];
	look_with_budget(0);
	cr_expect_eq(kinds, 0);
	cr_expect_gt(waits.left_ns, 0);

	look_with_budget(SP_NS_PER_S);
	cr_expect_eq(waits.left_ns, 0);
	cr_expect_eq(kinds, 1);
	cr_expect_gt(kept[0].depth, 0);
	cr_expect_lt(env.wait.walk_ns, (int64_t)SP_NS_PER_S, "the walk is paid for");
	cr_expect_leq(all_put(), waits.last_ns);
	cr_expect_lt(from, waits.last_ns);

	waits.wait.is_known = false;
	look_with_budget(0);
	cr_expect_gt(waits.left_ns, 0);
	from = all_put() + waits.left_ns;
	part->thread[0].tid = 0;
	look_with_budget(SP_NS_PER_S);
	cr_expect_geq(all_put(), from, "nothing is left over");
	scratch_remove();
}

/* Nothing is said of the rights to see a thread that has ended meanwhile. */
Test(thread_waits, of_a_thread_that_has_ended_are_not_refused)
{
	char command[256];

	pretend();
	set_cpu(0);
	block();
	label(1);
	look_with_budget(SP_NS_PER_S);
	cr_expect_eq(kinds, 1);

	/* The clock's file is open still. */
	(void)snprintf(command, sizeof(command), "mv %s/task/%u %s/away", scratch,
		       (unsigned)getpid(), scratch);
	cr_assert_eq(system(command), 0);
	kinds = 0;
	waits.wait.is_known = false;
	look_with_budget(SP_NS_PER_S);
	cr_expect_eq(kinds, 0);
	cr_expect_gt(waits.left_ns, 0);

	/* It is there, and may not be seen. */
	(void)snprintf(command, sizeof(command), "mkdir %s/task/%u", scratch, (unsigned)getpid());
	cr_assert_eq(system(command), 0);
	look_with_budget(SP_NS_PER_S);
	cr_expect_eq(kinds, 1);
	cr_expect_eq(strncmp(kept[0].leaf, "[blocked, no stack: ", 20), 0, "%s", kept[0].leaf);
	cr_expect(waits.wait.is_refused);
	scratch_remove();
}
