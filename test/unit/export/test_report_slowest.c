/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-report --slowest: its tables and sentences, and the files that it reads. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "export/report/roots.h"
#include "export/report/slowest.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

#define MS INT64_C(1000000)
/* 2001-09-09T01:46:40Z */
#define AT_S INT64_C(1000000000)
#define A "00000000000000aa"
#define B "00000000000000bb"
#define C "00000000000000cc"
#define D "00000000000000dd"
#define SLOW "spanprof-shop-7-20010909T014640Z-0a1b2c3d-000003-slow.otlp.jsonl"

static void set_up(void)
{
	scratch_make();
	unsetenv("NO_COLOR");
}

TestSuite(report_slowest, .init = set_up, .fini = scratch_remove);

/* Files of slow roots */

static char lines[1 << 20];

static void add_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add_text(const char *format, ...)
{
	size_t len = strlen(lines);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(lines + len, sizeof(lines) - len, format, ap);
	va_end(ap);
}

#define NUMBER(key, value) "{\"key\":\"spanprof." key "\",\"value\":{\"intValue\":\"" value "\"}}"
#define MEDIAN_32                                                                                  \
	NUMBER("roots.count", "1000")                                                              \
	"," NUMBER("duration.p50_ns", "32000000") "," NUMBER(                                      \
		"duration.p90_ns", "60000000") "," NUMBER("duration.p99_ns", "200000000")
#define TIMES(cpu, off) MEDIAN_32 "," NUMBER("cpu_time_ns", cpu) "," NUMBER("off_cpu_time_ns", off)

/* A root of that process that began so long after AT_S. */
static void add_root_of(const char *service, int pid, const char *id, const char *name,
			int64_t start_ms, int64_t ms, const char *attributes)
{
	add_text("{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		 "\"value\":{\"stringValue\":\"%s\"}},{\"key\":\"process.pid\",\"value\":"
		 "{\"intValue\":\"%d\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"spanprof\"},"
		 "\"spans\":[{\"traceId\":\"" TRACE "\",\"spanId\":\"%s\",\"name\":\"%s\","
		 "\"kind\":2,\"startTimeUnixNano\":\"%" PRId64 "\",\"endTimeUnixNano\":"
		 "\"%" PRId64 "\",\"attributes\":[%s]}]}]}]}\n",
		 service, pid, id, name, AT_S * 1000 * MS + start_ms * MS,
		 AT_S * 1000 * MS + (start_ms + ms) * MS, attributes);
}

static void add_root(const char *id, const char *name, int64_t start_ms, int64_t ms,
		     const char *attributes)
{
	add_root_of("shop", 7, id, name, start_ms, ms, attributes);
}

static void write_roots(const char *name)
{
	(void)scratch_write(name, lines, strlen(lines));
	lines[0] = '\0';
}

/* Profiles */

static const char *const main_only[] = {"handle@h.c:2", "main"};
static const char *const inflate[] = {"inflate@z.c:7", "shop::unpack@u.c:3", "main"};
static const char *const held[] = {"held by POST /refund in shop::reserve", "futex (lock)",
				   "shop::pay@p.c:9", "main"};
static const char *const held_other[] = {"held by POST /cart", "futex (lock)", "shop::pay@p.c:9",
					 "main"};
static const char *const sleeping[] = {"clock_nanosleep (timer)", "shop::backoff@b.c:5", "main"};
static const char *const recv_tcp[] = {"recvfrom tcp 10.0.0.5:5432", "shop::query@q.c:5", "main"};

#define OF(f, id, name, count, ms)                                                                 \
	{                                                                                          \
		f, sizeof(f) / sizeof(f[0]), id, name, TRACE, count, (ms)*MS, NULL, NULL           \
	}

static void write_type(const char *name, enum sp_profile_type type,
		       const struct report_stack *stack, size_t n)
{
	struct sp_bytes b = report_profile_of_at(type, stack, n, AT_S);

	(void)scratch_write(name, b.data, b.len);
	free(b.data);
}

#define write_cpu(...)                                                                             \
	do {                                                                                       \
		const struct report_stack of_cpu[] = {__VA_ARGS__};                                \
		write_type("c.pb", SP_PROFILE_CPU, of_cpu, sizeof(of_cpu) / sizeof(of_cpu[0]));    \
	} while (0)
#define write_waits(...)                                                                           \
	do {                                                                                       \
		const struct report_stack waits[] = {__VA_ARGS__};                                 \
		write_type("o.pb", SP_PROFILE_OFF_CPU, waits, sizeof(waits) / sizeof(waits[0]));   \
	} while (0)

/* The usual samples of this name, which are no cause. */
#define USUAL OF(main_only, D, "checkout", 3000, 30000)

/* Causes */

Test(report_slowest, name_the_holder_of_a_lock)
{
	add_root(A, "checkout", 1207, 412, TIMES("40000000", "372000000"));
	write_roots(SLOW);
	write_cpu(OF(main_only, A, "checkout", 3, 30), USUAL);
	write_waits(OF(held, A, "checkout", 18, 360), OF(sleeping, A, "checkout", 1, 20));

	must_report("--slowest");
	expect_printed("1 slow request of 1 name, 2 profiles, 2001-09-09 01:46:41.207 to "
		       "2001-09-09 01:46:41.619 UTC\n\n      began");
	expect_printed("shop::reserve\n\n  1  412 ms");
	expect_printed("trace " TRACE "\n\n requests ");
	expect_printed("began (UTC)      took slower by  on a CPU for a CPU   waiting alloc MiB  "
		       "span_name: what it waited for most\n");
	expect_printed(
		"  1  01:46:41.207    412 ms    380 ms     40 ms         -    372 ms         "
		"-  checkout: waiting for a lock held by POST /refund in shop::reserve\n");
	/* 18 of 19 looks of 372 ms. */
	expect_printed("\n  1  412 ms, 380 ms more than the median of checkout: 352 ms waiting "
		       "for a lock held by POST /refund in shop::reserve\n"
		       "     span " A ", trace " TRACE "\n");
	expect_printed(
		"\n requests  a second      slow    median       p90       p99  on a CPU off a CPU "
		" "
		"span_name, and the time of a request\n"
		"     1000         -         1     32 ms     60 ms    200 ms         -         -  "
		"checkout\n");
}

