/* SPDX-License-Identifier: Apache-2.0 */
/* What local roots say about themselves: by their threads' own clocks, and by what the exporter tells. */
#include "sampler/span/span_times.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/monotonic.h"
#include "sampler/region/thread_labels.h"
#include "sampler/span/shown_label.h"
#include "span_host.h"

#define MS UINT64_C(1000000)
#define PLACES 64U

static struct sp_thread_labels_part *part;
static struct sp_span_times got;

static void start(void)
{
	set_up();
	cr_assert_eq(sp_span_times_init(true), 0);
	part = calloc(1, SP_THREAD_LABELS_BYTES(PLACES));
	sp_thread_labels_use(part, SP_THREAD_LABELS_BYTES(PLACES));
}

TestSuite(span_times, .init = start, .timeout = 20);

static uint64_t cpu_now(void)
{
	struct timespec ts;

	cr_assert_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
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

/* As the exporter does, of the part that the thread is in. */
static void tell(enum sp_waited what, uint64_t ns, unsigned last)
{
	struct sp_thread_waited w = {.part = sp_thread_own->part.number, .last = last};

	w.ns[what] = ns;
	sp_thread_labels_tell(&part->thread[sp_thread_own->index], &w);
}

Test(span_times, of_a_root_that_only_computes_are_exact)
{
	uint64_t begun = sp_monotonic_ns();

	cr_assert(begin(1));
	burn(20 * MS);
	ask(1);
	begun = sp_monotonic_ns() - begun;
	cr_expect(got.has_counts);
	cr_expect_geq(got.cpu_ns, 20 * MS);
	/* The test's runner may have stopped it. */
	if (got.voluntary_switches != 0)
		return;
	cr_expect(got.has_waits && got.has_kinds);
	cr_expect_eq(got.blocked_ns, 0);
	cr_expect_eq(got.lock_ns + got.io_ns, 0);
	cr_expect_leq(got.cpu_ns + got.runnable_ns, begun);
	cr_expect_geq(got.cpu_ns + got.runnable_ns, 20 * MS);
}

Test(span_times, of_waits_that_nobody_saw_are_left_out)
{
	cr_assert(begin(1));
	sleep_for(20 * MS);
	ask(1);
	cr_expect(got.has_counts);
	cr_expect_geq(got.voluntary_switches, 1);
	cr_expect_lt(got.cpu_ns, 20 * MS);
	cr_expect_not(got.has_waits);
	cr_expect_not(got.has_kinds);
}

Test(span_times, go_on_for_a_moment_as_they_were_seen)
{
	uint64_t begun = sp_monotonic_ns();

	cr_assert(begin(1));
	sleep_for(40 * MS);
	tell(SP_WAITED_LOCK, 35 * MS, SP_WAITED_LOCK);
	ask(1);
	begun = sp_monotonic_ns() - begun;
	/* On a busy machine the sleep may have been much longer than what was told of it. */
	if (begun > 45 * MS)
		return;
	cr_assert(got.has_waits && got.has_kinds);
	cr_expect_eq(got.runnable_ns, 0);
	cr_expect_eq(got.lock_ns, got.blocked_ns);
	cr_expect_geq(got.blocked_ns, 39 * MS);
	cr_expect_leq(got.blocked_ns + got.cpu_ns, begun);
	cr_expect_geq(got.blocked_ns + got.cpu_ns, 40 * MS);
}

Test(span_times, of_which_most_is_unknown_are_unknown)
{
	cr_assert(begin(1));
	sleep_for(40 * MS);
	tell(SP_WAITED_LOCK, 20 * MS, SP_WAITED_LOCK);
	ask(1);
	cr_expect(got.has_counts);
	cr_expect_not(got.has_waits);
}

Test(span_times, of_a_blocked_thread_may_have_no_reason)
{
	cr_assert(begin(1));
	sleep_for(40 * MS);
	tell(SP_WAITED_UNKNOWN, UINT64_MAX, SP_WAITED_UNKNOWN);
	ask(1);
	cr_assert(got.has_waits);
	cr_expect_geq(got.blocked_ns, 39 * MS);
	cr_expect_not(got.has_kinds);
}

#define PAGE_BYTES 4096U
#define PAGES 64U

/* Pages of a file, none of which is in memory. */
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
	cr_assert(got.has_counts);
	cr_expect_geq(got.major_faults, within);
	cr_expect_leq(got.major_faults, around);
}

/* As far as it is known it waited for a processor, and nobody saw what it was blocked in. */
Test(span_times, have_no_reason_for_what_is_left_beside_a_processor)
{
	struct sp_thread_waited w = {.last = SP_WAITED_UNKNOWN};

	cr_assert(begin(1));
	sleep_for(40 * MS);
	w.part = sp_thread_own->part.number;
	w.ns[SP_WAITED_CPU] = 32 * MS;
	w.ns[SP_WAITED_UNKNOWN] = UINT64_MAX;
	sp_thread_labels_tell(&part->thread[sp_thread_own->index], &w);
	ask(1);
	cr_expect(got.has_waits);
	cr_expect_eq(got.runnable_ns, 32 * MS);
	cr_expect_not(got.has_kinds);
}

