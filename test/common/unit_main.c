/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the tests that Criterion's macros define, in place of Criterion's own main().
 *
 * Criterion's main() has several threads when it forks. AddressSanitizer's runtime of gcc 12 does not take its
 * allocator's locks around fork(). So a child that is forked while another thread holds a lock waits for the lock for
 * ever, before its test begins. Here the forking process has one thread, which is checked, and every test is a child
 * of it.
 *
 *	program [--tap=FILE] [--jobs N] [--filter PATTERN] [--list]
 *
 * PATTERN is a shell pattern of suite/name. Results go to FILE, or to the standard output, as TAP, one
 * line when a test ends.
 */
#include "test/common/unit_main.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The time limit of a test that names none, and whose suite names none. */
#define TIMEOUT_DEFAULT_S 120
#define JOBS_MAX 64
#define REASON_MAX 128
#define NS_PER_S 1000000000LL

/* A test that runs. */
struct run {
	pid_t pid;
	struct unit_item item;
	long long began_ns;
	long long deadline_ns;
	bool timed_out;
	struct unit_record *record;
};

/* Sections of pointers, which the linker puts between these names. */
extern struct criterion_test *__start_cr_tst[];
extern struct criterion_test *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

static const char *filter = "*";
static int tap = STDOUT_FILENO;
static sigset_t mask_at_start;

const struct criterion_suite *unit_suite(const struct criterion_test *test)
{
	for (struct criterion_suite **s = __start_cr_sts; s < __stop_cr_sts; s++) {
		if (*s != NULL && (*s)->data != NULL && strcmp((*s)->name, test->category) == 0)
			return *s;
	}
	return NULL;
}

static long long now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void die(const char *why)
{
	(void)fprintf(stderr, "unit_main: %s\n", why);
	exit(EXIT_FAILURE);
}

/* Moves on to the next selected test, or the next parameter of this one; false after the last. */
static bool item_next(struct unit_item *item)
{
	char path[256];

	if (item->params.params != NULL && ++item->param < item->params.length)
		return true;
	for (;;) {
		const struct criterion_test *test;

		item->test = item->test == NULL ? __start_cr_tst : item->test + 1;
		if (item->test >= __stop_cr_tst)
			return false;
		test = *item->test;

		if (test == NULL || *test->name == '\0')
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", test->category, test->name);
		if (fnmatch(filter, path, 0) != 0)
			continue;
		memset(&item->params, 0, sizeof(item->params));
		item->param = 0;
		if (test->data->param_ == NULL)
			return true;
		item->params = test->data->param_();
		if (item->params.length > 0)
			return true;
	}
}

static bool item_disabled(const struct unit_item *item)
{
	const struct criterion_suite *suite = unit_suite(*item->test);

	return (*item->test)->data->disabled || (suite != NULL && suite->data->disabled);
}

static void item_name(const struct unit_item *item, char *name, size_t size)
{
	const struct criterion_test *test = *item->test;

	if (item->params.params != NULL)
		(void)snprintf(name, size, "%s::%s[%zu]", test->category, test->name, item->param);
	else
		(void)snprintf(name, size, "%s::%s", test->category, test->name);
}

/* If the machine is TEST_PATIENCE times as slow as others (test/run.sh), the limit is that many times as long. */
static double item_timeout_s(const struct unit_item *item)
{
	const struct criterion_suite *suite = unit_suite(*item->test);
	const char *patience = getenv("TEST_PATIENCE");
	double factor = patience != NULL ? strtod(patience, NULL) : 1;
	double limit = TIMEOUT_DEFAULT_S;

	if ((*item->test)->data->timeout > 0)
		limit = (*item->test)->data->timeout;
	else if (suite != NULL && suite->data->timeout > 0)
		limit = suite->data->timeout;
	return factor > 1 ? factor * limit : limit;
}

static void run_start(struct run *run, const struct unit_item *item)
{
	if (!__libc_single_threaded)
		die("there is a second thread, whose locks a forked test would find taken");
	memset(run->record, 0, sizeof(*run->record));
	run->item = *item;
	run->timed_out = false;
	run->began_ns = now_ns();
	run->deadline_ns = run->began_ns + (long long)(item_timeout_s(item) * (double)NS_PER_S);
	run->pid = fork();
	if (run->pid < 0)
		die("fork failed");
	if (run->pid > 0)
		return;
	(void)sigprocmask(SIG_SETMASK, &mask_at_start, NULL);
	if (tap != STDOUT_FILENO)
		close(tap);
	unit_body_run(&run->item, run->record);
}

/* The reason for which a test with this end has failed; empty if it has passed. */
static void judge(const struct run *run, int status, char reason[REASON_MAX])
{
	const struct criterion_test_extra_data *data = (*run->item.test)->data;
	unsigned int failed = atomic_load(&run->record->failed);
	int end = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	*reason = '\0';
	if (run->timed_out)
		(void)snprintf(reason, REASON_MAX, "timed out");
	else if (failed > 0)
		(void)snprintf(reason, REASON_MAX, "%u of %u assertions failed", failed,
			       failed + atomic_load(&run->record->passed));
	else if (end != data->signal)
		(void)snprintf(reason, REASON_MAX,
			       "ended by signal %d, not %d, after %u assertions", end, data->signal,
			       atomic_load(&run->record->passed));
	else if (end == 0 && WEXITSTATUS(status) != data->exit_code)
		(void)snprintf(reason, REASON_MAX, "exit status %d, not %d", WEXITSTATUS(status),
			       data->exit_code);
	else if (end == 0 && data->exit_code == 0 &&
		 atomic_load(&run->record->phase) != UNIT_AT_END &&
		 atomic_load(&run->record->skipped) == 0)
		(void)snprintf(reason, REASON_MAX, "the process ended before the test");
}

