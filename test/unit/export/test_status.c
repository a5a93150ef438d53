/* SPDX-License-Identifier: Apache-2.0 */
/* The status, its sentences and where it is written. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core_double.h"
#include "export/loop/status.h"
#include "export/util/losses.h"
#include "test/unit/scratch.h"

static char path[128];
static struct sp_push_results news;
static struct sp_missing missing;
static struct sp_status_input input;
static struct sp_status *status;

static void set_up(void)
{
	core_reset();
	scratch_make();
	(void)snprintf(path, sizeof(path), "%s/status", scratch);
	core.config.status_file = path;
	input = (struct sp_status_input){
		.state = "active",
		.server = {{.address = "http://p", .results = &news}},
		.servers = 1,
		.with_span = 30,
		.without_span = 12,
		.missing = &missing,
		.profiled_ns = UINT64_MAX,
	};
}

static void tear_down(void)
{
	sp_status_free(status);
	scratch_remove();
}

TestSuite(status, .init = set_up, .fini = tear_down);

static unsigned files(void)
{
	DIR *d = opendir(scratch);
	unsigned n = 0;

	for (const struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static json_t *write_and_read(void)
{
	json_t *root;

	status = sp_status_new(&core.ops);
	cr_assert_not_null(status);
	cr_assert_eq(sp_status_write(status, &input), 0);
	cr_expect_eq(files(), 1, "something was left behind");
	root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	cr_assert_not_null(root);
	return root;
}

static json_int_t number(const json_t *root, const char *object, const char *key)
{
	const json_t *value = json_object_get(json_object_get(root, object), key);

	cr_expect(json_is_integer(value), "%s.%s", object, key);
	return json_integer_value(value);
}

static const char *string(const json_t *root, const char *key)
{
	const char *value = json_string_value(json_object_get(root, key));

	cr_assert_not_null(value, "%s", key);
	return value;
}

Test(status, has_the_promised_keys, .timeout = 20)
{
	json_t *root, *sdk, *unknowns;

	core.counter[SP_COUNT_SAMPLES_PUT] = 44;
	core.counter[SP_COUNT_SAMPLES_DRAINED] = 43;
	core.counter[SP_COUNT_SPANS_STARTED] = 9;
	core.counter[SP_COUNT_SPANS_ENDED] = 7;
	core.counter[SP_COUNT_SPANS_AGED] = 1;
	core.counter[SP_COUNT_DROP_RING_FULL] = 5;
	core.facts.signal_number = SIGURG;
	core.facts.threads_armed = 3;
	core.facts.threads_unarmed = 12;
	core.facts.threads_limit = 5;
	core.facts.threads_refused = 1;
	core.facts.spans_open = 4;
	core.facts.thread_context = "published";
	core.facts.sdks = 1;
	core.facts.sdk[0].name = "an-sdk";
	core.facts.sdk[0].method = "a way";
	strcpy(core.facts.sdk[0].object, "/an/object\x1b");
	strcpy(core.facts.sdk[0].release, "1.28.0");
	core.facts.sdk[0].instances = 2;
	core.facts.sdk[0].spans_started = 9;
	core.facts.sdk[0].unknowns = 1;
	core.facts.sdk[0].unknown[0].fact = "a thing";
	core.facts.sdk[0].unknown[0].instead = "another way";
	news = (struct sp_push_results){.attempts = 6,
					.last_status = 429,
					.last_success_ms = 1234567890123,
					.has_skew = true,
					.skew_ms = -250,
					.last_error = "status 429: no"};

	root = write_and_read();

	cr_expect_str_eq(string(root, "version"), "0.1.0");
	cr_expect_str_eq(string(root, "service"), "shop");
	cr_expect_str_eq(string(root, "state"), "active");
	cr_expect_eq(json_integer_value(json_object_get(root, "pid")), 4711);
	cr_expect_eq(json_array_size(json_object_get(root, "sdks")), 1);
	sdk = json_array_get(json_object_get(root, "sdks"), 0);
	cr_expect_str_eq(string(sdk, "name"), "an-sdk");
	cr_expect_str_eq(string(sdk, "method"), "a way");
	cr_expect_str_eq(string(sdk, "object"), "/an/object ");
	cr_expect_str_eq(string(sdk, "release"), "1.28.0");
	cr_expect_eq(json_integer_value(json_object_get(sdk, "instances")), 2);
	cr_expect_eq(json_integer_value(json_object_get(sdk, "spans_started")), 9);
	unknowns = json_object_get(sdk, "not_understood");
	cr_expect_eq(json_array_size(unknowns), 1);
	cr_expect_str_eq(string(json_array_get(unknowns, 0), "fact"), "a thing");
	cr_expect_str_eq(string(json_array_get(unknowns, 0), "instead"), "another way");
	cr_expect_str_eq(string(root, "signal"), "SIGURG");
	cr_expect_eq(number(root, "threads", "armed"), 3);
	cr_expect_eq(number(root, "threads", "unarmed"), 12);
	cr_expect_eq(number(root, "threads", "over_limit"), 5);
	cr_expect_eq(number(root, "threads", "refused"), 1);
	cr_expect_eq(number(root, "samples", "put"), 44);
	cr_expect_eq(number(root, "samples", "drained"), 43);
	cr_expect_eq(number(root, "samples", "with_span"), 30);
	cr_expect_eq(number(root, "samples", "without_span"), 12);
	cr_expect_eq(number(root, "spans", "started"), 9);
	cr_expect_eq(number(root, "spans", "ended"), 7);
	cr_expect_eq(number(root, "spans", "open"), 4);
	cr_expect_eq(number(root, "spans", "aged"), 1);
	cr_expect_str_eq(string(root, "thread_context"), "published");
	cr_expect_eq(number(root, "loss", "dropped_ring_full"), 5);
	cr_expect_eq(number(root, "loss", "files_failed"), 0);
	cr_expect_str_eq(string(json_object_get(root, "push"), "address"), "http://p");
	cr_expect_str_eq(string(json_object_get(root, "push"), "last_error"), "status 429: no");
	cr_expect_eq(number(root, "push", "last_status"), 429);
	cr_expect_eq(number(root, "push", "last_success_unix_ms"), 1234567890123);
	cr_expect_eq(number(root, "push", "attempts"), 6);
	cr_expect_eq(number(root, "push", "server_time_skew_ms"), -250);
	json_decref(root);
}

Test(status, what_is_not_known_is_null, .timeout = 20)
{
	json_t *root = write_and_read();
	const json_t *push = json_object_get(root, "push");

	cr_expect(json_is_null(json_object_get(push, "last_success_unix_ms")));
	cr_expect(json_is_null(json_object_get(push, "server_time_skew_ms")));
	json_decref(root);
	input.servers = 0;
	cr_assert_eq(sp_status_write(status, &input), 0);
	root = json_load_file(path, 0, NULL);
	cr_expect(json_is_null(json_object_get(root, "push")));
	json_decref(root);
}

Test(status, says_that_sampling_has_stopped, .timeout = 20)
{
	json_t *root;

	core.facts.sampling = false;
	root = write_and_read();

	cr_expect_str_eq(string(root, "state"), "stopped");
	json_decref(root);
}

Test(status, foreign_text_cannot_break_it, .timeout = 20)
{
	json_t *root;

	core.config.service_name = "a\"\\\xff\xc3";
	strcpy(news.last_error, "\"}\n\x1b[31m\xe2\x82");
	root = write_and_read();

	cr_expect_eq(strncmp(string(root, "service"), "a\"\\", 3), 0);
	cr_expect_null(strpbrk(string(json_object_get(root, "push"), "last_error"), "\n\x1b"));
	json_decref(root);
}

Test(status, puts_the_process_id_into_the_name, .timeout = 20)
{
	char wanted[160];

	strcat(path, "%p.%p%");
	(void)snprintf(wanted, sizeof(wanted), "%s/status4711.4711%%", scratch);
	status = sp_status_new(&core.ops);
	cr_assert_eq(sp_status_write(status, &input), 0);

	cr_expect_eq(access(wanted, R_OK), 0, "%s", wanted);
}

Test(status, a_path_that_is_too_long_is_told, .timeout = 20)
{
	static char longer[5000];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	core.config.status_file = longer;

	status = sp_status_new(&core.ops);
	cr_expect(core_logged("SPANPROF_STATUS_FILE: the path is too long; ignored"));
	cr_expect_eq(sp_status_write(status, &input), 0);
	cr_expect_eq(sp_status_write(NULL, &input), 0);
}

/* The memory file of process 4711 that this process has open, or -1. */
static int memory_file(void)
{
	DIR *d = opendir("/proc/self/fd");
	int fd = -1;

	for (const struct dirent *e; (e = readdir(d)) != NULL;) {
		char link[128] = "";

		if (readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1) > 0 &&
		    strcmp(link, "/memfd:spanprof-status-4711 (deleted)") == 0)
			fd = atoi(e->d_name);
	}
	closedir(d);
	return fd;
}

