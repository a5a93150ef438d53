/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for an exporter. A child process of the test stands for the exporter. */
#include "preload/exporter/exporter.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "as_exporter.h"
#include "preload/exporter/exporter_process.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/region/region.h"
#include "test/unit/descriptors.h"
#include "test/unit/sampler/stderr_pipe.h"
#include "test/unit/scratch.h"

#define LONG_MS 10000U

static pid_t child;
static int64_t later_s; /* lead of the test's clock */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += later_s;
	return rc;
}

static char started[SP_EXPORTER_PATH_MAX]; /* the path of the program that was started */

/* Other tests are about the start. */
int sp_exporter_process_start(const struct sp_exporter_start *s)
{
	(void)snprintf(started, sizeof(started), "%s", s->path);
	return -ENOSYS;
}

bool sp_exporter_process_alive(const struct sp_region *region)
{
	return region->exporter_pid > 0 && kill(region->exporter_pid, 0) == 0;
}

/* This process is no keeper: these exporters were joined. */
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

static bool has_keeper;

bool sp_keeper_is_there(void)
{
	return has_keeper;
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

/* An exporter that answers n flushes and then sleeps for ever. */
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

/* 50 naps of 20 ms before they became longer. */
Test(exporter, is_checked_less_often_the_longer_a_flush_waits)
{
	struct rusage before;
	struct rusage after;

	begin(0);
	cr_assert_eq(getrusage(RUSAGE_THREAD, &before), 0);
	cr_expect_geq(flush_ms(1000), 1000);
	cr_assert_eq(getrusage(RUSAGE_THREAD, &after), 0);

	cr_expect_leq(after.ru_nvcsw - before.ru_nvcsw, 20);
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
	cr_assert(listen_here(&first));
	family_fd = first.family_fd;
	cr_assert_eq(sp_exporter_start(&config, sp_region_create(bytes)), 0);
}

/* The exporter may take its time, but must not be awaited once it is gone. */
Test(exporter, that_was_joined_is_waited_for_as_long_as_it_listens)
{
	uint64_t end = sp_monotonic_ns() + 300 * SP_NS_PER_MS;

	join_first();
	/* The process that started it may have ended meanwhile. */
	sp_region->exporter_pid = INT32_MAX;
	while (sp_monotonic_ns() < end)
		cr_assert(sp_exporter_works());
	cr_assert_eq(close(family_fd), 0);

	cr_expect_lt(flush_ms(LONG_MS), LONG_MS);
	cr_expect_not(sp_exporter_works());
	cr_expect_eq(sp_region->exporter, SP_EXPORTER_GONE, "nobody else takes it from now on");
}

/* Makes the program at the expected path. */
static void make_program(char want[SP_EXPORTER_PATH_MAX])
{
	cr_assert(sp_exporter_path(want));
	cr_assert_eq(close(open(want, O_CREAT | O_WRONLY | O_CLOEXEC, 0755)), 0);
}

/* The listener was stopped, or another process has inherited its socket without knowing it. */
Test(exporter, that_listens_and_takes_nobody_in_is_not_joined_twice)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};
	const struct sp_config config = {.service_name = "shop"};
	char want[SP_EXPORTER_PATH_MAX];

	make_program(want);
	sp_log_set_level(SP_LOG_NONE);
	join_first();
	cr_assert(sp_exporter_works());
	later_s = 60;
	cr_assert_not(sp_exporter_works());

	cr_expect_eq(sp_exporter_start(&config, sp_region_create(bytes)), -ENOSYS, "its own");
	cr_expect_str_eq(started, want);
	cr_assert_eq(close(family_fd), 0);
}

/* Whether the parent of a process that ends is asked for an exporter. */
static bool asks_its_parent(bool with_keeper)
{
	int status = -1;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		has_keeper = with_keeper;
		(void)sp_exporter_finish(0);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	return sp_exporter_family_is_asked();
}

Test(exporter, that_ends_with_its_process_is_asked_of_the_parent)
{
	sp_exporter_family_load(true);
	cr_expect_not(asks_its_parent(true), "they share no page yet");
	cr_expect(asks_its_parent(true));
	cr_expect_not(asks_its_parent(false), "that of another process stays");
}

/* No process listens, so the exporter is started; the start fails, and the message names the program. */
Test(exporter, is_the_program_beside_our_object)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};
	const struct sp_config config = {.service_name = "shop"};
	char want[SP_EXPORTER_PATH_MAX];

	make_program(want);
	stderr_begin();
	sp_exporter_family_load(true);
	cr_expect_eq(sp_exporter_start(&config, sp_region_create(bytes)), -ENOSYS);
	cr_expect_eq(stderr_end(), 1);
	cr_expect_str_eq(started, want);
	cr_expect(stderr_has(want), "%s", stderr_text);
}

