/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program from the outside: a region and a host that ends in one way or another; the files that
 * arrive in a folder, and the status file.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "export/exporter/family.h"
#include "export/util/clock.h"
#include "host_double.h"
#include "program_unit.h"

static void set_up(void)
{
	program_set_up("status.json");
}

TestSuite(program, .init = set_up, .fini = program_tear_down, .timeout = 60);

static void start(void (*run)(void))
{
	host_start(run);
	program_start(-1);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
}

static unsigned profiles(void)
{
	return program_profiles("*.pb.gz");
}

static const char *status_text(void)
{
	return program_file(program.status_file);
}

static bool status_has(const char *part)
{
	return strstr(status_text(), part) != NULL;
}

Test(program, delivers_what_a_flush_finds_and_goes_on)
{
	char pid[32];

	start(NULL);
	host_sample(1, "GET /");
	program_flush(&host);
	cr_assert(becomes(&host.region->flush_done, 1));
	cr_expect_eq(profiles(), 1);
	cr_expect(status_has("\"put\": 1,\n  \"drained\": 1"), "%s", status_text());
	cr_expect(status_has("\"sdks\": []"), "none has had a span: %s", status_text());

	host_sample(1, "GET /");
	program_flush(&host);
	cr_assert(becomes(&host.region->flush_done, 2));
	cr_expect_eq(profiles(), 2);
	(void)snprintf(pid, sizeof(pid), "\"pid\": %d,", (int)host.pid);
	cr_expect(status_has(pid), "it works for the host");
	host_kill();
	cr_expect_eq(program_status(), 0);
	cr_expect_eq(host.region->exporter, SP_EXPORTER_GONE);
}

Test(program, delivers_what_a_killed_host_has_left)
{
	start(NULL);
	/* one of its threads was killed in its handler, and one while it put a name */
	atomic_fetch_add(&host.ring.ends->head, 128);
	atomic_fetch_add(&host.channel.names.ends->head, 128);
	for (unsigned i = 0; i < 100; i++)
		host_sample(i, "POST /");
	host_kill();

	cr_expect_eq(program_status(), 0);
	cr_expect_eq(profiles(), 1);
	cr_expect(status_has("\"drained\": 100"), "%s", status_text());
	cr_expect(status_has("\"ring_records_unfinished\": 2"), "%s", status_text());
	cr_expect(status_has("\"state\": \"ending\""), "%s", status_text());
}

static void exec_another(void)
{
	while (atomic_load(&host.region->state) != SP_REGION_LEAVING)
		(void)poll(NULL, 0, 1);
	(void)execlp("sleep", "sleep", "60", (char *)NULL);
	_exit(1);
}

Test(program, ends_when_the_host_is_another_program)
{
	start(exec_another);
	host_sample(1, "GET /");
	atomic_store(&host.region->state, SP_REGION_LEAVING);
	atomic_fetch_add(&host.region->wake, 1);
	sp_view_wake(&host.region->wake);

	cr_expect_eq(program_status(), 0);
	cr_expect_eq(profiles(), 1);
	host_kill();
}

Test(program, survives_what_ends_the_host)
{
	start(NULL);
	host_sample(1, "GET /");
	cr_assert_eq(kill(program.pid, SIGTERM), 0);
	program_flush(&host);
	cr_assert(becomes(&host.region->flush_done, 1));
	host_kill();
	cr_expect_eq(program_status(), 0);
}

/* The process has executed another program before the exporter looked. */
Test(program, delivers_what_a_host_has_left_in_whom_the_region_is_no_more)
{
	host_start(NULL);
	host.region->mapped_at -= 1 << 24;
	host_sample(1, "GET /");
	program_start(-1);

	cr_expect_eq(program_status(), 0);
	cr_expect_eq(profiles(), 1);
	host_kill();
}

Test(program, tells_the_host_that_it_cannot_begin)
{
	program.config.output_dir = NULL;
	program.config.server_address = "ftp://example.org";
	host_start(NULL);
	program_start(-1);

	cr_expect_eq(program_status(), 1);
	cr_expect_eq(host.region->exporter, SP_EXPORTER_FAILED);
	cr_expect_eq(host.region->exporter_error, EINVAL);
	host_kill();
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return *state >> 33;
}