Test(report_slowest, name_a_function_of_the_program)
{
	add_root(A, "checkout", 0, 432, TIMES("400000000", "32000000"));
	write_roots(SLOW);
	write_cpu(OF(inflate, A, "checkout", 38, 380), OF(main_only, A, "checkout", 2, 20), USUAL);
	write_waits(OF(sleeping, A, "checkout", 2, 32));

	must_report("--slowest");
	expect_printed("400 ms more than the median of checkout: 380 ms in inflate\n");
}

/* Three functions share the time, none of which has most of it. */
Test(report_slowest, name_the_processor_alone_if_no_function_has_most)
{
	static const char *const one[] = {"one@1.c:1"}, *const two[] = {"two@1.c:1"},
				 *const three[] = {"three@1.c:1"};

	add_root(A, "checkout", 0, 432, TIMES("400000000", "32000000"));
	write_roots(SLOW);
	write_cpu(OF(one, A, "checkout", 14, 140), OF(two, A, "checkout", 13, 130),
		  OF(three, A, "checkout", 13, 130));

	must_report("--slowest");
	expect_printed("of checkout: 400 ms on a CPU\n");
}

/* The time is spread: a function has most of the processor's time, but no more than usual. */
Test(report_slowest, name_no_function_that_is_as_usual)
{
	add_root(A, "checkout", 0, 64, TIMES("60000000", "4000000"));
	write_roots(SLOW);
	write_cpu(OF(inflate, A, "checkout", 6, 60), OF(inflate, D, "checkout", 3000, 30000));

	must_report("--slowest");
	/*
	 * 60 ms minus the median's 32 ms are nearly all of the excess. inflate has at least 36 ms,
	 * which minus 32 are less than a third of it.
	 */
	expect_printed("64 ms, 32 ms more than the median of checkout: 60 ms on a CPU\n");
}

Test(report_slowest, name_what_is_waited_for)
{
	static const struct {
		const char *frame[5];
		const char *wanted;
	} waits[] = {
		{{"futex (lock)", "std::mutex::lock@m:1", "shop::pay@p.c:9", "main"},
		 "waiting for a lock in shop::pay"},
		{{"futex (lock)", "std::shared_rwlock@m:1", "shop::pay@p.c:9"},
		 "waiting for a lock in shop::pay"},
		{{"futex (lock)",
		  "std::condition_variable::wait(std::unique_lock<std::mutex>&)@m:1",
		  "shop::queue@p.c:9", "main"},
		 "waiting for a condition variable in shop::queue"},
		{{"futex (lock)", "std::pthread_cond_wait@m:1", "shop::queue@p.c:9", "main"},
		 "waiting for a condition variable in shop::queue"},
		{{"futex (lock)", "shop::pay@p.c:9", "mutex@p.c:8"},
		 "waiting for a lock or a condition variable in shop::pay"},
		{{"clock_nanosleep (timer)", "shop::backoff@b.c:5", "main"},
		 "sleeping in shop::backoff"},
		{{"recvfrom tcp 10.0.0.5:5432", "shop::query@q.c:5"},
		 "waiting for a socket (recvfrom tcp 10.0.0.5:5432) in shop::query"},
		{{"[blocked in the kernel]", "shop::scan@s.c:4"},
		 "blocked in the kernel (812 major page faults) in shop::scan"},
		{{"[waiting for a CPU]"}, "waiting for a CPU"},
		{{"wait4 (child)", "main@m.c:1"}, "waiting for a child process (wait4) in main"},
		{{"epoll_wait (events)", "main@m.c:1"}, "waiting for events (epoll_wait) in main"},
		{{"pause (signal)", "main@m.c:1"}, "waiting for a signal (pause) in main"},
		{{"read (pipe)", "main@m.c:1"}, "waiting for a pipe (read) in main"},
		{{"read pipe", "main@m.c:1"}, "waiting for a pipe (read pipe) in main"},
		{{"fsync (file)", "main@m.c:1"}, "waiting for a file (fsync) in main"},
		{{"fsync /var/lib/db", "main@m.c:1"},
		 "waiting for a file (fsync /var/lib/db) in main"},
		{{"read (terminal)", "main@m.c:1"}, "waiting for a terminal (read) in main"},
		{{"read /dev/pts/3", "main@m.c:1"},
		 "waiting for a terminal (read /dev/pts/3) in main"},
		{{"read /dev/tty", "main@m.c:1"}, "waiting for a terminal (read /dev/tty) in main"},
		{{"recvfrom (socket)", "main@m.c:1"}, "waiting for a socket (recvfrom) in main"},
		{{"connect unix /run/db", "main@m.c:1"},
		 "waiting for a socket (connect unix /run/db) in main"},
		{{"sendto udp 10.0.0.5:53", "main@m.c:1"},
		 "waiting for a socket (sendto udp 10.0.0.5:53) in main"},
		{{"read socket", "main@m.c:1"}, "waiting for a socket (read socket) in main"},
		{{"flock (lock)", "main@m.c:1"}, "waiting for a lock in main"},
		{{"msgrcv", "main@m.c:1"}, "waiting (msgrcv) in main"},
		{{"[blocked, no stack: not allowed]"}, "waiting"},
	};
	char wanted[256];

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		struct report_stack stack = {waits[i].frame, 0,    A,   "checkout", TRACE, 20,
					     400 * MS,       NULL, NULL};

		while (waits[i].frame[stack.frames] != NULL)
			stack.frames++;
		add_root(A, "checkout", 0, 432,
			 TIMES("32000000", "400000000") "," NUMBER("page_faults.major", "812"));
		write_roots(SLOW);
		write_cpu(USUAL);
		write_type("o.pb", SP_PROFILE_OFF_CPU, &stack, 1);
		must_report("--slowest");
		(void)snprintf(wanted, sizeof(wanted), "of checkout: 400 ms %s\n", waits[i].wanted);
		cr_expect(printed(wanted), "not %s: %s", wanted, output);
	}
}

Test(report_slowest, name_several_causes_with_the_largest_first)
{
	add_root(A, "checkout", 0, 932, TIMES("400000000", "532000000"));
	write_roots(SLOW);
	write_cpu(OF(inflate, A, "checkout", 40, 400), USUAL);
	write_waits(OF(sleeping, A, "checkout", 25, 500), OF(recv_tcp, A, "checkout", 1, 32));

	must_report("--slowest");
	expect_printed(": 512 ms sleeping in shop::backoff, 400 ms in inflate\n");
}

