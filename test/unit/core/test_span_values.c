/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of attributes that become labels: which values reach the ring, for which span, and which are counted as
 * lost.
 */
#include "sampler/span/span_values.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "sampler/region/ring.h"
#include "span_host.h"

#define RING 16384

static _Alignas(4096) char memory[SP_RING_BYTES(RING)];
static struct sp_channel channel;
static struct sp_ring consumer;
static struct sp_span_values got[64];
static unsigned n;

static void start(void)
{
	set_up();
	cr_assert_eq(sp_span_values_init("http.route, db.statement,n", false), 0);
	cr_assert_eq(sp_ring_at(&channel.ring, memory, sizeof(memory)), 0);
	cr_assert_eq(sp_ring_at(&consumer, memory, sizeof(memory)), 0);
	atomic_store(&sp_channel_open, &channel);
}

TestSuite(span_values, .init = start, .timeout = 20);

static void keep(const struct sp_record *record, void *arg)
{
	(void)arg;
	cr_assert_eq(record->kind, SP_RECORD_SPAN_VALUES);
	cr_assert_lt(n, SP_ARRAY_LEN(got));
	got[n++] = record->span_values;
}

static void drain(void)
{
	n = 0;
	while (sp_ring_drain(&consumer, keep, NULL, 16) != 0)
		;
	cr_assert_eq(consumer.damaged, 0);
}

static struct sp_span_record record_of(uint64_t id)
{
	struct sp_span_record r;

	cr_assert(sp_span_of(handle_of(id), &r));
	return r;
}

static void set(uint64_t id, const char *key, const char *text)
{
	struct sp_span_record r = record_of(id);

	sp_span_values_set(&r, sp_span_values_key(key, strlen(key)), SP_SPAN_VALUE_TEXT, text,
			   strlen(text));
}

static void set_number(uint64_t id, const char *key, int64_t number)
{
	struct sp_span_record r = record_of(id);

	sp_span_values_set(&r, sp_span_values_key(key, strlen(key)), SP_SPAN_VALUE_INT64, &number,
			   sizeof(number));
}

static void sample(uint64_t id)
{
	struct sp_span_record r = record_of(id);

	sp_span_values_mark(r.root_ref, r.root_id);
}

static void finish(uint64_t id)
{
	struct sp_span_record r = record_of(id);

	cr_assert(sp_span_close(&r));
	sp_span_values_end(&r);
	sp_span_table_release(&r);
}

/* Checks the only record. */
static void expect(unsigned key, enum sp_span_value_type type, const void *value, size_t bytes)
{
	size_t at = 0;

	cr_assert_eq(n, 1, "%u records", n);
	for (unsigned i = 0; i < key; i++)
		at += SP_SPAN_VALUE_PADDED(got[0].value[i].bytes);
	cr_expect_eq(got[0].value[key].type, type);
	cr_assert_eq(got[0].value[key].bytes, bytes, "%u bytes", got[0].value[key].bytes);
	cr_expect_eq(memcmp(got[0].bytes + at, value, bytes), 0);
}

Test(span_values, knows_its_keys_and_no_others)
{
	cr_expect_eq(sp_span_values_key("http.route", 10), 0);
	cr_expect_eq(sp_span_values_key("db.statement", 12), 1);
	cr_expect_eq(sp_span_values_key("n", 1), 2);
	cr_expect_eq(sp_span_values_key("http.routes", 10), 0);
	cr_expect_eq(sp_span_values_key("http.routes", 11), SP_SPAN_KEY_NONE);
	cr_expect_eq(sp_span_values_key("http.rouTe", 10), SP_SPAN_KEY_NONE);
	cr_expect_eq(sp_span_values_key("", 0), SP_SPAN_KEY_NONE);
}

/* A record has room for four values. */
Test(span_values_keys, are_four_at_the_most, .timeout = 20)
{
	set_up();
	cr_assert_eq(sp_span_values_init("a,b,c,d,e", false), 0);
	cr_expect_eq(sp_span_keys_wanted.n, 4);
	cr_expect_eq(sp_span_values_key("d", 1), 3);
	cr_expect_eq(sp_span_values_key("e", 1), SP_SPAN_KEY_NONE);
}

Test(span_values, of_a_root_go_when_it_ends_and_the_last_ones_count)
{
	int64_t number = -7;

	cr_assert(begin(1));
	sample(1);
	set(1, "http.route", "/a");
	set(1, "http.route", "/orders/{id}");
	set_number(1, "n", number);
	drain();
	cr_expect_eq(n, 0, "it is still open");
	finish(1);
	drain();

	expect(0, SP_SPAN_VALUE_TEXT, "/orders/{id}", 12);
	expect(1, SP_SPAN_VALUE_NONE, "", 0);
	expect(2, SP_SPAN_VALUE_INT64, &number, 8);
	cr_expect_eq(got[0].root_id, 1);
}

Test(span_values, of_a_child_are_ignored_and_its_samples_are_the_roots)
{
	cr_assert(begin(1));
	cr_assert(begin_under(2, 1));
	set(1, "n", "root");
	set(2, "n", "child");
	sample(2);
	finish(2);
	drain();
	cr_expect_eq(n, 0);
	finish(1);
	drain();

	expect(2, SP_SPAN_VALUE_TEXT, "root", 4);
}