static json_t *read_memory(void)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", memory_file());
	return json_load_file(name, JSON_REJECT_DUPLICATES, NULL);
}

Test(status, is_in_memory_without_a_file, .timeout = 20)
{
	json_t *root;
	int fd;

	core.config.status_file = NULL;
	status = sp_status_new(&core.ops);
	cr_assert_eq(sp_status_write(status, &input), 0);
	fd = memory_file();
	cr_assert_geq(fd, 0);
	cr_expect_lt(pwrite(fd, "x", 1, 0), 0, "others can write to it");
	input.with_span = 31;
	core.counter[SP_COUNT_SPANS_STARTED] = 9;
	cr_assert_eq(sp_status_write(status, &input), 0);

	cr_expect_eq(memory_file(), fd);
	root = read_memory();
	cr_expect_eq(number(root, "samples", "with_span"), 31);
	json_decref(root);
	sp_status_hide(status);
	cr_expect_eq(sp_status_write(status, &input), 0);
	cr_expect_lt(memory_file(), 0);
}

/* A file that is not written again counts as recent all the same. */
Test(status, what_has_not_changed_is_not_made_again, .timeout = 20)
{
	const struct timespec long_ago[2] = {{1, 0}, {1, 0}};
	struct stat before, after;

	core.config.status_file = NULL;
	status = sp_status_new(&core.ops);
	cr_assert_eq(sp_status_write(status, &input), 0);
	cr_assert_eq(futimens(memory_file(), long_ago), 0);
	cr_assert_eq(fstat(memory_file(), &before), 0);
	cr_assert_eq(sp_status_write(status, &input), 0);
	cr_assert_eq(fstat(memory_file(), &after), 0);
	cr_expect_eq(before.st_ino, after.st_ino);
	cr_expect_gt(after.st_mtime, 1);
	core.facts.threads_armed++;
	cr_assert_eq(sp_status_write(status, &input), 0);
	cr_assert_eq(fstat(memory_file(), &after), 0);
	cr_expect_neq(before.st_ino, after.st_ino);
	before = after;
	input.file_error = -ENOSPC;
	cr_assert_eq(sp_status_write(status, &input), 0);
	cr_assert_eq(fstat(memory_file(), &after), 0);
	cr_expect_neq(before.st_ino, after.st_ino);
}