/* Two spans held the lock by turns: the wait is a cause, but no single holder is. */
Test(report_slowest, name_no_holder_that_held_it_a_part_of_the_time)
{
	add_root(A, "checkout", 0, 432, TIMES("32000000", "400000000"));
	write_roots(SLOW);
	write_cpu(USUAL);
	write_waits(OF(held, A, "checkout", 10, 200), OF(held_other, A, "checkout", 9, 200));

	must_report("--slowest");
	expect_printed("of checkout: 400 ms waiting for a lock in shop::pay\n");
	expect_printed("  checkout: waiting for a lock\n");
}

/* 60 of 100 looks prove more than a third, 6 of 10 looks do not. */
Test(report_slowest, name_what_chance_does_not_explain)
{
	add_root(A, "checkout", 0, 432, TIMES("32000000", "400000000"));
	add_root(B, "checkout", 0, 432, TIMES("32000000", "400000000"));
	write_roots(SLOW);
	write_cpu(USUAL);
	write_waits(OF(sleeping, A, "checkout", 60, 240), OF(recv_tcp, A, "checkout", 40, 160),
		    OF(sleeping, B, "checkout", 6, 240), OF(recv_tcp, B, "checkout", 4, 160));

	must_report("--slowest", "--span", A);
	expect_printed("240 ms sleeping in shop::backoff");
	must_report("--slowest", "--span", B);
	expect_not_printed("sleeping in shop::backoff,");
	expect_printed("of checkout: 400 ms off the CPU; the profiles do not say what it waited "
		       "for: no part of its time explains a third of that beyond chance\n");
}

/* A usual request of the name waits for that lock as well, and this one hardly longer. */
Test(report_slowest, name_nothing_that_is_as_usual)
{
	add_root(A, "checkout", 0, 50, TIMES("20000000", "30000000"));
	write_roots(SLOW);
	write_cpu(OF(main_only, A, "checkout", 2, 20), USUAL);
	write_waits(OF(held, A, "checkout", 10, 30), OF(held, D, "checkout", 1000, 20000));

	must_report("--slowest");
	expect_printed("50 ms, 18 ms more than the median of checkout: the profiles do not say "
		       "why: no part of its time explains a third of that beyond chance\n");
}

#define FILE_OF(number, rest) "spanprof-shop-7-20010909T014640Z-0a1b2c3d-00000" number rest

/* With all profiles of the process, the mean of a request is known: 20 ms, 12 ms for a socket, and hardly a lock. */
Test(report_slowest, know_what_is_usual_by_all_profiles)
{
	const struct report_stack cpu[] = {OF(main_only, A, "checkout", 2, 20),
					   OF(main_only, B, "checkout", 5, 50),
					   OF(main_only, D, "checkout", 1993, 19930)};
	const struct report_stack waits[] = {OF(held, A, "checkout", 8, 32),
					     OF(recv_tcp, A, "checkout", 3, 12),
					     OF(recv_tcp, D, "checkout", 600, 11988)};
	static const char cause[] = "32 ms more than the median of checkout: 32 ms waiting for a "
				    "lock held by POST /refund in shop::reserve\n";
	json_t *j, *name;

	add_root(A, "checkout", 0, 64, TIMES("20000000", "44000000"));
	add_root(C, "checkout", 0, 65, TIMES("20000000", "12000000"));
	add_root(B, "checkout", 0, 63, TIMES("51000000", "12000000"));
	write_roots(SLOW);
	write_type(FILE_OF("1", ".pb"), SP_PROFILE_CPU, cpu, 3);
	write_type(FILE_OF("2", "-off_cpu.pb"), SP_PROFILE_OFF_CPU, waits, 3);
	must_report("--slowest");
	expect_printed(cause);
	/* No profile shows how long a usual request is active on no thread. */
	expect_printed("33 ms more than the median of checkout: the profiles do not say why");
	/*
	 * At least 28 of 51 ms are in the function: 8 ms more than usual, which is less than a
	 * third of 31.
	 */
	expect_printed("31 ms more than the median of checkout: 51 ms on a CPU\n");
	expect_not_printed("{");
	expect_printed("     32 ms     60 ms    200 ms     20 ms     12 ms  checkout\n");
	must_report("--slowest", "--json");
	j = json();
	name = json_array_get(json_object_get(j, "span_names"), 0);
	cr_expect_eq(number_of(name, "cpu_ns"), 20 * MS);
	cr_expect_eq(number_of(name, "off_cpu_ns"), 12032000);
	/* The first file began with the first request, and the last request ended 65 ms later. */
	cr_expect_float_eq(json_real_value(json_object_get(name, "requests_per_second")),
			   1000 / 0.065, 1);
	json_decref(j);

	/* Of another process, whose requests are not counted. */
	write_type("spanprof-shop-8-20010909T014640Z-0a1b2c3d-000001.pb", SP_PROFILE_CPU, cpu, 3);
	must_report("--slowest");
	expect_printed("     32 ms     60 ms    200 ms     20 ms     12 ms  checkout\n");
	/* The mean is not known for a part of the time, or if there are files of other writers. */
	must_report("--slowest", "--from", "2001-09-09T01:46:40Z");
	expect_not_printed(cause);
	expect_printed("     32 ms     60 ms    200 ms         -         -  checkout\n");
	add_root("00000000000000ee", "other", 0, 64, MEDIAN_32);
	write_roots("other.otlp.jsonl");
	must_report("--slowest");
	expect_printed("     32 ms     60 ms    200 ms         -         -  checkout\n");
	(void)remove(in_scratch("other.otlp.jsonl"));
	/* The first file is missing. */
	(void)remove(in_scratch(FILE_OF("1", ".pb")));
	must_report("--slowest");
	expect_not_printed(cause);
	expect_printed("     32 ms     60 ms    200 ms         -         -  checkout\n");
}

/* Two services have requests of one name, and samples do not show the service. */
Test(report_slowest, know_no_mean_of_a_name_of_two_services)
{
	const struct report_stack cpu[] = {OF(main_only, D, "checkout", 2000, 20000)};

	add_root(A, "checkout", 0, 64, MEDIAN_32);
	add_root_of("bank", 7, B, "checkout", 0, 64, MEDIAN_32);
	add_root(C, "search", 0, 64, MEDIAN_32);
	add_root(D, "report", 0, 64, NUMBER("roots.count", "0"));
	write_roots(SLOW);
	write_type(FILE_OF("1", ".pb"), SP_PROFILE_CPU, cpu, 1);
	must_report("--slowest");
	expect_printed("     32 ms     60 ms    200 ms         -         -  shop: checkout\n");
	expect_printed("     32 ms     60 ms    200 ms         -         -  bank: checkout\n");
	expect_printed("     32 ms     60 ms    200 ms      0 us         -  shop: search\n");
	expect_printed("         -         -         -         -         -  shop: report\n");
}

