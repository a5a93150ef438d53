/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that Criterion's macros call, in the process of one test. Results go to memory that is shared with
 * the runner: a test may close every descriptor, and its results remain even if a signal ended it. Theories and
 * redirected streams are not supported.
 */
#include "test/common/unit_main.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REASON_MAX 128

static struct unit_record *record;
static const struct unit_item *current;
static const struct criterion_suite *current_suite;
static pid_t current_pid;
static pthread_t current_thread;
static jmp_buf phase_end;

void criterion_skip_test(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void record_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void record_text(const char *format, ...)
{
	char line[1024];
	va_list args;
	size_t length;
	size_t at;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n <= 0)
		return;
	length = (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1;
	at = atomic_fetch_add(&record->used, length);
	if (at < UNIT_TEXT_MAX)
		memcpy(record->text + at, line,
		       length < UNIT_TEXT_MAX - at ? length : UNIT_TEXT_MAX - at);
}

/* Children of the test share the memory, but their phases are not the test's. */
static void phase_set(enum unit_phase phase)
{
	if (getpid() == current_pid)
		atomic_store(&record->phase, (int)phase);
}

static void fixture_call(void (*fixture)(void))
{
	if (fixture != NULL)
		fixture();
}

void criterion_internal_test_setup(void)
{
	if (setjmp(phase_end) != 0)
		exit(EXIT_FAILURE);
	if (current_suite != NULL)
		fixture_call(current_suite->data->init);
	fixture_call((*current->test)->data->init);
}

void criterion_internal_test_main(void (*body)(void))
{
	phase_set(UNIT_IN_BODY);
	if (setjmp(phase_end) == 0) {
		if (current->params.params != NULL)
			((void (*)(void *))body)((char *)current->params.params +
						 current->param * current->params.size);
		else
			body();
	}
	phase_set(UNIT_IN_TEARDOWN);
}

void criterion_internal_test_teardown(void)
{
	if (setjmp(phase_end) == 0) {
		fixture_call((*current->test)->data->fini);
		if (current_suite != NULL)
			fixture_call(current_suite->data->fini);
	}
	phase_set(UNIT_AT_END);
}

void cri_asserts_passed_incr(void)
{
	atomic_fetch_add(&record->passed, 1);
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	atomic_fetch_add(&record->failed, 1);
	record_text("%s:%u: %s\n", stats->file, stats->line, stats->message);
}

/*
 * Only the thread that runs the test can leave it; in another thread the process ends, and the failure stays
 * recorded.
 */
void criterion_abort_test(void)
{
	if (getpid() != current_pid || !pthread_equal(pthread_self(), current_thread))
		_exit(EXIT_FAILURE);
	longjmp(phase_end, 1);
}

void criterion_continue_test(void)
{
}

void criterion_skip_test(const char *format, ...)
{
	char reason[REASON_MAX];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	record_text("%s", reason);
	atomic_store(&record->skipped, 1);
	exit(EXIT_SUCCESS);
}

void unit_body_run(const struct unit_item *item, struct unit_record *shared)
{
	record = shared;
	current = item;
	current_suite = unit_suite(*item->test);
	current_pid = getpid();
	current_thread = pthread_self();
	(*item->test)->test();
	exit(EXIT_SUCCESS);
}