static bool is_made_again(void)
{
	struct stat before, after;

	cr_assert_eq(fstat(memory_file(), &before), 0);
	cr_assert_eq(sp_status_write(status, &input), 0);
	cr_assert_eq(fstat(memory_file(), &after), 0);
	return before.st_ino != after.st_ino;
}

/* Hundreds of processes may be idle beside one that pushes. */
Test(status, of_an_idle_process_is_not_made_again_after_each_push_of_another, .timeout = 20)
{
	core.config.status_file = NULL;
	news = (struct sp_push_results){
		.attempts = 1, .last_status = 200, .last_success_ms = 60000};
	status = sp_status_new(&core.ops);
	cr_assert_eq(sp_status_write(status, &input), 0);
	news.attempts++;
	news.last_success_ms += 15000;
	news.has_skew = true;
	news.skew_ms = -3;
	cr_expect_not(is_made_again());
	news.skew_ms = 4;
	cr_expect_not(is_made_again());
	news.last_success_ms += 45000;
	cr_expect(is_made_again(), "it says how long ago that was");
	news.skew_ms = 700000;
	cr_expect(is_made_again());
	news.last_status = 503;
	strcpy(news.last_error, "status 503: no");
	cr_expect(is_made_again());
	news.attempts++;
	cr_expect(is_made_again(), "it says how many failed");
	strcpy(news.last_error, "status 503: on");
	cr_expect(is_made_again());
}

/* The faults, one sentence a line: "text|remedy"; "" = none. */
static const char *said(void)
{
	static char all[8192];
	json_t *root = write_and_read();
	json_t *list = json_object_get(root, "problems");
	const json_t *item;
	size_t i;

	all[0] = '\0';
	json_array_foreach(list, i, item)
	{
		const char *remedy = json_string_value(json_object_get(item, "remedy"));
		size_t len = strlen(all);

		(void)snprintf(all + len, sizeof(all) - len, "%s|%s\n", string(item, "text"),
			       remedy != NULL ? remedy : "");
	}
	json_decref(root);
	sp_status_free(status);
	status = NULL;
	return all;
}