/* 4 ms are an eighth of the median, of which 2 ms of CPU time are no tenth. */
Test(report_slowest, name_nothing_that_is_small)
{
	const struct report_stack cpu[] = {OF(main_only, D, "checkout", 2000, 20000)};

	add_root(A, "checkout", 0, 36, TIMES("22000000", "14000000"));
	add_root(B, "checkout", 0, 37, TIMES("24000000", "13000000"));
	write_roots(SLOW);
	write_type(FILE_OF("1", ".pb"), SP_PROFILE_CPU, cpu, 1);
	must_report("--slowest");
	expect_printed("4.0 ms more than the median of checkout: the profiles do not say why");
	expect_printed("5.0 ms more than the median of checkout: 24 ms on a CPU\n");
}

Test(report_slowest, say_which_variable_shows_waits)
{
	add_root(A, "checkout", 0, 432, TIMES("32000000", "400000000"));
	add_root(B, "checkout", 0, 431, MEDIAN_32);
	write_roots(SLOW);
	write_cpu(USUAL);

	must_report("--slowest");
	expect_printed("of checkout: 400 ms off the CPU; the profiles do not say what it waited "
		       "for: there is no profile of waits (SPANPROF_OFF_CPU=true)\n");
	expect_printed("399 ms more than the median of checkout: the profiles do not say why: "
		       "there is no profile of waits (SPANPROF_OFF_CPU=true)\n");
}

Test(report_slowest, say_why_they_do_not_know)
{
	add_root(A, "checkout", 0, 432, MEDIAN_32);
	add_root(B, "checkout", 0, 431, MEDIAN_32);
	add_root(C, "checkout", 0, 430, MEDIAN_32);
	write_roots(SLOW);

	must_report("--slowest");
	expect_printed(": the profiles do not say why: there are no profiles of that time\n");
	write_cpu(OF(inflate, C, "checkout", 4, 40), USUAL);
	write_waits(OF(sleeping, D, "checkout", 1000, 1000), OF(sleeping, B, "checkout", 8, 400));
	must_report("--slowest");
	expect_printed("400 ms more than the median of checkout: the profiles do not say why: no "
		       "sample has its span id (SPANPROF_SPAN_ID_SCOPE)\n");
	expect_printed("399 ms more than the median of checkout: the profiles do not say why: too "
		       "few samples have its span id\n");
	expect_printed("398 ms more than the median of checkout: the profiles do not say why: too "
		       "few samples have its span id\n");
}

/* Two standard errors of a sum of n looks are 2 sqrt(2/n) of it. */
Test(report_slowest, estimate_what_is_not_exact)
{
	add_root(A, "checkout", 0, 432, MEDIAN_32);
	write_roots(SLOW);
	write_cpu(USUAL);
	write_waits(OF(sleeping, A, "checkout", 50, 400));

	must_report("--slowest");
	expect_printed("  1  01:46:40.000    432 ms    400 ms         -         -   ~400 ms");
	expect_printed(": about 400 ms sleeping in shop::backoff\n");
	write_waits(OF(sleeping, A, "checkout", 12, 400));
	must_report("--slowest");
	expect_not_printed("about");
}

Test(report_slowest, know_times_without_samples)
{
	add_root(A, "checkout", 0, 432,
		 TIMES("32000000", "400000000") "," NUMBER("runnable_time_ns", "390000000"));
	add_root(B, "checkout", 0, 431, TIMES("20000000", "12000000"));
	write_roots(SLOW);
	write_cpu(USUAL);
	write_waits(OF(sleeping, D, "checkout", 10, 100));

	must_report("--slowest");
	expect_printed("    390 ms     10 ms         -  checkout\n");
	expect_printed("400 ms more than the median of checkout: 390 ms waiting for a CPU\n");
	expect_printed("of checkout: 399 ms in which no thread worked on it\n");
}

/* A root that is active on two threads at once is active for longer than it lasts. */
Test(report_slowest, have_no_idle_time_on_several_threads)
{
	add_root(A, "checkout", 0, 432, TIMES("400000000", "400000000"));
	write_roots(SLOW);
	write_cpu(USUAL);
	must_report("--slowest");
	expect_printed("400 ms on a CPU");
	expect_not_printed("no thread worked");
}

Test(report_slowest, have_no_cause_if_they_are_not_slower)
{
	add_root(A, "checkout", 0, 32, TIMES("32000000", "0"));
	add_root(B, "search", 0, 500, NUMBER("cpu_time_ns", "480000000"));
	write_roots(SLOW);
	write_cpu(USUAL);

	must_report("--slowest");
	expect_printed("  2  32 ms, no more than the median of checkout\n");
	must_report("--slowest", "--json", "--span-name", "checkout");
	expect_printed("\"causes\": [], \"why_not\": null");
	must_report("--slowest");
	expect_printed("  1  500 ms, the median of search is not known: 480 ms on a CPU\n");
	expect_printed("  1  01:46:40.000    500 ms         -    480 ms");
	expect_printed(
		"        -         1         -         -         -         -         -  search\n");
}

Test(report_slowest, have_allocations)
{
	static const char *const alloc[] = {"alloc@a.c:1"};
	const struct report_stack stack[] = {OF(alloc, A, "checkout", 3, 3),
					     OF(alloc, B, "checkout", 3, 9)};

	add_root(A, "checkout", 0, 432, MEDIAN_32);
	add_root(B, "checkout", 0, 431, MEDIAN_32 "," NUMBER("allocated_bytes", "1048576"));
	write_roots(SLOW);
	write_type("m.pb", SP_PROFILE_MEMORY, stack, 2);

	must_report("--slowest");
	expect_printed("         -         -         -       2.9  checkout\n");
	expect_printed("         -         -         -       1.0  checkout\n");
}

/* Which requests */