/* Indented, so that no line of a test's own output looks like a result. */
static void print_text(char *text)
{
	char *next;

	for (char *line = strtok_r(text, "\n", &next); line != NULL;
	     line = strtok_r(NULL, "\n", &next))
		dprintf(tap, "  %s\n", line);
}

/* Prints the line of a test that has ended, and returns whether it has failed. */
static bool run_finish(struct run *run, int status)
{
	double seconds = (double)(now_ns() - run->began_ns) / (double)NS_PER_S;
	char reason[REASON_MAX];
	char name[256];

	judge(run, status, reason);
	item_name(&run->item, name, sizeof(name));
	run->pid = 0;
	run->record->text[UNIT_TEXT_MAX - 1] = '\0';
	if (*reason != '\0') {
		dprintf(tap, "not ok - %s %s (%.2fs)\n", name, reason, seconds);
		print_text(run->record->text);
	} else if (atomic_load(&run->record->skipped) != 0)
		dprintf(tap, "ok - %s # SKIP %s (%.2fs)\n", name, run->record->text, seconds);
	else
		dprintf(tap, "ok - %s  (%.2fs)\n", name, seconds);
	return *reason != '\0';
}

/* Waits for a child to end or a time limit to pass. SIGCHLD is blocked, so none is missed. */
static void wait_for_change(struct run *runs, int jobs)
{
	long long deadline = now_ns() + NS_PER_S;
	struct timespec rest = {0};
	sigset_t child;

	for (int i = 0; i < jobs; i++) {
		if (runs[i].pid > 0 && !runs[i].timed_out && runs[i].deadline_ns < deadline)
			deadline = runs[i].deadline_ns;
	}
	deadline -= now_ns();
	if (deadline > 0)
		rest = (struct timespec){deadline / NS_PER_S, deadline % NS_PER_S};
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigtimedwait(&child, NULL, &rest);
	for (int i = 0; i < jobs; i++) {
		if (runs[i].pid > 0 && !runs[i].timed_out && now_ns() >= runs[i].deadline_ns) {
			runs[i].timed_out = true;
			(void)kill(runs[i].pid, SIGKILL);
		}
	}
}

/* The number of tests that failed. */
static int run_all(struct run *runs, int jobs)
{
	struct unit_item item = {0};
	bool more = item_next(&item);
	int running = 0;
	int failed = 0;
	int status;

	while (more || running > 0) {
		for (int i = 0; i < jobs && more; i++) {
			if (runs[i].pid > 0)
				continue;
			if (item_disabled(&item)) {
				dprintf(tap, "ok - %s::%s # SKIP disabled (0.00s)\n",
					(*item.test)->category, (*item.test)->name);
			} else {
				run_start(&runs[i], &item);
				running++;
			}
			more = item_next(&item);
		}
		for (int i = 0; i < jobs; i++) {
			if (runs[i].pid > 0 &&
			    waitpid(runs[i].pid, &status, WNOHANG) == runs[i].pid) {
				failed += run_finish(&runs[i], status);
				running--;
			}
		}
		if (running == jobs || (running > 0 && !more))
			wait_for_change(runs, jobs);
	}
	return failed;
}

static int options_read(int argc, char **argv, bool *list)
{
	static const struct option options[] = {{"tap", required_argument, NULL, 't'},
						{"jobs", required_argument, NULL, 'j'},
						{"filter", required_argument, NULL, 'f'},
						{"list", no_argument, NULL, 'l'},
						{NULL, 0, NULL, 0}};
	int jobs = 1;
	int c;

	while ((c = getopt_long(argc, argv, "j:", options, NULL)) != -1) {
		switch (c) {
		case 't':
			tap = open(optarg, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
			if (tap < 0)
				die("cannot write the results");
			break;
		case 'j':
			jobs = atoi(optarg);
			break;
		case 'f':
			filter = optarg;
			break;
		case 'l':
			*list = true;
			break;
		default:
			exit(2);
		}
	}
	return jobs < 1 ? 1 : jobs > JOBS_MAX ? JOBS_MAX : jobs;
}

int main(int argc, char **argv)
{
	static struct run runs[JOBS_MAX];
	struct unit_item item = {0};
	bool list = false;
	int jobs = options_read(argc, argv, &list);
	int planned = 0;
	int failed;
	sigset_t child;
	char name[256];

	while (item_next(&item)) {
		item_name(&item, name, sizeof(name));
		if (list)
			(void)puts(name);
		planned++;
	}
	if (list)
		return EXIT_SUCCESS;
	if (planned == 0)
		die("there is no such test");
	dprintf(tap, "TAP version 13\n1..%d\n", planned);
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &child, &mask_at_start);
	for (int i = 0; i < jobs; i++) {
		runs[i].record = mmap(NULL, sizeof(struct unit_record), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (runs[i].record == MAP_FAILED)
			die("no memory");
	}
	failed = run_all(runs, jobs);
	(void)fprintf(stderr, "%d tests, %d failed\n", planned, failed);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