#define EXPECT_SAID(first, words)                                                                  \
	do {                                                                                       \
		const char *all_ = said();                                                         \
		cr_expect(strncmp(all_, first, strlen(first)) == 0 && strstr(all_, words) != NULL, \
			  "%s", all_);                                                             \
	} while (0)

Test(status, nothing_is_wrong_with_what_is_well, .timeout = 20)
{
	news = (struct sp_push_results){.attempts = 3, .last_status = 200, .has_skew = true};
	core.facts.sdks = 1;
	core.facts.sdk[0].name = "an-sdk";
	core.facts.sdk[0].method = "a way";
	core.facts.sdk[0].unknowns = 1;
	core.facts.sdk[0].unknown[0].fact = "a thing";
	core.facts.sdk[0].unknown[0].instead = "another way to the same";
	core.facts.sdk[0].unknown[0].is_harmless = true;
	cr_expect_str_eq(said(), "");
	/* By chance, as at the start of a program. */
	input.with_span = 0;
	input.without_span = 19;
	cr_expect_str_eq(said(), "");
}

Test(status, each_condition_has_its_sentence_and_remedy, .timeout = 20)
{
	static struct sp_off_cpu_results waits = {.refusal = "Yama forbids it"};

	input.with_span = 0;
	input.without_span = 20;
	EXPECT_SAID("20 samples were taken, and no span was recorded|look with", "");
	core.counter[SP_COUNT_SPANS_STARTED] = 1;
	EXPECT_SAID("20 samples were taken, none of them in a span|attach the spans", "");
	core.config.span_id_scope = SP_SCOPE_NONE;
	EXPECT_SAID("20 samples were taken, none of them in a span|attach the spans", "");
	/* A sample in a span has neither id nor name. */
	core.config.span_name_scope = SP_SCOPE_NONE;
	cr_expect_str_eq(said(), "");
	core.config.span_name_scope = SP_SCOPE_ROOT;
	core.facts.thread_context = "read";
	cr_expect_str_eq(said(), "");
	core.config.span_id_scope = SP_SCOPE_ROOT;
	EXPECT_SAID("20 samples were taken, none of them in a span|attach the spans", "");
	core.facts.thread_context = NULL;
	input.with_span = 1;

	core.facts.sampling = false;
	EXPECT_SAID("profiling has stopped in this process|look for", "");
	core.counter[SP_COUNT_SECCOMP_STOPPED] = 1;
	EXPECT_SAID("profiling has stopped for good: the program installed a seccomp filter|\n",
		    "");
	core.facts.sampling = true;
	core.counter[SP_COUNT_SECCOMP_STOPPED] = 0;

	core.facts.sdks = 1;
	core.facts.sdk[0].name = "an-sdk";
	core.facts.sdk[0].method = "a way";
	core.facts.sdk[0].unknowns = 1;
	core.facts.sdk[0].unknown[0].fact = "a thing";
	core.facts.sdk[0].unknown[0].instead = "no labels";
	EXPECT_SAID("an-sdk: a thing not understood, no labels|use a newer spanprof", "");
	core.facts.sdk[0].unknown[0].is_limit = true;
	EXPECT_SAID("an-sdk: a thing, no labels|let its plugins share one", "");
	core.facts.sdks = 0;

	core.facts.allocations = SP_ALLOCATIONS_ABSENT;
	cr_expect_str_eq(said(), "", "nobody asked for it");
	core.config.alloc = true;
	EXPECT_SAID("SPANPROF_ALLOC is set, and libspanprof-alloc.so is not loaded: no profile of "
		    "allocations|set LD_PRELOAD to",
		    "");
	core.facts.allocations = SP_ALLOCATIONS_SANITIZED;
	EXPECT_SAID("the program has a sanitizer, whose allocator is not replaced: no profile of "
		    "allocations|\n",
		    "");
	core.facts.allocations = SP_ALLOCATIONS_HIDDEN;
	EXPECT_SAID("the program has an allocator of its own in front of libspanprof-alloc.so: no "
		    "profile of allocations|if that is preloaded",
		    "");
	core.facts.allocations = SP_ALLOCATIONS_LOADED;
	cr_expect_str_eq(said(), "");
	core.facts.allocations = SP_ALLOCATIONS_UNTOLD;
	cr_expect_str_eq(said(), "");
	core.config.alloc = false;

	core.facts.threads_unseen = 2;
	core.facts.signal_number = SP_ROUSING_SIGNAL;
	EXPECT_SAID("2 threads are not sampled: their calls do not pass the "
		    "profiler's hooks, as in a library that was opened with RTLD_DEEPBIND|have the",
		    "");
	core.facts.threads_unseen = 1;
	core.facts.signal_number = SIGPROF;
	EXPECT_SAID("1 thread is not sampled: its calls do not pass the profiler's hooks, as "
		    "in a library that was opened with RTLD_DEEPBIND|remove SPANPROF_SIGNAL",
		    "");
	core.facts.threads_unseen = 0;

	news = (struct sp_push_results){.attempts = 1};
	strcpy(news.last_error, "status 401: no; check X");
	news.remedy_at = strlen("status 401: no");
	EXPECT_SAID("the last push to http://p failed: status 401: no|check X\n", "");
	news = (struct sp_push_results){.attempts = 1, .has_skew = true, .skew_ms = -700000};
	EXPECT_SAID("the server's clock is 700 s behind this one|set the clocks\n", "");
	news.has_skew = false;

	core.config.output_dir = "/dev/null";
	EXPECT_SAID(
		"profiles cannot be written into /dev/null by the program's user: Not a directory|",
		"");
	core.config.output_dir = "/nowhere/at/all";
	cr_expect_str_eq(said(), "", "it may still be made");
	input.file_error = -ENOENT;
	EXPECT_SAID("profiles cannot be written into /nowhere/at/all by the program's user: No "
		    "such file or directory|give",
		    "");
	/* The user may write there, so no right was missing. */
	core.config.output_dir = "/";
	input.file_error = -ENOSPC;
	EXPECT_SAID("the last profile could not be written into /: No space left on device|make "
		    "room there\n",
		    "");
	input.file_error = -EIO;
	EXPECT_SAID("the last profile could not be written into /: Input/output error|\n", "");
	/* Once, a month ago. */
	core.counter[SP_COUNT_FILE_FAILED] = 1;
	input.file_error = 0;
	cr_expect_str_eq(said(), "");
	core.config.output_dir = NULL;

	core.counter[SP_COUNT_NAMES_OTHER] = 3;
	EXPECT_SAID("3 spans are called (other)|raise SPANPROF_MAX_SPAN_NAMES\n", "");
	core.counter[SP_COUNT_NAMES_OTHER] = 0;
	input.waits = &waits;
	EXPECT_SAID("waits have no stacks: Yama forbids it|make the process dumpable", "");
}

