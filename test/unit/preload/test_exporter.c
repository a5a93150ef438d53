/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about waiting for an exporter, which is stood in for by a child process of the test. */
#include "preload/exporter/exporter.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/exporter/exporter_process.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/region/region.h"
#include "test/unit/descriptors.h"
#include "test/unit/sampler/stderr_pipe.h"

#define LONG_MS 10000U

static pid_t child;
static int64_t later_s; /* by so much the clock of the test is ahead */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += later_s;
	return rc;
}

static char started[SP_EXPORTER_PATH_MAX]; /* the path of the program */

/* The start is another test's. */
int sp_exporter_process_start(const struct sp_exporter_start *s)
{
	(void)snprintf(started, sizeof(started), "%s", s->path);
	return -ENOSYS;
}

bool sp_exporter_process_alive(const struct sp_region *region)
{
	return region->exporter_pid > 0 && kill(region->exporter_pid, 0) == 0;
}

/* Nobody's keeper: these exporters were joined. */
bool sp_exporter_process_may_start(void)
{
	return true;
}

bool sp_exporter_process_end(uint64_t end_ns)
{
	return end_ns != 0;
}

bool sp_keeper_made(const struct sp_region *region)
{
	return region == NULL;
}

int32_t sp_keeper_exporter(const struct sp_region *region)
{
	(void)region;
	return 0;
}

bool sp_keeper_is_there(void)
{
	return false;
}

static void make_region(void)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};
	int fd = sp_region_create(bytes);

	cr_assert_geq(fd, 3);
	cr_assert_eq(close(fd), 0);
}

static void end_child(void)
{
	if (child == 0)
		return;
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
}

/* What an exporter does that answers so many flushes and then sleeps for ever. */
static void answer(unsigned n)
{
	struct sp_region *r = sp_region;

	for (;;) {
		uint32_t wake = atomic_load(&r->wake);

		if (n != 0 && atomic_load(&r->flush_asked) != atomic_load(&r->flush_done)) {
			atomic_store(&r->flush_done, atomic_load(&r->flush_asked));
			(void)syscall(SYS_futex, &r->flush_done, FUTEX_WAKE, INT32_MAX, NULL, NULL,
				      0);
			n--;
		}
		(void)syscall(SYS_futex, &r->wake, FUTEX_WAIT, wake, NULL, NULL, 0);
	}
}

static void begin(unsigned answers)
{
	child = fork();
	if (child == 0)
		answer(answers);
	sp_region->exporter_pid = child;
}

static uint64_t flush_ms(uint32_t timeout_ms)
{
	uint64_t began = sp_monotonic_ns();

	sp_exporter_finish(timeout_ms);
	return (sp_monotonic_ns() - began) / SP_NS_PER_MS;
}

TestSuite(exporter, .init = make_region, .fini = end_child, .timeout = 30);

Test(exporter, is_waited_for_until_it_has_answered)
{
	begin(2);

	cr_expect_lt(flush_ms(LONG_MS), LONG_MS);
	cr_expect_eq(sp_region->flush_done, 1);
	cr_expect_lt(flush_ms(LONG_MS), LONG_MS);
	cr_expect_eq(sp_region->flush_done, 2);
}

Test(exporter, that_does_not_answer_is_waited_for_no_longer_than_that)
{
	begin(0);

	cr_expect_geq(flush_ms(50), 50);
	cr_expect_eq(sp_region->flush_asked, 1);
	cr_expect_eq(sp_region->flush_done, 0);
}

Test(exporter, is_told_how_long_there_is_to_answer)
{
	uint64_t before = sp_monotonic_ns();

	begin(1);
	sp_exporter_finish(LONG_MS);

	cr_expect_geq(sp_region->flush_deadline_ns, before + LONG_MS * SP_NS_PER_MS);
	cr_expect_leq(sp_region->flush_deadline_ns, sp_monotonic_ns() + LONG_MS * SP_NS_PER_MS);
}

Test(exporter, that_has_ended_is_not_waited_for)
{
	begin(0);
	end_child();

	cr_expect_lt(flush_ms(LONG_MS), LONG_MS);
}

Test(exporter, that_cannot_work_is_not_waited_for)
{
	begin(0);
	sp_region->exporter = SP_EXPORTER_FAILED;

	cr_expect_lt(flush_ms(LONG_MS), LONG_MS);
}

Test(exporter, is_not_asked_where_no_time_is_given)
{
	begin(0);
	sp_exporter_finish(0);

	cr_expect_eq(sp_region->flush_asked, 0);
}

static int family_fd;

/* Another process of the family listens, and ours joins it. */
static void join_first(void)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};
	const struct sp_config config = {0};
	struct sp_exporter_start first = {.environment = environ, .region = sp_region};

	sp_exporter_family_load(true);
	cr_assert_not(sp_exporter_family_join(&first));
	family_fd = first.family_fd;
	cr_assert_eq(sp_exporter_start(&config, sp_region_create(bytes)), 0);
}

