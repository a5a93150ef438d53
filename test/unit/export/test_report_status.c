/* SPDX-License-Identifier: Apache-2.0 */
/* The output of spanprof-report --status for a status file. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "report_unit.h"
#include "test/unit/scratch.h"

TestSuite(report_status, .init = scratch_make, .fini = scratch_remove);

static const char *status_file(const char *content)
{
	return scratch_write("status", content, strlen(content));
}

static int status_of(const char *path)
{
	return report_run((const char *const[]){"--status", path, NULL}, output, sizeof(output));
}

Test(report_status, is_explained, .timeout = 20)
{
	const char *path = status_file(
		"{\"version\":\"1\",\"pid\":7,\"service\":\"shop\",\"state\":\"active\","
		"\"sdks\":[{\"name\":\"an-sdk\",\"release\":\"1.2\",\"method\":\"functions\","
		"\"object\":\"/a/b\","
		"\"instances\":3,\"spans_started\":3,"
		"\"not_understood\":[{\"fact\":\"a thing\",\"instead\":\"another way\"}]}],"
		"\"problems\":[{\"text\":\"a thing \\n is wrong\",\"remedy\":\"do "
		"this\"},{\"text\":\"another\",\"remedy\":null},7],"
		"\"signal\":\"RTMIN+27\",\"threads\":{\"armed\":4,\"unarmed\":9,\"blocking_"
		"signal\":3,\"over_limit\":5,"
		"\"refused\":0},"
		"\"samples\":{\"put\":10,\"drained\":10,\"with_span\":0,\"without_span\":10},"
		"\"spans\":{\"started\":3,\"ended\":2,\"open\":1,\"aged\":0},"
		"\"thread_context\":\"published\","
		"\"loss\":{\"dropped_ring_full\":0,\"files_failed\":2,\"new_reason\":1},"
		"\"push\":{\"address\":\"http://p\",\"last_status\":401,"
		"\"last_error\":\"status 401: \\u001b[31mwho?\",\"last_success_unix_ms\":null,"
		"\"attempts\":5,\"server_time_skew_ms\":7200000}}");

	cr_expect_eq(status_of(path), 0);

	cr_expect(printed("shop, process 7, spanprof 1, written 0 s ago") ||
		  printed("shop, process 7, spanprof 1, written 1 s ago"));
	expect_printed("active: samples are taken");
	expect_printed("an-sdk, release 1.2: 3 spans, seen by its functions, in /a/b and 2 more\n"
		       "          not understood: a thing; another way\n");
	expect_printed("threads   4 sampled by RTMIN+27, 9 not: 5 over half of "
		       "RLIMIT_SIGPENDING\n");
	expect_printed("active: samples are taken\n"
		       "WRONG     a thing   is wrong\n"
		       "          change: do this\n"
		       "WRONG     another\n");
	expect_printed("0 in spans, 10 outside\n");
	expect_printed("context   published: ");
	expect_printed("lost      2 profiles could not be written into SPANPROF_OUTPUT_DIR");
	expect_printed("lost      1 new_reason");
	expect_not_printed("ring full");
	expect_printed("to http://p, 5 tries, nothing was sent");
	expect_printed("the last try failed: status 401:  [31mwho?");
}

Test(report_status, shows_each_of_several_servers, .timeout = 20)
{
	const char *path = status_file(
		"{\"version\":\"1\",\"pid\":7,\"samples\":{},"
		"\"push\":{\"address\":\"http://p\",\"attempts\":5},"
		"\"pushes\":[{\"address\":\"http://p\",\"attempts\":5,\"last_error\":\"status "
		"503\","
		"\"last_success_unix_ms\":null,\"samples_sent\":0,\"samples_lost\":9,"
		"\"waits_sent\":1,\"waits_lost\":2},"
		"{\"address\":\"http://q\\u001b\",\"attempts\":6,\"samples_sent\":8},3]}");

	cr_expect_eq(status_of(path), 0);

	expect_printed("push      to http://p, 5 tries, nothing was sent\n"
		       "          the last try failed: status 503\n"
		       "          samples sent there: 0, lost: 9; waits sent: 1, lost: 2\n"
		       "push      to http://q , 6 tries, nothing was sent\n"
		       "          samples sent there: 8, lost: 0; waits sent: 0, lost: 0\n"
		       "push      to ?, 0 tries, nothing was sent\n");
}

/* A reader who adds up the numbers gets all that was lost, and nothing twice. */
Test(report_status, counts_each_lost_sample_in_one_line, .timeout = 20)
{
	const char *path =
		status_file("{\"version\":\"1\",\"pid\":7,\"samples\":{},"
			    "\"loss\":{\"dropped_ring_full\":10,\"dropped_ring_full_for_object\":4,"
			    "\"dropped_ring_full_for_allocations\":3,\"stacks_over_limit\":100,"
			    "\"span_labels_over_limit\":200,\"samples_in_lost_batches\":5}}");

	cr_expect_eq(status_of(path), 0);

	expect_printed(
		"lost      10 samples found no room in the ring buffer\n"
		"          4 of the samples that found no room were in an object for whose name "
		"the ring buffer had no room\n"
		"          3 of the samples that found no room were of allocations\n"
		"lost      5 samples were in lost profiles, or in none yet when the exporter or "
		"the process ended\n"
		"reduced   100 samples are in (other): too many different stacks in one "
		"interval\n"
		"reduced   200 samples have no label: too many spans in one interval\n");
}

