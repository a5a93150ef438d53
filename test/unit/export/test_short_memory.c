/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Report and exporter when memory is short. One of their allocations fails, or all from a certain one on, at each
 * place in the code. Nothing may crash. A report is complete or says what it lacks. A sample that was taken from the
 * ring is sent or counted as lost. Allocations of libraries do not fail here (test/inject does that, in a separate
 * process).
 *
 * SHORT_MEMORY=all tries each allocation; by default only some of those after the first hundred are tried. The linker
 * directs allocations to this file (Makefile).
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_double.h"
#include "export/profile/gzip.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

#define MANY 100U
#define STRIDE 37U

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
char *__wrap_strdup(const char *text);

static bool counts;
static _Atomic unsigned calls;
static unsigned first, last; /* numbers of the allocations that fail */

static bool fails(void)
{
	unsigned n;

	if (!counts)
		return false;
	n = atomic_fetch_add(&calls, 1) + 1;
	if (n < first || n > last)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return fails() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	return fails() ? NULL : __real_realloc(p, bytes);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

/* The result of a run in a child. */
static struct result {
	int status; /* exit status of the run */
	unsigned calls;
	uint64_t put, sent, lost;
	char text[1 << 18];
	size_t len;
} * result;

static char what[256]; /* name of the run, for messages */

static void begin(void)
{
	scratch_make();
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	cr_assert_neq((void *)result, MAP_FAILED);
}

TestSuite(short_memory, .init = begin, .fini = scratch_remove, .timeout = 600);

/* Runs in a child in which these allocations fail; 0 = none does. */
static void run(void (*runs)(void), unsigned from, unsigned to)
{
	pid_t pid;
	int status;

	memset(result, 0, offsetof(struct result, text));
	result->len = 0;
	first = from;
	last = to;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		counts = true;
		runs();
		counts = false;
		result->calls = atomic_load(&calls);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%s: allocations %u to %u fail, and it ends with %#x", what, from,
		     to, (unsigned)status);
}

/* Runs once without a failure, which counts the allocations, and then once for each. */
static void at_each_place(void (*runs)(void), void (*check)(void))
{
	const char *all = getenv("SHORT_MEMORY");
	unsigned n;

	run(runs, 0, 0);
	check();
	n = result->calls;
	cr_expect_gt(n, 10);
	for (unsigned at = 1; at <= n; at += at < MANY || all != NULL ? 1 : STRIDE) {
		for (unsigned ever = 0; ever < 2; ever++) {
			run(runs, at, ever != 0 ? UINT32_MAX : at);
			check();
		}
	}
}

/* The report. */

int sp_report_main(int argc, char **argv);

static char *arguments[8];
static char page[300];
static char *reference;
static size_t reference_len;

static void append(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n =
		fd >= 0 ? read(fd, result->text + result->len, sizeof(result->text) - result->len)
			: 0;

	result->len += n > 0 ? (size_t)n : 0;
	if (fd >= 0)
		close(fd);
}