/* It may take its time, but not if nobody is there any more. */
Test(exporter, that_was_joined_is_waited_for_as_long_as_it_listens)
{
	uint64_t end = sp_monotonic_ns() + 300 * SP_NS_PER_MS;

	join_first();
	/* Who started it may have ended meanwhile. */
	sp_region->exporter_pid = INT32_MAX;
	while (sp_monotonic_ns() < end)
		cr_assert(sp_exporter_works());
	cr_assert_eq(close(family_fd), 0);

	cr_expect_lt(flush_ms(LONG_MS), LONG_MS);
	cr_expect_not(sp_exporter_works());
	cr_expect_eq(sp_region->exporter, SP_EXPORTER_GONE, "nobody else takes it from now on");
}

/* It was stopped, or another process has the socket from its parent and does not know. */
Test(exporter, that_listens_and_takes_nobody_in_is_not_joined_twice)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};
	const struct sp_config config = {.exporter = "/nowhere"};

	sp_log_set_level(SP_LOG_NONE);
	join_first();
	cr_assert(sp_exporter_works());
	later_s = 60;
	cr_assert_not(sp_exporter_works());

	cr_expect_eq(sp_exporter_start(&config, sp_region_create(bytes)), -ENOSYS, "its own");
	cr_expect_str_eq(started, "/nowhere");
	cr_assert_eq(close(family_fd), 0);
}

/* Starts it where nobody listens, and it cannot be started: as whom, and what is told. */
static void start_alone(const char *configured, const char *want)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};
	const struct sp_config config = {.exporter = configured};

	stderr_begin();
	sp_exporter_family_load(true);
	cr_expect_eq(sp_exporter_start(&config, sp_region_create(bytes)), -ENOSYS);
	cr_expect_eq(stderr_end(), 1);
	cr_expect_str_eq(started, want);
	cr_expect(stderr_has(want), "%s", stderr_text);
}

Test(exporter, is_the_program_that_was_asked_for)
{
	start_alone("/nowhere", "/nowhere");
}

Test(exporter, is_the_program_beside_our_object)
{
	char want[SP_EXPORTER_PATH_MAX];

	cr_assert(sp_exporter_path(want));
	start_alone(NULL, want);
}

/* Another thread may be starting another one meanwhile: the region is there already, the exporter not yet. */
Test(exporter, that_was_joined_is_waited_for_in_no_other_region)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};

	join_first();
	cr_assert(sp_exporter_works());
	cr_assert_eq(close(sp_region_create(bytes)), 0);

	cr_expect_not(sp_exporter_works());
	cr_expect_eq(sp_region->exporter, SP_EXPORTER_NONE, "it is for who is starting one to say");
	cr_assert_eq(close(family_fd), 0);
}

#ifndef __SANITIZE_ADDRESS__ /* it takes the stack of a cancelled thread for somebody else's */
/* Where a span starts no thread expects its end: what it had begun, we or the host, would stay half done. */
static void *start_cancelled(void *came_back)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};
	const struct sp_config config = {.exporter = "/nowhere"};

	(void)pthread_cancel(pthread_self());
	(void)sp_exporter_start(&config, sp_region_create(bytes));
	(void)sp_exporter_family_listens();
	*(bool *)came_back = true;
	pthread_testcancel();
	return NULL;
}

Test(exporter, is_started_by_a_thread_that_is_to_be_cancelled_as_by_any_other)
{
	bool came_back = false;
	pthread_t thread;
	void *result;

	sp_log_set_level(SP_LOG_NONE);
	cr_assert_eq(pthread_create(&thread, NULL, start_cancelled, &came_back), 0);
	cr_assert_eq(pthread_join(thread, &result), 0);

	cr_expect(came_back);
	cr_expect_eq(result, PTHREAD_CANCELED);
}
#endif

Test(exporter, that_has_taken_a_process_in_is_watched_as_any_other)
{
	join_first();
	begin(0);
	sp_region->exporter = SP_EXPORTER_WORKING;

	cr_expect(sp_exporter_works());
	end_child();
	cr_expect_not(sp_exporter_works());
}

Test(exporter, region_is_as_large_as_it_says_and_nobody_can_change_that)
{
	const uint64_t bytes[SP_REGION_PARTS] = {8192, 1, 5000, 300};
	unsigned before = open_descriptors();
	int fd;

	errno = EINVAL;
	fd = sp_region_create(bytes);
	cr_assert_geq(fd, 3);
	cr_expect_eq(open_descriptors(), before + 1);
	cr_expect_eq(ftruncate(fd, 0), -1);
	cr_expect_eq(lseek(fd, 0, SEEK_END), (off_t)sp_region->bytes);
	for (unsigned i = 0; i < SP_REGION_PARTS; i++) {
		uint64_t size;
		const void *part;

		cr_expect_eq(sp_region->part[i].at % 4096, 0);
		cr_expect_geq(sp_region->part[i].bytes, bytes[i]);
		cr_expect_leq(sp_region->part[i].at + sp_region->part[i].bytes, sp_region->bytes);
		part = sp_region_part(sp_region_now(), i, &size);
		cr_expect_eq(part, (char *)sp_region + sp_region->part[i].at);
	}
	cr_expect_eq(close(fd), 0);
}
