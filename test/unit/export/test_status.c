/* SPDX-License-Identifier: Apache-2.0 */
/* The status, its sentences and its places. */
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
#include <unistd.h>

#include "core_double.h"
#include "export/loop/status.h"
#include "export/util/losses.h"
#include "test/unit/scratch.h"

static char path[128];
static struct sp_push_news news;
static struct sp_status_input input;
static struct sp_status *status;

static void set_up(void)
{
	core_reset();
	scratch_make();
	(void)snprintf(path, sizeof(path), "%s/status", scratch);
	core.config.status_file = path;
	input = (struct sp_status_input){"active", "http://p", &news, 30, 12, NULL, 0};
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
	news = (struct sp_push_news){.attempts = 6,
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
	input.news = NULL;
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

/* A file that is not made again is as new as one that is. */
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

/* Hundreds of them may be idle beside one that pushes. */
Test(status, of_an_idle_process_is_not_made_again_after_each_push_of_another, .timeout = 20)
{
	core.config.status_file = NULL;
	news = (struct sp_push_news){.attempts = 1, .last_status = 200, .last_success_ms = 60000};
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

/* What is wrong, one sentence a line: "text|remedy"; "" = nothing. */
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
	news = (struct sp_push_news){.attempts = 3, .last_status = 200, .has_skew = true};
	core.facts.sdks = 1;
	core.facts.sdk[0].name = "an-sdk";
	core.facts.sdk[0].method = "a way";
	core.facts.sdk[0].unknowns = 1;
	core.facts.sdk[0].unknown[0].fact = "a thing";
	core.facts.sdk[0].unknown[0].instead = "another way to the same";
	core.facts.sdk[0].unknown[0].is_harmless = true;
	cr_expect_str_eq(said(), "");
	/* By chance, as where a program begins. */
	input.with_span = 0;
	input.without_span = 19;
	cr_expect_str_eq(said(), "");
}

Test(status, each_condition_has_its_sentence_and_remedy, .timeout = 20)
{
	static struct sp_off_cpu_news waits = {.refusal = "Yama forbids it"};

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

	news = (struct sp_push_news){.attempts = 1};
	strcpy(news.last_error, "status 401: no; check X");
	news.remedy_at = strlen("status 401: no");
	EXPECT_SAID("the last push to http://p failed: status 401: no|check X\n", "");
	news = (struct sp_push_news){.attempts = 1, .has_skew = true, .skew_ms = -700000};
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
	/* The user may write there, and did not lack a right. */
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

	(void)snprintf(temp, sizeof(temp), "%s.4711.tmp", path);
	(void)snprintf(victim, sizeof(victim), "%s/.victim", scratch);
	cr_assert_eq(symlink(victim, temp), 0);
	root = write_and_read();

	cr_expect_neq(access(victim, F_OK), 0, "written through a link");
	json_decref(root);
}