/* Writes random words over the region, except those that the test itself waits for. */
static void scribble(uint64_t seed, uint64_t until_ns)
{
	uint64_t state = seed;
	uint8_t *bytes = (uint8_t *)host.region;
	const struct sp_sample s = {.weight = 1, .depth = 3, .flags = SP_SAMPLE_ROOTED};

	while (sp_clock_mono_ns() < until_ns) {
		for (unsigned i = 0; i < 1000; i++) {
			uint64_t word = next_random(&state) << 33 ^ next_random(&state);
			uint64_t at = next_random(&state) % (REGION_BYTES / 8) * 8;

			/* the heads of the parts matter most */
			if (i % 4 != 0)
				at = host.region->part[i % 3].at + at % 16384;
			if (i % 16 == 15)
				at = at % sizeof(struct sp_region) & ~UINT64_C(7);
			if (next_random(&state) % 2 != 0)
				word &= SP_RING_HEADER(7, 0x1f8);
			if (at == offsetof(struct sp_region, exporter) / 8 * 8)
				continue;
			/* the exporter obeys the order to end, which a host may give */
			if (at == offsetof(struct sp_region, end_asked) / 8 * 8)
				continue;
			/*
			 * the exporter has copied these words by now and does not read them again,
			 * but the test does
			 */
			if (at < offsetof(struct sp_region, state))
				continue;
			memcpy(bytes + at, &word, sizeof(word));
		}
		/* the ring may be full; nobody can tell */
		(void)put_sample(&host.ring, &s);
	}
}

static void give_up_rights(void)
{
	while (atomic_load(&host.region->state) != SP_REGION_STOPPED)
		(void)poll(NULL, 0, 1);
	if (setgroups(0, NULL) != 0 || setresgid(4001, 4001, 4001) != 0 ||
	    setresuid(4002, 4002, 4002) != 0)
		_exit(1);
	atomic_store(&host.region->state, SP_REGION_SAMPLING);
}

/* Later the exporter opens files for the host as the host's present user. */
Test(program, is_of_the_user_that_the_host_has_become)
{
	struct stat st;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	cr_assert_eq(chmod(program.dir, 0777), 0);
	start(give_up_rights);
	(void)unlink(program.status_file);
	atomic_store(&host.region->state, SP_REGION_STOPPED);
	cr_assert(becomes(&host.region->state, SP_REGION_SAMPLING));
	host_sample(1, "GET /");
	program_flush(&host);
	cr_assert(becomes(&host.region->flush_done, 1));

	cr_assert_eq(stat(program.status_file, &st), 0);
	cr_expect_eq(st.st_uid, 4002);
	cr_expect_eq(st.st_gid, 4001);
	cr_expect_eq(profiles(), 1);
	host_kill();
	cr_expect_eq(program_status(), 0);
}

static void be_quiet(void)
{
	(void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
}

/* "make soak" runs it for longer, and with other words each time. */
static uint64_t scribble_seconds(void)
{
	const char *text = getenv("SCRIBBLE_SECONDS");

	return text != NULL ? strtoull(text, NULL, 10) : 1;
}

/*
 * A host that overwrites all of the region while the exporter reads it, and is killed in the end.
 */
static int stderr_of_host[2];

static void take_stderr(void)
{
	(void)dup2(stderr_of_host[1], STDERR_FILENO);
	atomic_store(&host.region->threads_known, 1);
}

static void flush_once_more(void)
{
	uint32_t next = atomic_load(&host.region->flush_done) + 1;

	program_flush(&host);
	cr_assert(becomes(&host.region->flush_done, next));
}

/* The host has to write the messages, so the test can count them. */
Test(program, tells_once_that_counters_were_written_over)
{
	struct sp_region *r = host.region;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, stderr_of_host), 0);
	r->exporter_counter[SP_COUNT_UPLOADS] = UINT64_MAX / 3;
	host_start(take_stderr);
	cr_assert(becomes(&r->threads_known, 1));
	r->counter[SP_COUNT_DROP_RING_FULL] = 12;
	program_start(-1);
	cr_assert(becomes(&r->exporter, SP_EXPORTER_WORKING));
	for (uint64_t turn = 1; turn < 5; turn++) {
		host_sample(1, "GET /");
		flush_once_more();
		for (unsigned c = 0; c < SP_COUNTER_N; c++) {
			if (c != SP_COUNT_SAMPLES_PUT)
				r->counter[c] = UINT64_MAX / turn - 135;
			r->exporter_counter[c] = UINT64_MAX / turn - 71;
		}
		memset(r->spans, 0x40 + (int)turn, sizeof(r->spans));
	}
	flush_once_more();

	cr_expect_not_null(strstr(r->message[0].text, "were overwritten"), "%s",
			   r->message[0].text);
	cr_expect_not_null(
		strstr(r->message[1].text, "12 samples found no room in the ring buffer"), "%s",
		r->message[1].text);
	cr_expect_eq(r->message[2].bytes, 0, "%s", r->message[2].text);
	cr_expect(status_has("\"put\": 4,\n  \"drained\": 4"), "%s", status_text());
	cr_expect(status_has("\"dropped_ring_full\": 12"), "%s", status_text());
	cr_expect(status_has("\"started\": 0"), "%s", status_text());
	host_kill();
	cr_expect_eq(program_status(), 0);
}