/* The region may be written to by another program: it can lie about what a wait was for, and no more. */
Test(span_times, are_never_more_than_the_thread_has_measured)
{
	unsigned seed = 5;

	for (uint64_t id = 1; id <= 50; id++) {
		struct sp_thread_waited w = {.last = (uint32_t)rand_r(&seed) % 8};
		uint64_t begun = sp_monotonic_ns();

		cr_assert(begin(id));
		sleep_for(MS);
		w.part = sp_thread_own->part.number;
		for (unsigned i = 0; i < SP_WAITED_N; i++)
			w.ns[i] = rand_r(&seed) % 2 == 0 ? UINT64_MAX - i : (uint64_t)rand_r(&seed);
		sp_thread_labels_tell(&part->thread[sp_thread_own->index], &w);
		ask(id);
		begun = sp_monotonic_ns() - begun;
		cr_assert(end(id));
		cr_assert_leq(got.cpu_ns + got.runnable_ns + got.blocked_ns, begun);
		cr_assert_leq(got.lock_ns, got.blocked_ns);
		cr_assert(!got.has_kinds || got.io_ns <= got.blocked_ns - got.lock_ns);
	}
}

Test(span_times, take_no_notice_of_what_was_told_of_other_parts)
{
	cr_assert(begin(1));
	sleep_for(5 * MS);
	tell(SP_WAITED_IO, UINT64_MAX, SP_WAITED_IO);
	ask(1);
	cr_expect(got.has_kinds);
	cr_assert(end(1));
	cr_assert(begin(2));
	sleep_for(5 * MS);
	ask(2);
	cr_expect_not(got.has_waits);
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
	/* no clock was read: it would be another time by now */
	cr_expect_eq(memcmp(&before, &sp_thread_own->part, sizeof(before)), 0);
	cr_assert(end(1));
	cr_expect_eq(sp_thread_own->part.root_id, 0);
}

Test(span_times, are_shown_the_exporter_once_for_a_part)
{
	const struct sp_thread_labels *shown;
	uint32_t n;

	sp_shown_label_parts_only = true;
	cr_assert(begin(1));
	shown = &part->thread[sp_thread_own->index];
	n = shown->n;
	cr_expect_eq(shown->word[n - 1][5], sp_thread_own->part.number);
	cr_assert(begin(2));
	cr_assert(end(2));
	cr_expect_eq(shown->n, n);
	/* Another thread has ended a span here, and the exporter takes the label for ended. */
	cr_assert(begin(3));
	end_elsewhere(3);
	cr_assert(begin(4));
	cr_expect_eq(shown->n, n + 1);
	cr_expect_eq(shown->word[n % SP_THREAD_LABELS_KEPT][5], sp_thread_own->part.number);
	cr_assert(end(4));
	cr_expect_eq(shown->n, n + 1);
	cr_assert(end(1));
	cr_expect_eq(shown->n, n + 2);
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
	cr_expect(got.has_counts);
}

static _Atomic bool is_below;
static _Atomic bool may_end;

static void *stay_below(void *arg)
{
	cr_assert(begin_under(2, 1));
	is_below = true;
	while (!may_end)
		sched_yield();
	cr_assert(end(2));
	return arg;
}

Test(span_times, are_unknown_while_another_thread_has_not_told_its_own)
{
	pthread_t thread;

	cr_assert(begin(1));
	cr_assert_eq(pthread_create(&thread, NULL, stay_below, NULL), 0);
	while (!is_below)
		sched_yield();
	ask(1);
	cr_expect_not(got.has_counts);
	cr_expect_not(got.has_waits);
	may_end = true;
	pthread_join(thread, NULL);
	ask(1);
	cr_expect(got.has_counts);
}

Test(span_times, of_a_span_that_ends_on_another_thread_are_unknown)
{
	cr_assert(begin(1));
	/* its next span, whose root may have the same entry in the table */
	end_elsewhere(1);
	cr_assert(begin(2));
	ask(2);
	cr_expect(got.has_counts);
}

Test(span_times, of_a_root_that_was_never_active_are_unknown)
{
	atomic_store(&sp_span_stack_scoped, true);
	cr_assert(begin_scoped(1));
	ask(1);
	cr_expect_eq(got.cpu_ns, 0);
	cr_expect_not(got.has_counts);
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

		sp_thread_forked();
		sp_span_forked();
		if (!sp_span_of(handle_of(1), &r))
			_exit(1);
		sp_span_times_of(&r, &got);
		_exit(got.cpu_ns < 20 * MS && !got.has_counts && !got.has_waits ? 0 : 2);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	ask(1);
	cr_expect(got.has_counts);
}