static void make_in(const char *folder, mode_t mode)
{
	char file[SP_EXPORTER_PATH_MAX];

	cr_assert_eq(mkdir(folder, 0755), 0);
	cr_assert_eq(chmod(folder, mode), 0);
	(void)snprintf(file, sizeof(file), "%s/program", folder);
	cr_assert_eq(close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0755)), 0);
}

/* The result of the check for "program" in that folder; leaves is the expected path, NULL = not checked. */
static int checked(const char *folder, const char *leaves)
{
	char program[SP_EXPORTER_PATH_MAX];
	int err;

	(void)snprintf(program, sizeof(program), "%s/program", folder);
	err = sp_exporter_check(program);
	if (leaves != NULL)
		cr_expect_str_eq(program, leaves);
	return err;
}

#define OTHER 65534

/* /tmp has the sticky bit and belongs to root: no other user can rename root's files in it. */
Test(exporter, that_root_starts_is_nobody_elses_to_change)
{
	char real[SP_EXPORTER_PATH_MAX];
	unsigned before = open_descriptors();

	if (geteuid() != 0)
		return;
	scratch_make();
	cr_assert_eq(chmod(scratch, 0755), 0);
	make_in(in_scratch("own"), 0755);
	make_in(in_scratch("sticky"), 01777);
	make_in(in_scratch("group"), 0775);
	make_in(in_scratch("all"), 0757);
	make_in(in_scratch("theirs"), 0755);
	make_in(in_scratch("theirs/below"), 0755);
	make_in(in_scratch("file"), 0755);
	make_in(in_scratch("written"), 0755);
	make_in(in_scratch("stuck"), 0755);
	cr_assert_eq(chown(in_scratch("theirs"), OTHER, OTHER), 0);
	cr_assert_eq(chown(in_scratch("file/program"), OTHER, OTHER), 0);
	cr_assert_eq(chmod(in_scratch("written/program"), 0775), 0);
	cr_assert_eq(chmod(in_scratch("stuck/program"), 01777), 0);
	cr_assert_eq(symlink("theirs/below", in_scratch("link")), 0);
	cr_assert_eq(symlink("own", in_scratch("fine")), 0);
	(void)snprintf(real, sizeof(real), "%s", in_scratch("own/program"));

	cr_expect_eq(checked(in_scratch("own"), real), 0);
	cr_expect_eq(checked(in_scratch("fine"), real), 0, "a link of root's is followed once");
	cr_expect_eq(checked(in_scratch("sticky"), NULL), 0);
	cr_expect_eq(checked(in_scratch("group"), NULL), -EKEYREJECTED);
	cr_expect_eq(checked(in_scratch("all"), NULL), -EKEYREJECTED);
	cr_expect_eq(checked(in_scratch("theirs"), NULL), -EKEYREJECTED);
	cr_expect_eq(checked(in_scratch("theirs/below"), NULL), -EKEYREJECTED);
	cr_expect_eq(checked(in_scratch("link"), NULL), -EKEYREJECTED, "by its real path");
	cr_expect_eq(checked(in_scratch("file"), NULL), -EKEYREJECTED);
	cr_expect_eq(checked(in_scratch("written"), NULL), -EKEYREJECTED);
	cr_expect_eq(checked(in_scratch("stuck"), NULL), -EKEYREJECTED, "the bit is for folders");
	cr_expect_eq(checked(in_scratch("nowhere"), NULL), -ENOENT);
	cr_expect_eq(open_descriptors(), before);
	/* If its real user is root, it can become root again; if its effective user is root, it is root. */
	cr_assert_eq(seteuid(OTHER), 0);
	cr_expect_eq(checked(in_scratch("theirs"), NULL), -EKEYREJECTED);
	cr_assert_eq(seteuid(0), 0);
	cr_assert_eq(setreuid(OTHER, 0), 0);
	cr_expect_eq(checked(in_scratch("theirs"), NULL), -EKEYREJECTED);
	cr_assert_eq(setreuid(0, 0), 0);
	scratch_remove();
	/* Without root's rights the owner of the object could harm only this user. */
	cr_assert_eq(setuid(OTHER), 0);
	cr_expect_eq(checked("/nowhere", "/nowhere/program"), 0);
}

/* Another thread may be starting another exporter meanwhile: the region exists already, the exporter does not yet. */
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

#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer takes the stack of a cancelled thread for a foreign
                              * one */
/* No thread expects to end where a span starts: half of the work of the host, or of ours, would be left undone. */
static void *start_cancelled(void *came_back)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};
	const struct sp_config config = {.service_name = "shop"};

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
	const uint64_t bytes[SP_REGION_PARTS] = {8192, 1, 5000, 300, 9000};
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