static json_int_t cpu_time_of(const char *key)
{
	json_t *root = write_and_read();
	json_int_t ns = number(root, "cpu_time", key);

	json_decref(root);
	sp_status_free(status);
	status = NULL;
	return ns;
}

/* The sentences agree with the kernel's counts; names of programs may have any bytes. */
Test(status, tells_cpu_time_that_is_in_no_profile, .timeout = 20)
{
	struct sp_core_program *p = core.cpu.program;
	struct timespec tick;
	char words[128];

	core.config.sample_rate_hz = 100;
	core.config.profile = SP_PROFILE_ALWAYS;
	core.cpu =
		(struct sp_core_cpu){.own_ns = 1000000000, .waited_ns = 500000000, .programs = 1};
	p[0] = (struct sp_core_program){"a\n\"b\x1b", SP_UNPROFILED_ENVIRONMENT, 12, 4100000000};
	EXPECT_SAID(
		"12 processes of \"a \"b \" run without the profiler (LD_PRELOAD is not in their "
		"environment): 4.10 s of CPU time|let the program",
		"");
	p[0] = (struct sp_core_program){"b", SP_UNPROFILED_SECURE, 1, 4100000000};
	EXPECT_SAID("1 process of \"b\" runs without the profiler (its loader ignores LD_PRELOAD, "
		    "because it has other rights): 4.10 s of CPU time|\n",
		    "");
	p[0].why = SP_UNPROFILED_STATIC;
	EXPECT_SAID("1 process of \"b\" runs without the profiler (it is static): 4.10 s", "");
	p[0].why = SP_UNPROFILED_OTHER;
	EXPECT_SAID("1 process of \"b\" runs without the profiler (its loader has not loaded it): ",
		    "");
	p[0].why = SP_UNPROFILED_UNSEEN;
	EXPECT_SAID("1 process of \"b\" may run without the profiler (the exporter may not look "
		    "into it): ",
		    "");
	/* Three per cent of the time of the process and those below it. */
	p[0].ns = 46391800;
	EXPECT_SAID("1 process of \"b\"", "0.05 s of CPU time");
	p[0].ns = 46391700;
	cr_expect_str_eq(said(), "");
	core.cpu.programs = 0;
	core.cpu.unknown_ns = 45000000;
	EXPECT_SAID("processes that it has started used 0.04 s of CPU time and ended before", "");
	core.cpu.unknown_ns = 44999000;
	cr_expect_str_eq(said(), "");
	core.cpu.before_ns = 30000000;
	EXPECT_SAID("0.030 s of its CPU time were used before profiling began", "");
	/* The setting says that it begins later. */
	core.config.profile = SP_PROFILE_ON_SPAN;
	cr_expect_str_eq(said(), "");
	core.config.profile = SP_PROFILE_ALWAYS;
	core.cpu.before_ns = 29999000;
	cr_expect_str_eq(said(), "");
	/* A process that goes on has samples that were not taken yet. */
	input.profiled_ns = 940000000;
	cr_expect_str_eq(said(), "");
	input.state = "ending";
	EXPECT_SAID("0.030 s of its CPU time were used before profiling began",
		    "\n0.030 s of its CPU time are in no profile|");
	input.profiled_ns = 940002000;
	EXPECT_SAID("0.030 s of its CPU time were used before profiling began", "in no profile");
	/* Each part is small, and both together are large. */
	core.cpu.before_ns = 16000000;
	input.profiled_ns = 970000000;
	EXPECT_SAID("0.016 s of its CPU time were used before profiling began",
		    "\n0.014 s of its CPU time are in no profile|");
	input.profiled_ns = 970001000;
	cr_expect_str_eq(said(), "");
	/* Its clock was last read before it used the rest. */
	core.cpu.own_ns = 500000000;
	core.cpu.is_cut_off = true;
	cr_expect_eq(cpu_time_of("process_ns"), 986001000);
	core.cpu.is_cut_off = false;
	cr_expect_eq(cpu_time_of("process_ns"), 500000000);
	core.cpu.own_ns = 1000000000;
	core.cpu.before_ns = 29999000;
	input.profiled_ns = UINT64_MAX;
	cr_expect_str_eq(said(), "", "another exporter had the rest");
	core.cpu.is_cut_off = true;
	core.facts.threads_armed = 3;
	EXPECT_SAID("it ended by a system call of its own, or by a signal: what each of its 3 "
		    "threads used since "
		    "its last sample, up to 10 ms, is in no profile|",
		    "");
	core.facts.threads_armed = 2;
	cr_expect_str_eq(said(), "");
	/* At a rate above that of the kernel's ticks. */
	core.config.sample_rate_hz = 10000;
	core.facts.threads_armed = 300;
	(void)clock_getres(CLOCK_REALTIME_COARSE, &tick);
	(void)snprintf(words, sizeof(words),
		       " 300 threads used since its last sample, up to %ld ms,",
		       tick.tv_nsec / 1000000);
	EXPECT_SAID("it ended by a system call of its own, or by a signal", words);
	core.config.sample_rate_hz = 100;
	/* A process that used a millisecond. */
	core.cpu = (struct sp_core_cpu){.own_ns = 1000000, .before_ns = 999999};
	cr_expect_str_eq(said(), "");
}