Test(report_slowest, are_those_that_lost_most)
{
	add_root(A, "checkout", 0, 100, MEDIAN_32);
	add_root(B, "report", 0, 1600,
		 NUMBER("roots.count", "9") "," NUMBER("duration.p50_ns", "1590000000"));
	add_root(C, "checkout", 0, 300, MEDIAN_32);
	write_roots(SLOW);

	must_report("--slowest=2");
	expect_printed("3 slow requests of 2 names");
	expect_printed("  1  300 ms, ");
	expect_printed("  2  100 ms, ");
	expect_printed("\n     1 requests more\n");
	expect_not_printed("1.60 s");
	must_report("--slower-than", "250ms");
	expect_printed("2 slow requests of 2 names");
	expect_printed("  2  1.60 s, 10 ms more");
	must_report("--slower-than", "0.3s", "--slowest=1");
	expect_printed("  1  300 ms, ");
	must_report("--slowest", "--span-name", "report");
	expect_printed("1 slow request of 1 name");
	must_report("--slowest", "--span", "00000000000000CC");
	expect_printed("1 slow request of 1 name");
	must_report("--slowest", "--trace", TRACE);
	expect_printed("3 slow requests of 2 names");
	cr_expect_eq(run_scratch("--slowest", "--span", D), 1);
	cr_expect_str_eq(output, "spanprof-report: there is no slow request with that name or id, "
				 "or of that time\n");
	cr_expect_eq(run_scratch("--slower-than=1601ms"), 1);
	cr_expect_str_eq(output, "spanprof-report: no request took as long as that\n");
}

/* What is usual for a name does not depend on which of its requests is shown. */
Test(report_slowest, of_one_id_are_compared_with_all_of_their_name)
{
	add_root(A, "checkout", 0, 100, NUMBER("roots.count", "1"));
	add_root(B, "checkout", 0, 300,
		 NUMBER("roots.count", "40") "," NUMBER("duration.p50_ns", "32000000"));
	add_root(C, "search", 0, 300, MEDIAN_32);
	write_roots(SLOW);

	must_report("--slowest", "--span", A);
	expect_printed("1 slow request of 1 name");
	expect_printed("  1  100 ms, 68 ms more than the median of checkout");
	expect_printed("       40         -         2     32 ms         -         -");
	expect_not_printed("300 ms");
	expect_not_printed("search");
	must_report("--slowest", "--json", "--span", A);
	cr_expect_eq(report_count(output, "\"span_id\""), 1);
}

Test(report_slowest, are_ten_in_a_table)
{
	char id[17];

	for (int i = 0; i < 12; i++) {
		(void)snprintf(id, sizeof(id), "%016x", i + 1);
		add_root(id, "checkout", 0, 400 + i, MEDIAN_32);
	}
	write_roots(SLOW);

	must_report("--slowest");
	expect_printed(" 10  402 ms");
	expect_not_printed(" 11  ");
	expect_printed("     2 requests more\n");
	must_report("--slowest", "--json");
	cr_expect_eq(report_count(output, "\"span_id\""), 12);
}

/* Requests are selected by the time of their end, samples by the time of these requests. */
Test(report_slowest, are_of_the_time_that_is_asked_for)
{
	const struct report_stack before[] = {OF(sleeping, A, "checkout", 100, 9900)};
	struct sp_bytes b = report_profile_of_at(SP_PROFILE_OFF_CPU, before, 1, AT_S);

	(void)scratch_write("spanprof-shop-7-20010909T014640Z-0a1b2c3d-000001-off_cpu.pb.gz",
			    b.data, b.len);
	free(b.data);
	add_root(A, "checkout", 5000, 10000, TIMES("100000000", "9900000000"));
	add_root(B, "checkout", 5000, 400, MEDIAN_32);
	write_roots(SLOW);

	must_report("--slowest", "--from", "2001-09-09T01:46:50Z", "--to", "2001-09-09T01:47:00Z");
	expect_printed("1 slow request of 1 name, 1 profile");
	expect_printed("9.90 s sleeping in shop::backoff\n");
	must_report("--slowest", "--to", "2001-09-09T01:46:50Z");
	expect_printed("  1  400 ms");
	expect_not_printed("  2  ");
}

/* By its name the damaged file begins later than --to, so it is not opened. */
Test(report_slowest, are_not_read_from_files_of_another_time)
{
	add_root(A, "checkout", 0, 400, MEDIAN_32);
	write_roots(SLOW);
	add_text("this is no JSON\n");
	write_roots("spanprof-shop-7-20010910T014640Z-0a1b2c3d-000003-slow.otlp.jsonl");

	cr_expect_eq(run_scratch("--slowest"), 2);
	must_report("--slowest", "--to", "2001-09-09T02:00:00Z");
	expect_printed("1 slow request");
}

Test(report_slowest, count_once_and_add_up_processes)
{
	add_root_of("shop", 7, A, "checkout", 0, 400, MEDIAN_32);
	add_root_of("shop", 7, B, "checkout", 500, 300,
		    NUMBER("roots.count", "1500") "," NUMBER("duration.p50_ns", "33000000"));
	add_root_of("shop", 8, C, "checkout", 900, 300,
		    NUMBER("roots.count", "10") "," NUMBER("duration.p50_ns", "44000000"));
	add_root_of("shop", 9, D, "checkout", 900, 300, "");
	write_roots(SLOW);
	add_root_of("shop", 7, A, "checkout", 0, 400, MEDIAN_32);
	write_roots("copy.otlp.jsonl");

	must_report("--slowest");
	expect_printed("4 slow requests of 1 name");
	expect_printed(
		"     1510         -         4     33 ms         -         -         -         -  "
		"checkout\n");
	expect_printed("367 ms more than the median of checkout");
	add_root_of("bank", 9, D, "checkout", 900, 300, "");
	write_roots("bank.otlp.jsonl");
	must_report("--slowest");
	expect_printed("  shop: checkout\n");
	expect_printed("  bank: checkout\n");
	expect_printed("the median of bank: checkout is not known");
}

#define MOST "9223372036854775807"

Test(report_slowest, count_no_more_than_fits)
{
	json_t *j;

	for (int pid = 1; pid <= 3; pid++)
		add_root_of("shop", pid, A, "checkout", pid, 300, NUMBER("roots.count", MOST));
	write_roots(SLOW);
	must_report("--slowest", "--json");
	j = json();
	cr_expect_eq(number_of(json_array_get(json_object_get(j, "span_names"), 0), "requests"),
		     INT64_MAX);
	json_decref(j);
}