Test(report_status, says_that_nothing_is_lost_where_labels_are, .timeout = 20)
{
	const char *path = status_file("{\"version\":\"1\",\"pid\":7,\"samples\":{},"
				       "\"loss\":{\"span_names_over_limit\":1}}");

	cr_expect_eq(status_of(path), 0);

	expect_printed("lost      nothing\nreduced   1 span is called (other)\n");
}

Test(report_status, shows_each_of_many_problems, .timeout = 20)
{
	char text[4096] = "{\"version\":\"1\",\"pid\":7,\"samples\":{},\"problems\":[";

	for (unsigned i = 0; i < 40; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
			       "{\"text\":\"thing %u\"},", i);
	(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "{\"text\":\"end\"}]}");

	cr_expect_eq(status_of(status_file(text)), 0);

	expect_printed("WRONG     thing 0\n");
	expect_printed("WRONG     thing 39\nWRONG     end\n");
}

/* The exporter has the status in a memory file; the test stands for both processes. */
Test(report_status, of_a_process_is_in_the_memory_of_its_exporter, .timeout = 20)
{
	static const char *const names[] = {"spanprof-export", "somebody-else"};
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	cr_expect_eq(status_of(pid), 2);
	expect_printed("the process has no exporter");
	for (size_t i = 0; i < 2; i++) {
		int ready[2], done[2];
		pid_t child;
		char byte;

		cr_assert(pipe(ready) == 0 && pipe(done) == 0);
		child = fork();
		if (child == 0) {
			char file[64];
			int fd;

			(void)snprintf(file, sizeof(file), "spanprof-status-%s", pid);
			fd = memfd_create(file, MFD_CLOEXEC);
			prctl(PR_SET_NAME, names[i], 0, 0, 0);
			dprintf(fd, "{\"version\":\"1\",\"pid\":%s,\"samples\":{}}", pid);
			close(done[1]);
			(void)!write(ready[1], "x", 1);
			(void)!read(done[0], &byte, 1);
			_exit(0);
		}
		close(done[0]);
		cr_assert_eq(read(ready[0], &byte, 1), 1);
		cr_expect_eq(status_of(pid), i == 0 ? 0 : 2);
		expect_printed(i == 0 ? "spanprof 1, written" : "the process has no exporter");
		close(done[1]);
		cr_assert_eq(waitpid(child, NULL, 0), child);
	}
	cr_expect_eq(status_of("4000000000"), 2);
	expect_printed("there is no such process");
}

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return done;
}