Test(status, a_program_without_the_profiler_is_told_in_the_log, .timeout = 20)
{
	core.cpu = (struct sp_core_cpu){.own_ns = 1000000000, .programs = 2};
	core.cpu.program[0] = (struct sp_core_program){"a", SP_UNPROFILED_UNSEEN, 1, 2000000000};
	core.cpu.program[1] = (struct sp_core_program){"b", SP_UNPROFILED_STATIC, 2, 999999999};
	cr_expect_not(sp_children_log(&core.ops));
	core.cpu.program[1].ns++;
	cr_expect(sp_children_log(&core.ops));
	cr_expect_not_null(strstr(core.log,
				  "2 processes of \"b\" run without the profiler (they are "
				  "static): 1.00 s of CPU time\n"),
			   "%s", core.log);
}

Test(status, tells_that_profiles_and_spans_have_other_services, .timeout = 20)
{
	core.config.service_name = "unknown_service:x";
	EXPECT_SAID("no service name is set, so the profiles have the service "
		    "\"unknown_service:x\"|set",
		    "");
	core.config.service_name = "shopp";
	core.config.resource_attributes = "a=b,service.name=shop%20front";
	EXPECT_SAID("the profiles have the service \"shopp\", the spans \"shop front\"|give both",
		    "");
	setenv("OTEL_SERVICE_NAME", "shopp", 1);
	cr_expect_str_eq(said(), "", "the variable comes first");
}