/* Each request has its own part of the tree, the largest comes first. */
Test(report_slowest, wait_for_what_they_wait_for_themselves)
{
	static const char *const other[] = {"nanosleep (timer)", "shop::backoff@b.c:5", "main"};
	json_t *j, *wait;

	add_root(A, "checkout", 0, 300, MEDIAN_32);
	add_root(B, "checkout", 0, 299, MEDIAN_32);
	add_root(C, "checkout", 0, 298, MEDIAN_32);
	write_roots(SLOW);
	write_waits(OF(sleeping, A, "checkout", 20, 300), OF(other, B, "checkout", 19, 290),
		    OF(other, C, "checkout", 19, 280));
	must_report("--slowest", "--json");
	j = json();
	wait = json_array_get(
		json_object_get(json_array_get(json_object_get(j, "requests"), 0), "waits"), 0);
	cr_expect_str_eq(text_of(wait, "call"), "clock_nanosleep (timer)");
	json_decref(j);
}

/* A function that calls itself counts once, for the request and for its name. */
Test(report_slowest, count_a_function_that_calls_itself_once)
{
	static const char *const walk[] = {"walk@w.c:1", "walk@w.c:1", "walk@w.c:1", "main"};

	add_root(A, "checkout", 0, 432, TIMES("400000000", "32000000"));
	write_roots(SLOW);
	write_cpu(OF(walk, A, "checkout", 40, 400), USUAL);
	must_report("--slowest");
	expect_printed("of checkout: 400 ms in walk\n");
}

Test(report_slowest, have_days_where_there_are_several)
{
	add_root(A, "checkout", -7200000, 400, MEDIAN_32);
	add_root(B, "checkout", 0, 300, MEDIAN_32);
	write_roots(SLOW);

	must_report("--slowest");
	expect_printed("  1  2001-09-08 23:46:40.000    400 ms    368 ms");
	expect_printed("                 began (UTC)      took slower by");
}

Test(report_slowest, have_times_of_three_digits)
{
	static const struct {
		int64_t us;
		const char *wanted;
	} times[] = {{999, "999 us"},       {1000, "1.0 ms"},   {9994, "10.0 ms"},
		     {9996, "10 ms"},       {999400, "999 ms"}, {999600, "1.00 s"},
		     {99994000, "99.99 s"}, {99996000, "100 s"}};
	char wanted[64];

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		add_text("{\"resourceSpans\":[{\"scopeSpans\":[{\"scope\":{\"name\":\"spanprof\"},"
			 "\"spans\":[{\"traceId\":\"" TRACE "\",\"spanId\":\"" A "\",\"name\":\"\","
			 "\"startTimeUnixNano\":0,\"endTimeUnixNano\":%" PRId64 "}]}]}]}",
			 times[i].us * 1000);
		write_roots(SLOW);
		must_report("--slowest");
		(void)snprintf(wanted, sizeof(wanted),
			       "  1  %s, the median of (no name) is not known", times[i].wanted);
		cr_expect(printed(wanted), "%s: %s", wanted, output);
	}
}

Test(report_slowest, are_json_for_programs)
{
	json_t *j, *q, *c;

	add_root(A, "checkout", 1207, 412,
		 TIMES("40000000", "372000000") "," NUMBER("page_faults.major", "0"));
	add_root(B, "checkout", 1207, 300, "");
	write_roots(SLOW);
	write_cpu(OF(main_only, A, "checkout", 3, 30), USUAL);
	write_waits(OF(held, A, "checkout", 18, 360), OF(sleeping, A, "checkout", 1, 20));

	must_report("--slowest", "--json");
	j = json();
	cr_expect_eq(number_of(j, "profiles"), 2);
	cr_expect_eq(number_of(j, "passed_over"), 0);
	cr_expect_eq(number_of(j, "slow"), 2);
	q = json_array_get(json_object_get(j, "requests"), 0);
	cr_expect_eq(number_of(q, "start_ns"), AT_S * 1000 * MS + 1207 * MS);
	cr_expect_eq(number_of(q, "ns"), 412 * MS);
	cr_expect_eq(number_of(q, "slower_by_ns"), 380 * MS);
	cr_expect_str_eq(text_of(q, "service"), "shop");
	cr_expect_str_eq(text_of(q, "span_name"), "checkout");
	cr_expect_str_eq(text_of(q, "span_id"), A);
	cr_expect_str_eq(text_of(q, "trace_id"), TRACE);
	cr_expect_eq(number_of(json_object_get(q, "cpu"), "ns"), 40 * MS);
	cr_expect_eq(number_of(json_object_get(q, "off_cpu"), "low_ns"), 372 * MS);
	cr_expect(json_is_null(json_object_get(q, "runnable")));
	cr_expect(json_is_null(json_object_get(q, "allocated_bytes")));
	cr_expect_eq(number_of(q, "major_page_faults"), 0);
	cr_expect(json_is_null(json_object_get(q, "why_not")));
	cr_expect_eq(json_array_size(json_object_get(q, "waits")), 2);
	cr_expect_eq(json_array_size(json_object_get(q, "causes")), 1);
	c = json_array_get(json_object_get(q, "causes"), 0);
	cr_expect_str_eq(text_of(c, "for"), "lock");
	cr_expect_str_eq(text_of(c, "held_by"), "POST /refund in shop::reserve");
	cr_expect(json_is_null(json_object_get(c, "call")));
	cr_expect_str_eq(text_of(c, "function"), "shop::pay");
	cr_expect_eq(number_of(c, "samples"), 18);
	cr_expect_eq(number_of(c, "ns") / MS, 352);
	/* Wilson's lower bound of 18 of 19 at two standard errors is 0.748. */
	cr_expect_eq(number_of(c, "low_ns") / MS, 278);
	cr_expect_not_null(strstr(text_of(q, "sentence"), "412 ms, 380 ms more than the median"));
	c = json_array_get(json_object_get(q, "waits"), 1);
	cr_expect_str_eq(text_of(c, "for"), "sleep");
	cr_expect_str_eq(text_of(c, "call"), "clock_nanosleep (timer)");
	q = json_array_get(json_object_get(j, "requests"), 1);
	cr_expect_not_null(text_of(q, "why_not"));
	c = json_array_get(json_object_get(j, "span_names"), 0);
	cr_expect_eq(number_of(c, "requests"), 1000);
	cr_expect_eq(number_of(c, "slow"), 2);
	cr_expect_eq(number_of(c, "p50_ns"), 32 * MS);
	cr_expect_eq(number_of(c, "p90_ns"), 60 * MS);
	cr_expect_eq(number_of(c, "p99_ns"), 200 * MS);
	cr_expect_str_eq(text_of(c, "service"), "shop");
	json_decref(j);
}