/* Gets a mount namespace of its own, in which it may mount. */
static bool be_root_of_its_own(void)
{
	char user[32], group[32];

	(void)snprintf(user, sizeof(user), "0 %u 1", (unsigned)geteuid());
	(void)snprintf(group, sizeof(group), "0 %u 1", (unsigned)getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", user) && put("/proc/self/gid_map", group);
}

/* The path of a file in a file system that is not mounted any more looks like that of a memory file. */
static void pretend(const char *pid, int ready, int done)
{
	char path[sizeof(scratch) + 64];
	int fd;

	prctl(PR_SET_NAME, "spanprof-export", 0, 0, 0);
	if (!be_root_of_its_own() || mount("none", scratch, "tmpfs", 0, NULL) != 0)
		_exit(1);
	(void)snprintf(path, sizeof(path), "%s/memfd:spanprof-status-%s (deleted)", scratch, pid);
	if (mkfifo(path, 0600) != 0 || (fd = open(path, O_RDWR)) < 0 ||
	    umount2(scratch, MNT_DETACH) != 0)
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	(void)!write(ready, &fd, sizeof(fd));
	(void)!read(done, &fd, 1);
	_exit(0);
}

/* Opening a device may have an effect, and a terminal could become the report's controlling terminal. */
Test(report_status, of_a_process_opens_no_other_file_of_that_name, .timeout = 20)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct inotify_event event;
	char pid[16], path[64];
	int ready[2], done[2];
	pid_t child;
	int fd;

	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	cr_assert(pipe(ready) == 0 && pipe(done) == 0);
	child = fork();
	if (child == 0) {
		close(done[1]);
		pretend(pid, ready[1], done[0]);
	}
	close(ready[1]);
	if (read(ready[0], &fd, sizeof(fd)) != sizeof(fd))
		cr_skip_test("no file system can be mounted here");
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)child, fd);
	cr_assert_geq(inotify_add_watch(watch, path, IN_OPEN), 0);

	cr_expect_eq(status_of(pid), 2);

	expect_printed("the process has no exporter");
	cr_expect_eq(read(watch, &event, sizeof(event)), -1, "it was opened");
	close(done[1]);
	cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(report_status, of_this_moment_is_not_of_the_future, .timeout = 20)
{
	const char *path = status_file("{\"version\":\"1\",\"pid\":7,\"samples\":{\"put\":0}}");
	struct timespec begin, now;

	(void)clock_gettime(CLOCK_REALTIME, &begin);
	do
		(void)clock_gettime(CLOCK_REALTIME, &now);
	while (now.tv_sec == begin.tv_sec);
	cr_assert_eq(utimensat(AT_FDCWD, path, (const struct timespec[]){now, now}, 0), 0);

	cr_expect_eq(status_of(path), 0);

	expect_not_printed("in the future");
}

static void expect_state(unsigned interval_ms, int64_t age_s, const char *words)
{
	struct timespec then;
	const char *path;
	char text[128];

	(void)snprintf(text, sizeof(text),
		       "{\"version\":\"1\",\"pid\":7,\"state\":\"active\","
		       "\"samples\":{\"put\":0},\"upload_interval_ms\":%u}",
		       interval_ms);
	path = status_file(text);

	(void)clock_gettime(CLOCK_REALTIME, &then);
	then.tv_sec -= age_s;
	cr_assert_eq(utimensat(AT_FDCWD, path, (const struct timespec[]){then, then}, 0), 0);
	cr_expect_eq(status_of(path), 0);
	expect_printed(words);
}

/* A killed exporter cannot write that it is gone. */
Test(report_status, of_an_exporter_that_is_gone_is_not_active, .timeout = 20)
{
	static const char gone[] = "state     unknown: the exporter does not write this file any "
				   "more, it has ended or hangs\n";

	expect_state(15000, 45, "state     active: samples are taken\n");
	expect_state(15000, 120, gone);
	expect_state(300, 120, gone);
}

Test(report_status, that_is_strange_is_one_line, .timeout = 20)
{
	static const char *const strange[] = {"", "[]", "{\"a\":1}", "{\"samples\":", "\xff"};

	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
		cr_expect_eq(status_of(status_file(strange[i])), 2, "%zu", i);
	/* A value of the wrong type is read as missing. */
	cr_expect_eq(status_of(status_file("{\"samples\":1,\"sdks\":{},\"loss\":[1],\"push\":{},"
					   "\"spans\":\"x\",\"threads\":null,\"state\":3}")),
		     0);
	cr_expect_eq(status_of(scratch), 2);
	cr_expect_eq(status_of("/does/not/exist"), 2);
	/* Quoted text cannot control the terminal, and neither can texts of Latin-1. */
	cr_expect_eq(status_of(status_file("{\"samples\":\x1b[2J")), 2);
	expect_not_printed("\x1b");
	cr_expect_eq(status_of(status_file("{\"samples\":1,\"state\":\"\\u009b2J\"}")), 0);
	expect_not_printed("\xc2\x9b");
}

Test(report_status, that_cannot_be_written_is_an_error, .timeout = 20)
{
	report_stdout = "/dev/full";

	cr_expect_eq(status_of(status_file("{\"samples\": {}}")), 2);
	expect_printed("status: cannot write the status\n");
}