/* The SDK and the profiles take the name in the program's code. */
Test(status, tells_that_the_program_names_another_service_than_the_variable, .timeout = 20)
{
	core.facts.sdks = 2;
	for (unsigned i = 0; i < 2; i++) {
		core.facts.sdk[i].name = "an-sdk";
		core.facts.sdk[i].method = "a way";
	}
	strcpy(core.facts.sdk[1].service, "shop");
	core.config.service_name = "shop";
	core.config.resource_attributes = "service.name=shop";
	cr_expect_str_eq(said(), "");
	setenv("OTEL_SERVICE_NAME", "cart", 1);
	EXPECT_SAID("the environment names the service \"cart\", but the program gives its SDK the "
		    "name \"shop\", "
		    "which its spans and profiles have|look for that service",
		    "");
	setenv("OTEL_SERVICE_NAME", "shop", 1);
	cr_expect_str_eq(said(), "");
	core.config.service_name = "own";
	EXPECT_SAID("the profiles have the service \"own\", the spans \"shop\"|give both", "");
	core.config.service_name = "unknown_service:x";
	EXPECT_SAID("the profiles have the service \"unknown_service:x\", the spans \"shop\"|", "");
}

Test(status, each_of_many_problems_is_told, .timeout = 20)
{
	unsigned lines = 0;

	core.facts.sdks = 2;
	for (unsigned i = 0; i < 2; i++) {
		core.facts.sdk[i].name = "an-sdk";
		core.facts.sdk[i].method = "a way";
		core.facts.sdk[i].unknowns = 11;
		for (unsigned j = 0; j < 11; j++) {
			core.facts.sdk[i].unknown[j].fact = "a thing";
			core.facts.sdk[i].unknown[j].instead = "no labels";
		}
	}
	for (const char *at = said(); (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	cr_expect_eq(lines, 22);
}

Test(status, a_full_disk_leaves_the_old_file_and_is_told_once, .timeout = 20)
{
	const struct rlimit tiny = {16, 16};
	json_t *root = write_and_read();

	json_decref(root);
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &tiny), 0);
	cr_expect_lt(sp_status_write(status, &input), 0);
	cr_expect_lt(sp_status_write(status, &input), 0);

	root = json_load_file(path, 0, NULL);
	cr_expect_not_null(root, "the old file is damaged");
	json_decref(root);
	cr_expect_eq(files(), 1, "a part was left behind");
	cr_expect(core_logged("cannot write the status file"));
	cr_expect_null(strstr(strstr(core.log, "cannot write") + 1, "cannot write"));
}

Test(status, an_old_part_or_a_link_in_the_way_is_replaced_not_followed, .timeout = 20)
{
	char temp[160], victim[160];
	json_t *root;

	(void)snprintf(temp, sizeof(temp), "%s.4711.%d.tmp", path, getpid());
	(void)snprintf(victim, sizeof(victim), "%s/.victim", scratch);
	cr_assert_eq(symlink(victim, temp), 0);
	root = write_and_read();

	cr_expect_neq(access(victim, F_OK), 0, "written through a link");
	json_decref(root);
}

/* Objects whose debug files were found meanwhile are not listed; at most twenty others are. */
Test(status, lists_the_largest_objects_without_names)
{
	struct sp_missing_object object[24] = {0};
	const json_t *all, *list, *first;
	json_t *root;

	for (unsigned i = 0; i < 24; i++)
		object[i] = (struct sp_missing_object){
			.file = strdup("/lib/libx.so"),
			.lack = SP_LACK_DEBUG_FILE,
			.ns = 100 - i,
		};
	object[0].lack = SP_LACK_NOTHING;
	object[1].lack = SP_LACK_PACKED;
	object[1].build_id_len = 2;
	object[1].build_id[0] = 0x0a;
	object[1].build_id[1] = 0xb1;
	object[1].has_unnamed = true;
	object[1].unnamed_ns = 7;
	missing = (struct sp_missing){.object = object, .n = 24, .ns = 5000, .other_ns = 11};
	root = write_and_read();
	all = json_object_get(root, "missing_names");
	list = json_object_get(all, "objects");
	first = json_array_get(list, 0);

	cr_expect_eq(json_array_size(list), 20);
	cr_expect_eq(number(root, "missing_names", "cpu_ns"), 5000);
	cr_expect_eq(number(root, "missing_names", "others"), 3);
	cr_expect_eq(number(root, "missing_names", "others_cpu_ns"), 79 + 78 + 77 + 11);
	cr_expect_str_eq(string(first, "reason"), "zstd");
	cr_expect_str_eq(string(first, "build_id"), "0ab1");
	cr_expect_eq(json_integer_value(json_object_get(first, "cpu_ns")), 99);
	cr_expect_eq(json_integer_value(json_object_get(first, "unnamed_cpu_ns")), 7);
	cr_expect(json_is_true(json_object_get(first, "has_unnamed_functions")));
	cr_expect(json_is_null(json_object_get(json_array_get(list, 1), "build_id")));
	cr_expect_eq(json_integer_value(json_object_get(json_array_get(list, 19), "cpu_ns")), 80);
	json_decref(root);
	for (unsigned i = 0; i < 24; i++)
		free(object[i].file);
}