Test(program, survives_a_host_that_writes_over_everything, .timeout = 3600)
{
	uint64_t rounds = 4 * scribble_seconds();
	uint64_t seed = rounds > 4 ? sp_clock_mono_ns() : 0;

	program.config.upload_interval_ms = 200;
	program.config.flush_timeout_ms = 2000;
	program.config.thread_name = true;
	start(be_quiet);
	for (uint64_t i = 0; i < rounds; i++) {
		scribble(seed + i, sp_clock_mono_ns() + 250 * SP_NS_PER_MS);
		cr_assert_eq(waitpid(program.pid, NULL, WNOHANG), 0, "it ended, seed %" PRIu64,
			     seed + i);
	}
	host_kill();
	cr_expect_eq(program_status(), 0);
	cr_expect(status_has("\"state\""), "%s", status_text());
	cr_expect_not(status_has("\"ring_records_damaged\": 0,"), "%s", status_text());
}

/*
 * These descriptor numbers were not handed over; the first files that the exporter opens get them.
 */
static void start_without_a_socket(bool folder_and_maps)
{
	program.pid = fork();
	if (program.pid == 0) {
		struct sp_host_descriptors fds = {.region = dup(host.fd)};
		char path[32];
		int listener;

		(void)snprintf(path, sizeof(path), "/proc/%d", (int)host.pid);
		fds.folder = open(path, O_PATH | O_DIRECTORY);
		(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)host.pid);
		fds.maps = open(path, O_RDONLY);
		listener = dup(host.fd);
		(void)close(listener);
		if (!folder_and_maps) {
			(void)close(fds.folder);
			(void)close(fds.maps);
		}
		_exit(sp_family_serve(&fds, listener, program_configure) == 0 ? 0 : 1);
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec t = {0};
	clockid_t clock;

	cr_assert_eq(clock_getcpuclockid(program.pid, &clock), 0);
	cr_assert_eq(clock_gettime(clock, &t), 0);
	return (uint64_t)t.tv_sec * SP_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void expect_to_hear_and_sleep(void)
{
	uint64_t begun;
	uint64_t cpu;

	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	begun = sp_clock_mono_ns();
	for (uint32_t i = 1; i <= 3; i++) {
		program_flush(&host);
		cr_assert(becomes(&host.region->flush_done, i));
	}
	cr_expect_lt(sp_clock_mono_ns() - begun, 1500 * SP_NS_PER_MS);
	cpu = cpu_ns();
	(void)poll(NULL, 0, 300);
	cr_expect_lt(cpu_ns() - cpu, 100 * SP_NS_PER_MS);
	host_kill();
	cr_expect_eq(program_status(), 0);
}

/*
 * The exporter must not take such files for the host's: it would close its own event descriptor,
 * and poll() would not wait.
 */
Test(program, hears_of_flushes_and_sleeps_when_it_was_given_the_region_alone)
{
	host_start(NULL);
	start_without_a_socket(false);
	expect_to_hear_and_sleep();
}

Test(program, hears_of_flushes_and_sleeps_when_it_has_no_family)
{
	host_start(NULL);
	start_without_a_socket(true);
	expect_to_hear_and_sleep();
}