/* A profile of CPU and waiting time has the same waits again. */
Test(report_slowest, do_not_read_waits_from_a_profile_of_all_time)
{
	const struct report_stack both[] = {OF(sleeping, A, "checkout", 100, 400)};

	add_root(A, "checkout", 0, 432, MEDIAN_32);
	write_roots(SLOW);
	write_type("w.pb", SP_PROFILE_WALL, both, 1);

	must_report("--slowest");
	expect_printed("1 name, 0 profiles");
	expect_not_printed("sleeping");
}

/* Names of functions are whole, except on a terminal. */
Test(report_slowest, have_short_names_on_a_terminal)
{
	static const char *const templates[] = {
		"void shop::unpack<std::vector<int, std::allocator<int> > >(int)@u.c:3", "main"};
	struct sp_report_options o = {.top = 10, .slowest = true};
	struct sp_print p = {.width = 90};
	char *path[] = {scratch, NULL};
	char *text;

	add_root(A, "checkout", 0, 432, TIMES("400000000", "32000000"));
	write_roots(SLOW);
	write_cpu(OF(templates, A, "checkout", 40, 400), USUAL);
	write_waits(OF(held, A, "checkout", 3, 32));

	must_report("--slowest");
	expect_printed(
		"400 ms in void shop::unpack<std::vector<int, std::allocator<int> > >(int)\n");
	expect_printed("held by POST /refund in shop::reserve\n");
	fflush(stdout);
	cr_assert_not_null(freopen(in_scratch("out"), "w", stdout));
	cr_expect_eq(sp_slowest(&o, path, &p), 0);
	fflush(stdout);
	text = report_file(in_scratch("out"));
	(void)snprintf(output, sizeof(output), "%s", text);
	free(text);
	cr_expect(printed("400 ms in shop::unpack\n"), "%s", output);
	cr_expect_not(printed("held by POST /refund in shop::reserve\n"), "%s", output);
	cr_expect(printed("...\n"), "%s", output);
}

/* Options */

Test(report_slowest, go_with_few_options)
{
	static const char *const wrong[][2] = {
		{"--slowest=0", "--json"},
		{"--slowest=many", "--json"},
		{"--slowest", "--folded"},
		{"--slowest", "--flamegraph=x.html"},
		{"--slowest", "--serve=0"},
		{"--slowest", "--type=off_cpu"},
		{"--slowest", "--focus=x"},
		{"--slowest", "--baseline=x"},
		{"--slowest", "--baseline-to=1d"},
		{"--slowest", "--by=span"},
		{"--slowest", "--lines"},
		{"--slowest", "--threads"},
		{"--slower-than=0ms", "--json"},
		{"--slower-than=ms", "--json"},
		{"--slower-than=5", "--json"},
		{"--slower-than=5.", "--json"},
		{"--slower-than=5.ms", "--json"},
		{"--slower-than=-5ms", "--json"},
		{"--slower-than=5 ms", "--json"},
		{"--slower-than=5msx", "--json"},
		{"--slower-than=1234567890123456ms", "--json"},
		{"--slower-than=999999999999s", "--json"},
	};

	add_root(A, "checkout", 0, 400, MEDIAN_32);
	write_roots(SLOW);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_eq(run_scratch(wrong[i][0], wrong[i][1]), 1, "%s %s: %s", wrong[i][0],
			     wrong[i][1], output);
	must_report("--slower-than=400ms");
	must_report("--slower-than=0.4s");
	must_report("--slower-than=400000us");
	cr_expect_eq(run_scratch("--slower-than=400001us"), 1);
	cr_expect_eq(run_scratch("--slower-than=1m"), 1);
	must_report("--top=1", "--slowest");
}

Test(report_slowest, need_files_of_slow_requests)
{
	write_cpu(USUAL);
	cr_expect_eq(run_scratch("--slowest"), 1);
	cr_expect_str_eq(output, "spanprof-report: no slow requests found; a program writes them "
				 "into its folder with SPANPROF_SLOW\n");
	/* Without --slowest, files of slow roots are no profiles. */
	add_root(A, "checkout", 0, 400, MEDIAN_32);
	write_roots(SLOW);
	must_report("--json");
	/* The paths may be files instead of a folder. */
	cr_expect_eq(report_run((const char *const[]){"--slowest", in_scratch(SLOW),
						      in_scratch("c.pb"), NULL},
				output, sizeof(output)),
		     0, "%s", output);
	expect_printed("1 slow request of 1 name, 1 profile");
	cr_expect_eq(report_run((const char *const[]){"--slowest", in_scratch("none"), NULL},
				output, sizeof(output)),
		     2);
}

/* Damaged files */

#define SPAN_OF(rest)                                                                              \
	"{\"resourceSpans\":[{\"scopeSpans\":[{\"scope\":{\"name\":\"spanprof\"},\"spans\":["      \
	"{" rest "}]}]}]}"
#define IDS "\"traceId\":\"" TRACE "\",\"spanId\":\"" B "\""