Test(status, tells_of_each_of_several_servers, .timeout = 20)
{
	static struct sp_push_results other = {
		.name = "http://q", .attempts = 4, .last_status = 200};
	const struct sp_delivery has[] = {{.samples_sent = 5, .samples_lost = 1},
					  {.waits_sent = 7, .waits_lost = 2}};
	const json_t *pushes, *q;
	json_t *root;

	news = (struct sp_push_results){.attempts = 3};
	strcpy(news.last_error, "status 401: no");
	news.remedy_at = strlen(news.last_error);
	input.server[0].delivery = &has[0];
	input.server[1] = (struct sp_status_server){"http://q", &other, &has[1]};
	input.servers = 2;
	root = write_and_read();
	cr_expect_str_eq(string(json_object_get(root, "push"), "address"), "http://p");
	pushes = json_object_get(root, "pushes");
	cr_assert_eq(json_array_size(pushes), 2);
	q = json_array_get(pushes, 0);
	cr_expect_str_eq(string(q, "last_error"), "status 401: no");
	cr_expect_eq(json_integer_value(json_object_get(q, "samples_sent")), 5);
	cr_expect_eq(json_integer_value(json_object_get(q, "samples_lost")), 1);
	q = json_array_get(pushes, 1);
	cr_expect_str_eq(string(q, "address"), "http://q");
	cr_expect_eq(json_integer_value(json_object_get(q, "attempts")), 4);
	cr_expect_eq(json_integer_value(json_object_get(q, "waits_sent")), 7);
	cr_expect_eq(json_integer_value(json_object_get(q, "waits_lost")), 2);
	json_decref(root);
}

Test(status, names_the_server_that_fails, .timeout = 20)
{
	static struct sp_push_results other = {.name = "http://q"};
	static const struct sp_delivery nothing;

	news = (struct sp_push_results){.attempts = 1, .last_status = 200};
	input.server[0].delivery = &nothing;
	input.server[1] = (struct sp_status_server){"http://q", &other, &nothing};
	input.servers = 2;
	strcpy(other.last_error, "status 503: away");
	other.remedy_at = strlen(other.last_error);
	cr_expect_str_eq(said(), "the last push to http://q failed: status 503: away|\n");
	other = (struct sp_push_results){.attempts = 1, .has_skew = true, .skew_ms = 700000};
	cr_expect_str_eq(said(),
			 "the clock of http://q is 700 s ahead of this one|set the clocks\n");
	strcpy(news.last_error, "status 500: no");
	news.remedy_at = strlen(news.last_error);
	cr_expect_str_eq(said(),
			 "the last push to http://p failed: status 500: no|\n"
			 "the clock of http://q is 700 s ahead of this one|set the clocks\n");
}

Test(status, is_made_again_for_any_server, .timeout = 20)
{
	static struct sp_push_results other = {.name = "http://q"};
	struct sp_delivery has[2] = {{.samples_sent = 5}};

	core.config.status_file = NULL;
	input.server[0].delivery = &has[0];
	input.server[1] = (struct sp_status_server){"http://q", &other, &has[1]};
	input.servers = 2;
	status = sp_status_new(&core.ops);
	cr_assert_eq(sp_status_write(status, &input), 0);
	cr_expect_not(is_made_again());
	other.last_status = 503;
	cr_expect(is_made_again());
	has[1].samples_lost++;
	cr_expect(is_made_again());
	cr_expect_not(is_made_again());
}
