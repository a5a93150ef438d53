/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of local roots about their own time, by their threads' own clocks: exact, or absent. */
#include "sampler/span/span_times.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/cpu_clock.h"
#include "sampler/base/monotonic.h"
#include "span_host.h"

#define MS UINT64_C(1000000)

static struct sp_span_times got;
static uint64_t ahead_ns; /* lead of the test's monotonic clock */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_MONOTONIC) {
		uint64_t ns = (uint64_t)now->tv_nsec + ahead_ns;

		now->tv_sec += (time_t)(ns / SP_NS_PER_S);
		now->tv_nsec = (long)(ns % SP_NS_PER_S);
	}
	return rc;
}

static void start(void)
{
	set_up();
	cr_assert_eq(sp_span_times_init(true), 0);
}

TestSuite(span_times, .init = start, .timeout = 20);

static uint64_t cpu_now(void)
{
	struct timespec ts;

	cr_assert_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t process_cpu(void)
{
	struct timespec ts;

	cr_assert_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), 0);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void burn(uint64_t ns)
{
	uint64_t until = cpu_now() + ns;

	while (cpu_now() < until)
		continue;
}

static void sleep_for(uint64_t ns)
{
	const struct timespec ts = {.tv_nsec = (long)ns};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static void ask(uint64_t id)
{
	struct sp_span_record r;

	cr_assert(sp_span_of(handle_of(id), &r));
	sp_span_times_of(&r, &got);
}

/*
 * The thread's own measurements, inside a part of a root and around it. The root's values must lie between the two,
 * however long a busy machine takes from one clock to the next.
 */
struct clocks {
	uint64_t wall_ns;
	uint64_t cpu_ns;
	uint64_t voluntary;
};

static struct clocks clocks(void)
{
	struct rusage usage;

	cr_assert_eq(getrusage(RUSAGE_THREAD, &usage), 0);
	return (struct clocks){sp_monotonic_ns(), cpu_now(), (uint64_t)usage.ru_nvcsw};
}

static struct clocks since(struct clocks then)
{
	struct clocks now = clocks();

	return (struct clocks){now.wall_ns - then.wall_ns, now.cpu_ns - then.cpu_ns,
			       now.voluntary - then.voluntary};
}

Test(span_times, of_a_root_that_only_computes_are_exact)
{
	uint64_t begun = sp_monotonic_ns();

	cr_assert(begin(1));
	burn(20 * MS);
	ask(1);
	begun = sp_monotonic_ns() - begun;
	cr_expect(got.is_known);
	cr_expect_geq(got.cpu_ns, 20 * MS);
	cr_expect_leq(got.cpu_ns + got.off_cpu_ns, begun);
	/* The test's runner may have stopped the thread. */
	if (got.voluntary_switches != 0)
		return;
	cr_expect(got.has_runnable);
	cr_expect_eq(got.runnable_ns, got.off_cpu_ns);
}

/* The parts may have any length. */
Test(span_times, of_a_root_that_waits_are_exact)
{
	static const uint64_t length[] = {50000, MS, 2 * MS, 5 * MS, 30 * MS};

	for (uint64_t i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
		struct clocks around = clocks();
		struct clocks within;

		cr_assert(begin(i + 1));
		within = clocks();
		sleep_for(length[i]);
		within = since(within);
		ask(i + 1);
		around = since(around);
		cr_assert(got.is_known);
		cr_expect_geq(got.off_cpu_ns + around.cpu_ns, within.wall_ns);
		cr_expect_leq(got.off_cpu_ns + within.cpu_ns, around.wall_ns);
		cr_expect_geq(got.voluntary_switches, within.voluntary);
		cr_expect_leq(got.voluntary_switches, around.voluntary);
		/* A short sleep may be over before a slow machine begins to wait. */
		cr_expect_eq(got.has_runnable, got.voluntary_switches == 0,
			     "only the kernel knows what of it was runnable");
		cr_assert(end(i + 1));
	}
	cr_expect_geq(got.voluntary_switches, 1, "nobody takes 30 ms to begin to wait");
}

/* Opens another root for a moment, so that the current part of the first root ends, and a new one begins. */
static void leave_for_a_moment(uint64_t id)
{
	cr_assert(begin_under(id, 99));
	cr_assert_neq(sp_thread_own->part.root_id, 1);
	cr_assert(end(id));
	cr_assert_eq(sp_thread_own->part.root_id, 1);
}

/* Two parts: the first was runnable for 100 s, and of the second the runnable time is unknown. */
static void be_in_two_parts(uint64_t unknown_ns)
{
	uint64_t cpu_ns = cpu_now();

	cr_assert(begin(1));
	ahead_ns += 100 * SP_NS_PER_S;
	leave_for_a_moment(2);
	ahead_ns += unknown_ns;
	sp_thread_own->part.begun.voluntary--;
	leave_for_a_moment(3);
	ask(1);
	cpu_ns = cpu_now() - cpu_ns;
	cr_assert(got.is_known);
	cr_expect_geq(got.off_cpu_ns + cpu_ns, 100 * SP_NS_PER_S + unknown_ns);
}

Test(span_times, have_the_runnable_time_where_a_tenth_of_it_is_unknown)
{
	be_in_two_parts(9 * SP_NS_PER_S);
	cr_expect(got.has_runnable);
	cr_expect_geq(got.runnable_ns + SP_NS_PER_S, 100 * SP_NS_PER_S);
	cr_expect_lt(got.runnable_ns, 101 * SP_NS_PER_S);
}

Test(span_times, have_no_runnable_time_where_more_of_it_is_unknown)
{
	be_in_two_parts(12 * SP_NS_PER_S);
	cr_expect_not(got.has_runnable);
}

#define PAGE_BYTES 4096U
#define PAGES 64U

/* Maps pages of a file that are not in memory. */
static const volatile char *map_cold_file(void)
{
	static const char zeros[PAGE_BYTES];
	char path[] = "/var/tmp/spanprof-test-XXXXXX";
	int fd = mkstemp(path);
	void *pages;

	cr_assert_geq(fd, 0);
	cr_assert_eq(unlink(path), 0);
	for (unsigned i = 0; i < PAGES; i++)
		cr_assert_eq(write(fd, zeros, sizeof(zeros)), sizeof(zeros));
	cr_assert_eq(fsync(fd), 0);
	cr_assert_eq(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	pages = mmap(NULL, sizeof(zeros) * PAGES, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_eq(madvise(pages, sizeof(zeros) * PAGES, MADV_RANDOM), 0);
	return pages;
}

static uint64_t major_faults(void)
{
	struct rusage usage;

	cr_assert_eq(getrusage(RUSAGE_THREAD, &usage), 0);
	return (uint64_t)usage.ru_majflt;
}

Test(span_times, count_each_page_that_is_read_from_a_disk)
{
	const volatile char *page = map_cold_file();
	uint64_t around = major_faults();
	uint64_t within;

	cr_assert(begin(1));
	within = major_faults();
	for (unsigned i = 0; i < PAGES; i++)
		(void)page[(size_t)i * PAGE_BYTES];
	within = major_faults() - within;
	ask(1);
	around = major_faults() - around;
	if (within == 0)
		cr_skip_test("no disk below /var/tmp");
	cr_assert(got.is_known);
	cr_expect_geq(got.major_faults, within);
	cr_expect_leq(got.major_faults, around);
}

Test(span_times, of_spans_below_are_those_of_the_root)
{
	struct sp_thread_part before;

	cr_assert(begin(1));
	before = sp_thread_own->part;
	cr_expect_eq(before.root_id, 1);
	cr_assert(begin(2));
	cr_assert(begin(3));
	cr_assert(end(3));
	cr_assert(end(2));
	/* the clocks were not read again: a second reading would differ */
	cr_expect_eq(memcmp(&before, &sp_thread_own->part, sizeof(before)), 0);
	cr_assert(end(1));
	cr_expect_eq(sp_thread_own->part.root_id, 0);
}

static void *work_below(void *arg)
{
	cr_assert(begin_under(2, 1));
	burn(5 * MS);
	cr_assert(end(2));
	return arg;
}

Test(span_times, are_the_sum_of_all_threads)
{
	cr_assert(begin(1));
	run(work_below);
	burn(5 * MS);
	ask(1);
	cr_expect_geq(got.cpu_ns, 10 * MS);
	cr_expect(got.is_known);
}

static SP_TLS uint64_t allocated;

static uint64_t allocated_so_far(void)
{
	return allocated;
}

static void *allocate_below(void *arg)
{
	allocated = 1 << 20;
	cr_assert(begin_under(2, 1));
	allocated += 300;
	cr_assert(end(2));
	allocated += 1 << 20;
	return arg;
}

Test(span_times, have_what_all_threads_allocated)
{
	cr_assert(begin(1));
	allocated += 1 << 20;
	ask(1);
	cr_expect_not(got.has_allocated, "nobody has counted");
	cr_assert(end(1));

	sp_span_times_allocated = allocated_so_far;
	cr_assert(begin(1));
	allocated += 1000;
	run(allocate_below);
	allocated += 200;
	ask(1);
	cr_expect(got.has_allocated);
	cr_expect_eq(got.allocated, 1500);
}

static _Atomic bool is_below;
static _Atomic bool may_end;

static void *stay_below(void *id)
{
	cr_assert(begin_under((uintptr_t)id, 1));
	burn(20 * MS);
	is_below = true;
	while (!may_end)
		sched_yield();
	cr_assert(end((uintptr_t)id));
	return id;
}

Test(span_times, but_for_cpu_time_are_unknown_while_another_thread_is_in_it)
{
	uint64_t around = process_cpu();
	pthread_t thread;

	cr_assert(begin(1));
	cr_assert_eq(pthread_create(&thread, NULL, stay_below, (void *)2), 0);
	while (!is_below)
		sched_yield();
	ask(1);
	cr_expect_not(got.is_known);
	/* except its CPU time so far, which its clock tells */
	cr_expect_geq(got.cpu_ns, 20 * MS);
	may_end = true;
	pthread_join(thread, NULL);
	around = process_cpu() - around;
	ask(1);
	cr_expect(got.is_known);
	cr_expect_leq(got.cpu_ns, around);
}

/* Parts of other threads are searched in at most this many blocks. */
static void take_blocks(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		cr_assert_not_null(sp_thread_claim());
}

/* Two threads are in the root when it ends, with n blocks between theirs. */
static void ask_while_two_are_in(unsigned n)
{
	pthread_t thread[2];

	cr_assert(begin(1));
	for (uintptr_t i = 0; i < 2; i++) {
		is_below = false;
		cr_assert_eq(pthread_create(&thread[i], NULL, stay_below, (void *)(i + 2)), 0);
		while (!is_below)
			sched_yield();
		take_blocks(n);
	}
	ask(1);
	may_end = true;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
}

Test(span_times, have_the_cpu_time_of_all_threads_that_are_in_it)
{
	ask_while_two_are_in(10);
	cr_expect(got.has_cpu);
	cr_expect_geq(got.cpu_ns, 40 * MS);
}

Test(span_times, have_no_cpu_time_where_not_all_threads_that_are_in_it_are_found)
{
	ask_while_two_are_in(SP_THREAD_LOOK_MAX);
	cr_expect_not(got.has_cpu);
}

static void *go_without_an_end(void *arg)
{
	cr_assert(begin_under(2, 1));
	burn(20 * MS);
	return arg;
}

Test(span_times, have_no_cpu_time_where_a_thread_has_ended_in_it)
{
	cr_assert(begin(1));
	run(go_without_an_end);
	ask(1);
	cr_expect_not(got.has_cpu);
}

/* The other threads are not searched. */
Test(span_times, have_the_cpu_time_whatever_other_threads_there_are)
{
	cr_assert(begin(1));
	take_blocks(2 * SP_THREAD_LOOK_MAX);
	burn(20 * MS);
	ask(1);
	cr_expect(got.has_cpu);
	cr_expect_geq(got.cpu_ns, 20 * MS);
}

Test(span_times, of_a_span_that_ends_on_another_thread_are_unknown)
{
	cr_assert(begin(1));
	/* its next span, whose root may have the same table entry */
	end_elsewhere(1);
	cr_assert(begin(2));
	ask(2);
	cr_expect(got.is_known);
}

Test(span_times, of_a_root_that_was_never_active_are_unknown)
{
	atomic_store(&sp_span_stack_scoped, true);
	cr_assert(begin_scoped(1));
	ask(1);
	cr_expect_eq(got.cpu_ns, 0);
	cr_expect_not(got.is_known);
}

/* The SDK has no scopes and both roots are open on one thread, so nobody knows for which root the thread works. */
Test(span_times, of_roots_that_share_a_thread_are_unknown)
{
	begin_root(1);
	begin_root(2);
	begin_root(3);
	for (uint64_t id = 1; id <= 3; id++) {
		ask(id);
		cr_expect_not(got.has_cpu, "%u", (unsigned)id);
		cr_expect_not(got.is_known, "%u", (unsigned)id);
	}
	end(2);
	end(3);
	ask(1);
	cr_expect_not(got.has_cpu, "it was shared");
	end(1);
	begin_root(4);
	cr_assert(begin_under(5, 4));
	end(5);
	ask(4);
	cr_expect(got.is_known, "that is over");
	begin_root(5);
	ask(5);
	cr_expect_not(got.has_cpu);
	ask(4);
	cr_expect_not(got.has_cpu);
}

Test(span_times, begin_anew_in_a_forked_child)
{
	pid_t pid;
	int status = 1;

	cr_assert(begin(1));
	burn(20 * MS);
	pid = fork();
	if (pid == 0) {
		struct sp_span_record r;
		uint64_t own_ns = 0;

		sp_span_forked(sp_thread_forked());
		if (!sp_span_of(handle_of(1), &r))
			_exit(1);
		sp_span_times_of(&r, &got);
		/* the child's clock begins with it, however slow the machine is */
		_exit(sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &own_ns) && got.cpu_ns <= own_ns &&
				      !got.is_known
			      ? 0
			      : 2);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	ask(1);
	cr_expect(got.is_known);
}