Test(report_slowest, pass_over_a_damaged_file)
{
	static const struct {
		const char *line;
		const char *why;
	} damaged[] = {
		{"no JSON", "a line of it is no object in JSON"},
		{"[]", "a line of it is no object in JSON"},
		{"{\"resourceSpans\":[{\"scopeSpans\"", "a line of it is no object in JSON"},
		{"{} {}", "a line of it is no object in JSON"},
		{"{\"a\":\"\xff\"}", "a line of it is no object in JSON"},
		{SPAN_OF("\"name\":\"x\",\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":\"2\""),
		 "a slow request has no ids"},
		{SPAN_OF("\"traceId\":\"" TRACE "\",\"spanId\":\"bb\",\"startTimeUnixNano\":\"1\","
			 "\"endTimeUnixNano\":\"2\""),
		 "a slow request has no ids"},
		{SPAN_OF("\"traceId\":\"" TRACE "00\",\"spanId\":\"" B "\","
			 "\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":\"2\""),
		 "a slow request has no ids"},
		{SPAN_OF("\"traceId\":\"" TRACE "\",\"spanId\":\"00000000000000bg\","
			 "\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":\"2\""),
		 "a slow request has no ids"},
		{SPAN_OF(IDS), "a slow request has no times"},
		{SPAN_OF(IDS ",\"startTimeUnixNano\":\"2\",\"endTimeUnixNano\":\"1\""),
		 "a slow request has no times"},
		{SPAN_OF(IDS ",\"startTimeUnixNano\":-1,\"endTimeUnixNano\":\"1\""),
		 "a slow request has no times"},
		{SPAN_OF(IDS ",\"startTimeUnixNano\":\"-1\",\"endTimeUnixNano\":\"1\""),
		 "a slow request has no times"},
		{SPAN_OF(IDS ",\"startTimeUnixNano\":\"1x\",\"endTimeUnixNano\":\"1\""),
		 "a slow request has no times"},
		{SPAN_OF(IDS ",\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":"
			     "\"9223372036854775808\""),
		 "a slow request has no times"},
	};
	char wanted[512];

	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		add_root(A, "checkout", 0, 400, MEDIAN_32);
		write_roots(SLOW);
		/* Roots before the bad line are not shown either. */
		add_root(C, "checkout", 0, 500, MEDIAN_32);
		add_text("%s\n", damaged[i].line);
		write_roots("bad.otlp.jsonl");
		cr_expect_eq(run_scratch("--slowest"), 2, "%s: %s", damaged[i].line, output);
		(void)snprintf(wanted, sizeof(wanted), "spanprof-report: %s: %s\n",
			       in_scratch("bad.otlp.jsonl"), damaged[i].why);
		cr_expect(printed(wanted), "%s: %s", damaged[i].line, output);
		expect_printed("1 slow request of 1 name");
		expect_printed("\npassed over: 1 file\n");
	}
	(void)remove(in_scratch(SLOW));
	cr_expect_eq(run_scratch("--slowest"), 2);
	expect_not_printed("no slow requests found");
}

static void write_line(size_t len, const char *begin, char fill)
{
	char *line = malloc(len + 1);

	memset(line, fill, len);
	memcpy(line, begin, strlen(begin));
	line[len] = '\n';
	(void)scratch_write("big.otlp.jsonl", line, len + 1);
	free(line);
}

Test(report_slowest, bound_what_a_line_takes)
{
	add_root(A, "checkout", 0, 400, MEDIAN_32);
	write_roots(SLOW);
	write_line((5 << 20) + 1, "", 'x');
	cr_expect_eq(run_scratch("--slowest"), 2);
	expect_printed("a line of it is too long\n");
	/* A line of nothing but opening brackets. */
	write_line(5 << 20, "", '[');
	cr_expect_eq(run_scratch("--slowest"), 2);
	expect_printed("a line of it is no object in JSON\n");
	/* A line of blanks counts as empty. */
	write_line(100, "", ' ');
	must_report("--slowest");
}

Test(report_slowest, ignore_what_they_do_not_know)
{
	/*
	 * The file of a collector: other scopes and resources, other kinds of values, other fields.
	 */
	add_text("\r\n{\"resourceLogs\":[]}\r\n{\"resourceSpans\":7}\n"
		 "{\"resourceSpans\":[7,{\"resource\":[],\"scopeSpans\":[7,{\"scope\":{\"name\":"
		 "\"mine\"},"
		 "\"spans\":[{\"spanId\":\"x\"}]},{\"spans\":[{\"spanId\":\"x\"}]},"
		 "{\"scope\":{\"name\":\"spanprof\",\"version\":\"1\"}}]}],\"other\":{}}\n");
	add_text(
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[7,{\"key\":7},{\"key\":"
		"\"service.name\",\"value\":{\"intValue\":7}}]},\"scopeSpans\":[{\"scope\":{"
		"\"name\":"
		"\"spanprof\"},\"spans\":[{\"traceId\":\"" TRACE
		"\",\"spanId\":\"00000000000000AA\","
		"\"name\":\"tab\\there\",\"startTimeUnixNano\":1000000000000000000,"
		"\"endTimeUnixNano\":1000000000400000000,\"attributes\":["
		"{\"key\":\"spanprof.cpu_time_ns\",\"value\":{\"stringValue\":\"1\"}},"
		"{\"key\":\"spanprof.off_cpu_time_ns\",\"value\":{\"intValue\":-5}},"
		"{\"key\":\"spanprof.roots.count\",\"value\":{\"intValue\":5}},"
		"{\"key\":\"spanprof.duration.p50_ns\",\"value\":{\"intValue\":100000000}},"
		"{\"key\":\"http.route\",\"value\":{\"stringValue\":\"/\"}}],\"status\":{}}]}]}]}");
	write_roots(SLOW);
	must_report("--slowest");
	expect_printed(
		"  1  01:46:40.000    400 ms    300 ms         -         -         -         -"
		"  tab here\n");
	expect_printed("        5         -         1    100 ms         -         -         -      "
		       "   -  tab "
		       "here\n");
	expect_printed("span " A ", trace");
}

/* A sum that overflows is an error. */
Test(report_slowest, do_not_add_up_more_than_fits)
{
	const struct report_stack huge[] = {
		{sleeping, 3, A, "checkout", TRACE, 1, INT64_MAX, NULL, NULL},
		{recv_tcp, 3, A, "checkout", TRACE, 1, INT64_MAX, NULL, NULL},
		{held, 4, A, "checkout", TRACE, 1, INT64_MAX, NULL, NULL},
	};

	add_root(A, "checkout", 0, 400, MEDIAN_32);
	write_roots(SLOW);
	write_type("o.pb", SP_PROFILE_OFF_CPU, huge, 3);
	cr_expect_eq(run_scratch("--slowest"), 2);
	expect_printed("its values are too large to be summed up\n");
}

Test(report_slowest, keep_ids_that_are_read)
{
	uint64_t id;

	cr_expect(sp_report_id_read("00000000000000Ff", &id));
	cr_expect_eq(id, 255);
	cr_expect(sp_report_id_read("ffffffffffffffff", &id));
	cr_expect_eq(id, UINT64_MAX);
	cr_expect_not(sp_report_id_read("00000000000000f", &id));
	cr_expect_not(sp_report_id_read("00000000000000fff", &id));
	cr_expect_not(sp_report_id_read("", &id));
}