static void report(void)
{
	char printed_to[300];
	int argc = 0;
	int fd;

	(void)snprintf(printed_to, sizeof(printed_to), "%s.out", scratch);
	(void)unlink(page);
	fd = open(printed_to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	(void)dup2(fd, 1);
	(void)dup2(fd, 2);
	while (arguments[argc] != NULL)
		argc++;
	optind = 0;
	result->status = sp_report_main(argc, arguments);
	fflush(NULL);
	append(printed_to);
	if (result->status == 0)
		append(page);
	(void)unlink(printed_to);
}

static void is_whole_or_says_so(void)
{
	if (reference == NULL) {
		cr_assert_eq(result->status, 0, "%s: %.200s", what, result->text);
		reference_len = result->len;
		reference = malloc(reference_len + 1);
		memcpy(reference, result->text, reference_len);
		return;
	}
	if (result->status == 0)
		cr_expect(result->len == reference_len &&
				  memcmp(reference, result->text, reference_len) == 0,
			  "%s: allocations %u to %u fail: %.2000s", what, first, last,
			  result->text);
	else
		cr_expect_not_null(memmem(result->text, result->len, "memory", 6),
				   "%s: allocations %u to %u fail: %.400s", what, first, last,
				   result->text);
}

static const char *const parse[] = {"parse@p.c:7", "handle@h.c:20", "main"};
static const char *const render[] = {"render", "handle@h.c:21", "main"};

static const char *route_of(const struct report_stack *stack)
{
	return stack->frame == parse ? "/parse" : "/render";
}

static void try_report(char *one, char *two)
{
	static const struct report_stack now[] = {
		STACK(parse, "00000000000000aa", "GET", 3),
		STACK(render, "00000000000000aa", "GET", 2),
		STACK(parse, "00000000000000bb", "GET", 1),
		STACK(render, "00000000000000cc", "POST", 4),
	};
	char program[] = "spanprof-report";
	struct sp_bytes plain, packed;

	report_route = route_of;
	plain = report_profile_at(now, 4, 1000000000);
	cr_assert_eq(sp_gzip_pack(&plain, &packed), 0);
	scratch_write("a.pb.gz", packed.data, packed.len);
	free(packed.data);
	free(plain.data);
	plain = report_profile_at(now, 3, 1000000060);
	scratch_write("b.pb", plain.data, plain.len);
	free(plain.data);
	(void)snprintf(page, sizeof(page), "%s.html", scratch);
	(void)snprintf(what, sizeof(what), "spanprof-report %s %s", one, two != NULL ? two : "");
	arguments[0] = program;
	arguments[1] = one;
	arguments[2] = two != NULL ? two : scratch;
	arguments[3] = two != NULL ? scratch : NULL;
	if (strcmp(one, "--flamegraph") == 0)
		arguments[2] = page;
	at_each_place(report, is_whole_or_says_so);
	free(reference);
	(void)unlink(page);
}

static char empty[] = "--lines";

Test(short_memory, a_report_is_whole_or_says_what_it_lacks)
{
	try_report(empty, NULL);
}

Test(short_memory, a_report_in_json_is_whole_or_says_what_it_lacks)
{
	char json_[] = "--json";
	char by[] = "--by=http_route";

	try_report(json_, by);
}

/* A slow root that has the samples of GET. */
static void write_slow_root(void)
{
	static const char root[] =
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		"\"value\":{\"stringValue\":\"shop\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":"
		"\"spanprof\"},\"spans\":[{\"traceId\":\"" TRACE "\",\"spanId\":"
		"\"00000000000000aa\",\"name\":\"GET\",\"startTimeUnixNano\":"
		"\"1000000001000000000\","
		"\"endTimeUnixNano\":\"1000000001060000000\",\"attributes\":[{\"key\":"
		"\"spanprof.cpu_time_ns\",\"value\":{\"intValue\":\"50000000\"}}]}]}]}]}\n";

	scratch_write("a.otlp.jsonl", root, sizeof(root) - 1);
}

Test(short_memory, causes_of_slow_requests_are_whole_or_say_what_they_lack)
{
	char slowest[] = "--slowest";

	write_slow_root();
	try_report(slowest, NULL);
}

Test(short_memory, causes_in_json_are_whole_or_say_what_they_lack)
{
	char slowest[] = "--slowest";
	char json_[] = "--json";

	write_slow_root();
	try_report(slowest, json_);
}

static void try_traces(void)
{
	static const char spans[] =
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		"\"value\":{\"stringValue\":\"shop\"}}]},\"scopeSpans\":[{\"spans\":[{\"traceId\":"
		"\"" TRACE "\",\"spanId\":\"00000000000000aa\",\"name\":\"GET\","
		"\"startTimeUnixNano\":\"1000000001000000000\",\"endTimeUnixNano\":"
		"\"1000000001060000000\"},{\"traceId\":\"" TRACE "\",\"spanId\":"
		"\"00000000000000bb\",\"parentSpanId\":\"00000000000000aa\",\"name\":\"POST\","
		"\"startTimeUnixNano\":\"1000000001000000000\",\"endTimeUnixNano\":"
		"\"1000000001050000000\"}]}]}]}\n{\"resourceSpans\":[]}\n";
	char traces[300];

	(void)snprintf(traces, sizeof(traces), "--traces=%s",
		       scratch_write("spans.json", spans, sizeof(spans) - 1));
	try_report(traces, NULL);
}

Test(short_memory, traces_of_samples_are_whole_or_say_what_they_lack)
{
	try_traces();
}

Test(short_memory, traces_of_slow_roots_are_whole_or_say_what_they_lack)
{
	write_slow_root();
	try_traces();
}

Test(short_memory, folded_stacks_are_whole_or_say_what_they_lack)
{
	char folded[] = "--folded";
	char span[] = "--span=00000000000000aa";

	try_report(folded, span);
}

Test(short_memory, a_flame_graph_is_whole_or_says_what_it_lacks)
{
	char flame[] = "--flamegraph";
	char file[] = "";

	try_report(flame, file);
}

Test(short_memory, a_comparison_is_whole_or_says_what_it_lacks)
{
	char span[] = "--span=00000000000000aa";
	char diff[] = "--diff";

	try_report(span, diff);
}

/* The exporter. */

static unsigned flush_then_stop(unsigned call)
{
	return call == 0 ? SP_WAIT_FLUSH : SP_WAIT_STOP;
}

static void export_all(void)
{
	result->status = sp_export_run(&core_family);
	result->put = core.drained;
	result->sent = core.counter[SP_COUNT_SAMPLES_SENT];
	result->lost = core.counter[SP_COUNT_SAMPLES_UNSENT];
	result->len = strlen(core.log);
	memcpy(result->text, core.log, result->len);
}

static void is_sent_or_told(void)
{
	if (first == 0)
		cr_assert(result->status == 0 && result->put == 40 && result->sent == 40,
			  "%llu of 40 are sent", (unsigned long long)result->sent);
	if (result->status == 0)
		cr_expect_eq(result->put, result->sent + result->lost,
			     "allocations %u to %u fail: %llu put, %llu sent, %llu lost: %.1000s",
			     first, last, (unsigned long long)result->put,
			     (unsigned long long)result->sent, (unsigned long long)result->lost,
			     result->text);
}

static void prepare_core(void)
{
	core_reset();
	core.ops.pid = (uint32_t)getpid();
	core.config.output_dir = scratch;
	core.config.thread_name = true;
	core.config.alloc = true;
	core.config.span_labels = "http.route";
	core.script = flush_then_stop;
	core.label[0] = "GET /";
	core.label[1] = "POST /";
	for (unsigned i = 0; i < 40; i++)
		core_sample(i % 5, i % 3, (void *)((uintptr_t)core_reset + i), (void *)core_logged,
			    NULL);
}

Test(short_memory, what_the_exporter_has_taken_is_sent_or_told_as_lost)
{
	prepare_core();
	(void)snprintf(what, sizeof(what), "the exporter");
	at_each_place(export_all, is_sent_or_told);
}

Test(short_memory, what_goes_into_a_file_of_opentelemetrys_is_sent_or_told_as_lost)
{
	prepare_core();
	core.config.output_format = SP_FORMAT_OTLP;
	(void)snprintf(what, sizeof(what), "the exporter");
	at_each_place(export_all, is_sent_or_told);
}

Test(short_memory, a_report_of_a_file_of_opentelemetrys_is_whole_or_says_what_it_lacks)
{
	char program[] = "spanprof-report";

	prepare_core();
	core.config.output_format = SP_FORMAT_OTLP;
	export_all();
	cr_assert_eq(result->sent, 40);
	(void)snprintf(what, sizeof(what), "spanprof-report");
	arguments[0] = program;
	arguments[1] = scratch;
	at_each_place(report, is_whole_or_says_so);
	free(reference);
}