Test(span_values, of_a_span_without_a_sample_stay)
{
	cr_assert(begin(1));
	set(1, "n", "x");
	finish(1);
	cr_assert(begin(2));
	sample(2);
	finish(2);
	drain();

	cr_expect_eq(n, 0, "the second one has none, whatever was in its place before");
	cr_expect_eq(sp_count_read(SP_COUNT_SPAN_VALUES), 0);
}

/* A thread has looked the span up before its end, and continues only now. */
Test(span_values, set_after_the_end_are_of_no_later_span)
{
	struct sp_span_record ended;

	cr_assert(begin(1));
	ended = record_of(1);
	finish(1);
	cr_assert(begin(2));
	cr_assert_eq(record_of(2).ref & SP_SPAN_NUMBER_MASK, ended.ref & SP_SPAN_NUMBER_MASK,
		     "the test needs the same place");
	sample(2);
	sp_span_values_set(&ended, 2, SP_SPAN_VALUE_TEXT, "late", 4);
	finish(2);
	drain();

	cr_expect_eq(n, 0);
}

Test(span_values, are_cut_between_two_characters)
{
	char text[SP_SPAN_VALUE_BYTES + 10];

	memset(text, 'x', sizeof(text));
	memcpy(text + SP_SPAN_VALUE_BYTES - 1, "\xc3\xa9", 3);
	cr_assert(begin(1));
	sample(1);
	set(1, "n", text);
	finish(1);
	drain();

	expect(2, SP_SPAN_VALUE_TEXT, text, SP_SPAN_VALUE_BYTES - 1);
}

Test(span_values, that_are_removed_are_none)
{
	struct sp_span_record r;

	cr_assert(begin(1));
	sample(1);
	set(1, "n", "x");
	set(1, "n", "");
	set(1, "http.route", "/a");
	r = record_of(1);
	sp_span_values_set(&r, 0, SP_SPAN_VALUE_NONE, NULL, 0);
	finish(1);
	drain();

	cr_expect_eq(n, 0);
}

Test(span_values, take_no_more_than_a_record_has)
{
	char text[1000];

	memset(text, 'y', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	cr_assert(begin(1));
	sample(1);
	set(1, "http.route", text);
	set(1, "db.statement", text);
	set(1, "n", text);
	finish(1);
	drain();

	for (unsigned key = 0; key < 3; key++)
		expect(key, SP_SPAN_VALUE_TEXT, text, SP_SPAN_VALUE_BYTES);
}

/* One record more than the ring holds, and many more. */
Test(span_values, that_find_no_room_are_counted)
{
	char text[SP_SPAN_VALUE_BYTES + 1];
	unsigned drained;

	memset(text, 'z', sizeof(text));
	text[SP_SPAN_VALUE_BYTES] = '\0';
	for (uint64_t id = 1; id <= 200; id++) {
		cr_assert(begin(id));
		sample(id);
		set(id, "n", text);
		finish(id);
	}
	drain();
	drained = n;

	cr_expect_eq(sp_count_read(SP_COUNT_SPAN_VALUES), 200);
	cr_expect_gt(drained, 10);
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_SPAN_VALUES), 200 - drained);
}

static void *set_often(void *arg)
{
	const struct sp_span_record *r = arg;
	char text[200];

	for (unsigned i = 0; i < 20000; i++) {
		memset(text, 'a' + (int)(i % 26), sizeof(text));
		sp_span_values_set(r, 1, SP_SPAN_VALUE_TEXT, text, sizeof(text));
	}
	return NULL;
}

/* Two threads set the same attribute of the same span. The value is that of one thread, and no mixture. */
Test(span_values, of_two_threads_are_whole)
{
	struct sp_span_record r;
	pthread_t thread[2];

	cr_assert(begin(1));
	sample(1);
	r = record_of(1);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, set_often, &r), 0);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(thread[i], NULL), 0);
	finish(1);
	drain();

	cr_assert_eq(n, 1);
	cr_assert_eq(got[0].value[1].bytes, 200);
	for (unsigned i = 1; i < 200; i++)
		cr_assert_eq(got[0].bytes[i], got[0].bytes[0]);
}

static _Atomic bool is_over;

static void *set_again_and_again(void *arg)
{
	struct sp_span_record *r = arg;

	while (!atomic_load(&is_over))
		sp_span_values_set(r, 0, SP_SPAN_VALUE_TEXT, "/api/v1/customers/{id}/orders", 29);
	return NULL;
}

static bool root_has_its_value(uint64_t id)
{
	uint64_t before = sp_count_read(SP_COUNT_SPAN_VALUES);

	begin_scoped(id);
	set(id, "http.route", "/x");
	sample(id);
	finish(id);
	return sp_count_read(SP_COUNT_SPAN_VALUES) != before;
}

/* The thread does not exist in the child, so it never gives the entry back there. */
Test(span_values, of_a_forked_child_do_not_depend_on_a_thread_that_was_setting_one)
{
	struct sp_span_record r;
	pthread_t thread;
	int status;

	begin_scoped(1);
	r = record_of(1);
	cr_assert_eq(pthread_create(&thread, NULL, set_again_and_again, &r), 0);
	for (unsigned i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			sp_process_forked();
			sp_thread_own = NULL;
			sp_span_spare_own = NULL;
			sp_span_forked(sp_thread_forked());
			for (uint64_t id = 100; id < 110; id++)
				if (!root_has_its_value(id))
					_exit(1);
			_exit(0);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_expect_eq(status, 0, "child %u", i);
	}
	atomic_store(&is_over, true);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}
