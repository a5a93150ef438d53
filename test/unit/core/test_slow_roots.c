/* SPDX-License-Identifier: Apache-2.0 */
/* Slow local roots as the host tells them: records in the ring, histograms, counters. */
#include "sampler/span/slow_roots.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "sampler/base/seccomp.h"
#include "sampler/region/ring.h"
#include "sampler/region/root_durations.h"
#include "sampler/span/span_times.h"
#include "sampler/span/span_values.h"
#include "span_host.h"

#define RING 16384

static _Alignas(4096) char memory[SP_RING_BYTES(RING)];
static _Alignas(4096) char names[SP_RING_BYTES(RING)];
static struct sp_channel channel = {.number = 1};
static struct sp_ring consumer;
static struct sp_root_durations *part;
static struct sp_slow_root got[256];
static unsigned n;
static uint64_t mono_ns = 1000 * SP_NS_PER_S;
static uint64_t wall_ns = 5000 * SP_NS_PER_S;

static unsigned readings;

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t ns = id == CLOCK_MONOTONIC ? mono_ns : wall_ns;

	readings += id == CLOCK_MONOTONIC || id == CLOCK_REALTIME;
	if (id != CLOCK_MONOTONIC && id != CLOCK_REALTIME)
		return (int)syscall(SYS_clock_gettime, id, t);
	*t = (struct timespec){(time_t)(ns / SP_NS_PER_S), (long)(ns % SP_NS_PER_S)};
	return 0;
}

static void pass(uint64_t ns)
{
	mono_ns += ns;
	wall_ns += ns;
}

static void open_channel(void)
{
	cr_assert_eq(sp_ring_at(&channel.ring, memory, sizeof(memory)), 0);
	cr_assert_eq(sp_ring_at(&channel.names, names, sizeof(names)), 0);
	cr_assert_eq(sp_ring_at(&consumer, memory, sizeof(memory)), 0);
	atomic_store(&sp_channel_open, &channel);
}

static void start(void)
{
	set_up();
	part = calloc(1, sizeof(*part));
	open_channel();
	cr_assert_eq(sp_slow_roots_init(false), 0);
	sp_root_durations_use(part, sizeof(*part));
}

TestSuite(slow_roots, .init = start, .timeout = 20);

static void keep(const struct sp_record *record, void *arg)
{
	(void)arg;
	cr_assert_eq(record->kind, SP_RECORD_SLOW_ROOT);
	cr_assert_lt(n, SP_ARRAY_LEN(got));
	got[n++] = record->slow_root;
}

static void drain(void)
{
	n = 0;
	while (sp_ring_drain(&consumer, keep, NULL, 16) != 0)
		;
	cr_assert_eq(consumer.damaged, 0);
}

static uint64_t roots(void)
{
	uint64_t sum = 0;

	for (uint32_t place = 0; place < SP_ROOT_PLACES; place++)
		for (uint32_t i = 0; i < SP_DURATION_BUCKETS; i++)
			sum += part->histogram[place].count[i];
	return sum;
}

static void root(uint64_t id, uint64_t ns)
{
	cr_assert(begin(id));
	pass(ns);
	cr_assert(end(id));
}

Test(slow_roots, say_who_they_are_and_how_long_they_have_lasted)
{
	struct sp_span_start s = start_of(0x0807060504030201);

	for (unsigned i = 0; i < 16; i++)
		s.trace_id[i] = (uint8_t)(0xa0 + i);
	pass(5);
	cr_assert(sp_span_started(&s));
	pass(123456789);
	errno = 4711;
	cr_assert(end(0x0807060504030201));
	drain();

	cr_expect_eq(errno, 4711);
	cr_assert_eq(n, 1);
	cr_expect_eq(got[0].span_id, 0x0807060504030201);
	cr_expect_eq(memcmp(got[0].trace_id, s.trace_id, 16), 0);
	cr_expect_eq(got[0].name_id, sp_names_intern("span", 4));
	cr_expect_eq(got[0].duration_ns, 123456789);
	cr_expect_eq(got[0].end_ns, wall_ns);
	cr_expect_eq(got[0].tid, (uint32_t)gettid());
	cr_expect_eq(got[0].place, 0);
	cr_expect_eq(got[0].has, 0, "nobody has asked for its times");
	cr_expect_eq(sp_count_read(SP_COUNT_SLOW_ROOTS), 1);
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_SLOW_ROOTS), 0);
	cr_expect_eq(part->histogram[0].count[sp_duration_bucket(123456789)], 1);
}

/* The name is known to the exporter before the root is. */
Test(slow_roots, tell_their_name_as_it_was_at_the_end)
{
	struct sp_name_record r;
	struct sp_ring ring;
	uint32_t kind;

	cr_assert(begin(1));
	rename_to(1, "GET /orders");
	cr_assert(end(1));
	drain();

	cr_assert_eq(n, 1);
	cr_expect_eq(got[0].name_id, sp_names_intern("GET /orders", 11));
	cr_assert_eq(sp_ring_at(&ring, names, sizeof(names)), 0);
	cr_assert_neq(sp_ring_take(&ring, &kind, &r, sizeof(r)), 0);
	cr_expect_eq(r.head.id, got[0].name_id);
	cr_expect_eq(memcmp(r.text, "GET /orders", 11), 0);
}

Test(slow_roots, are_those_from_the_threshold_on)
{
	root(1, 1000);
	part->name[0].threshold_ns = 5000;
	root(2, 4999);
	root(3, 5000);
	root(4, 900000);
	drain();

	cr_assert_eq(n, 3);
	cr_expect(got[0].span_id == 1 && got[1].span_id == 3 && got[2].span_id == 4);
	cr_expect_eq(roots(), 4);
	cr_expect_eq(sp_count_read(SP_COUNT_SLOW_ROOTS), 3);
}

Test(slow_roots, are_no_children)
{
	cr_assert(begin(1));
	cr_assert(begin_under(2, 1));
	pass(1000);
	cr_assert(end(2));
	drain();
	cr_expect_eq(n, 0);
	cr_expect_eq(roots(), 0);
	cr_assert(end(1));
	drain();
	cr_assert_eq(n, 1);
	cr_expect_eq(got[0].span_id, 1);
}

/* The parent is in another process: it is a root like others. */
Test(slow_roots, may_have_a_remote_parent)
{
	cr_assert(begin_under(2, 0x1234567890));
	pass(77000);
	cr_assert(end(2));
	drain();

	cr_assert_eq(n, 1);
	cr_expect_eq(got[0].span_id, 2);
	cr_expect_eq(got[0].duration_ns, 77000);
}

/* The entry of a span that has ended is at hand, and so the start is the short one. */
Test(slow_roots, that_are_found_by_their_id_are_the_same)
{
	struct sp_span_start s = start_of(7);
	uint32_t ref;

	root(1, 1000);
	s.by_id = true;
	cr_assert_gt(sp_thread_own->spare.n, 0);
	cr_assert(sp_span_started_by_id(&s, sp_span_name("other", 5)));
	pass(4000);
	ref = sp_span_close_by_id(7, handle_of(7));
	cr_assert_neq(ref, 0);
	cr_expect(sp_slow_roots_end(ref));
	sp_span_table_free(ref);
	drain();

	cr_assert_eq(n, 2);
	cr_expect_eq(got[1].span_id, 7);
	cr_expect_eq(got[1].duration_ns, 4000);
	cr_expect_eq(got[1].name_id, sp_span_name("other", 5));
}

Test(slow_roots, are_not_spoilt_by_a_wall_clock_that_is_set)
{
	cr_assert(begin(1));
	pass(3000);
	wall_ns -= 1000 * SP_NS_PER_S;
	cr_assert(end(1));
	drain();

	cr_assert_eq(n, 1);
	cr_expect_eq(got[0].duration_ns, 3000);
	cr_expect_eq(got[0].end_ns, wall_ns);
}

Test(slow_roots, whose_end_never_comes_are_in_no_histogram)
{
	struct sp_span_record r;

	cr_assert(begin(1));
	pass(SP_NS_PER_S);
	cr_assert(sp_span_of(handle_of(1), &r));
	cr_assert(sp_span_aged(&r));
	drain();

	cr_expect_eq(n, 0);
	cr_expect_eq(roots(), 0);
}

/* Samples find room as long as there is any. */
Test(slow_roots, that_find_no_room_are_counted)
{
	unsigned room;

	for (uint64_t id = 1; id <= 300; id++)
		root(id, id * 1000000);
	room = RING - (unsigned)atomic_load(&consumer.ends->head);
	drain();

	cr_expect_gt(n, RING / 4 / (sizeof(struct sp_slow_root) + 8));
	cr_expect_leq(n, RING / 4 * 3 / (sizeof(struct sp_slow_root) + 8) + 1);
	cr_expect_geq(room, RING / 4 - sizeof(struct sp_slow_root) - 8);
	cr_expect_eq(sp_count_read(SP_COUNT_SLOW_ROOTS),
		     n + sp_count_read(SP_COUNT_DROP_SLOW_ROOTS));
	cr_expect_gt(sp_count_read(SP_COUNT_DROP_SLOW_ROOTS), 0);
	cr_expect_eq(roots(), 300);
}

Test(slow_roots, without_room_for_their_name_are_counted)
{
	struct sp_name_head head = {9999, 1000};
	struct sp_ring_part parts[2] = {{&head, sizeof(head)}, {memory, 1000}};

	while (sp_ring_put_parts(&channel.names, SP_RECORD_NAME, parts, 2) == 0)
		;
	parts[1].bytes = 8;
	while (sp_ring_put_parts(&channel.names, SP_RECORD_NAME, parts, 2) == 0)
		;
	root(1, 1000);
	drain();

	cr_expect_eq(n, 0);
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_SLOW_ROOTS), 1);
}

/* As configured: nothing is noted. */
Test(slow_roots_off, are_nowhere, .timeout = 20)
{
	set_up();
	part = calloc(1, sizeof(*part));
	open_channel();
	sp_root_durations_use(part, sizeof(*part));
	root(1, 1000);
	drain();

	cr_expect_eq(n, 0);
	cr_expect_eq(roots(), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_SLOW_ROOTS), 0);
}

/* With SPANPROF_SPAN_TIMES. The thread's own clocks are the kernel's, so only what they add up to is known. */
Test(slow_roots, say_where_their_time_went_if_that_is_wanted)
{
	cr_assert_eq(sp_span_times_init(true), 0);
	cr_assert(begin(1));
	pass(SP_NS_PER_S);
	cr_assert(end(1));
	drain();

	cr_assert_eq(n, 1);
	cr_expect_eq(got[0].has & ~SP_SLOW_ROOT_RUNNABLE, SP_SLOW_ROOT_CPU | SP_SLOW_ROOT_OFF_CPU);
	cr_expect_gt(got[0].cpu_ns, 0);
	cr_expect_eq(got[0].cpu_ns + got[0].off_cpu_ns, SP_NS_PER_S);
	cr_expect_eq(got[0].allocated, 0);
}

static uint64_t allocated_now = 1000;

static uint64_t allocated(void)
{
	return allocated_now;
}

Test(slow_roots, say_what_they_have_allocated)
{
	atomic_store(&sp_span_times_allocated, allocated);
	cr_assert_eq(sp_span_times_init(true), 0);
	cr_assert(begin(1));
	allocated_now += 4242;
	cr_assert(end(1));
	drain();

	cr_assert_eq(n, 1);
	cr_expect_neq(got[0].has & SP_SLOW_ROOT_ALLOCATED, 0);
	cr_expect_eq(got[0].allocated, 4242);
}

Test(slow_roots, with_their_cpu_time_alone_say_that)
{
	cr_assert_eq(sp_span_times_init(false), 0);
	cr_assert(begin(1));
	cr_assert(end(1));
	drain();

	cr_assert_eq(n, 1);
	cr_expect_eq(got[0].has, SP_SLOW_ROOT_CPU);
	cr_expect_gt(got[0].cpu_ns, 0);
}

/* The child has its own histograms, and knows when its own roots began. */
Test(slow_roots, of_a_forked_child_are_those_that_it_has_begun)
{
	int status;
	pid_t pid;

	root(1, 1000);
	begin_scoped(2);
	pid = fork();
	if (pid == 0) {
		struct sp_root_durations *own = calloc(1, sizeof(*own));

		sp_process_forked();
		sp_span_forked(sp_thread_forked());
		sp_root_durations_use(own, sizeof(*own));
		part = own;
		memset(memory, 0, sizeof(memory));
		memset(names, 0, sizeof(names));
		channel.number++;
		open_channel();
		(void)end(2);
		begin_scoped(3);
		pass(2000);
		if (!end(3))
			_exit(1);
		drain();
		_exit(n == 1 && got[0].span_id == 3 && got[0].duration_ns == 2000 && roots() == 1
			      ? 0
			      : 2);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

/* Reading a clock may be a system call, for which a filter may kill the program. */
Test(slow_roots, behind_a_filter_no_clock_is_read)
{
	cr_assert(begin(1));
	pass(5 * SP_NS_PER_S);
	sp_seccomp_begin();
	readings = 0;
	cr_assert(end(1));
	root(2, 5 * SP_NS_PER_S);
	drain();
	cr_expect_eq(n, 0);
	cr_expect_eq(roots(), 0);
	cr_expect_eq(readings, 0);

	/* The kernel refused the filter: a root is of unknown duration if it began meanwhile. */
	cr_assert(begin(3));
	sp_seccomp_take_back();
	pass(5 * SP_NS_PER_S);
	cr_assert(end(3));
	root(4, 5 * SP_NS_PER_S);
	cr_expect_eq(roots(), 1);
}

/* Their roots have no sample, which is the other reason to tell values. */
static unsigned values_told;

static void count_values(const struct sp_record *record, void *arg)
{
	(void)arg;
	values_told += record->kind == SP_RECORD_SPAN_VALUES;
}

static void root_of_a_route(uint64_t id, uint64_t ns)
{
	struct sp_span_record r;

	cr_assert(begin(id));
	cr_assert(sp_span_of(handle_of(id), &r));
	sp_span_values_set(&r, sp_span_values_key("route", 5), SP_SPAN_VALUE_TEXT, "/a", 2);
	pass(ns);
	cr_assert(end(id));
	while (sp_ring_drain(&consumer, count_values, NULL, 16) != 0)
		;
}

Test(slow_roots, tell_the_values_of_their_attributes)
{
	cr_assert_eq(sp_span_values_init("route", false), 0);
	part->name[0].threshold_ns = SP_NS_PER_S;
	root_of_a_route(1, 1000);
	cr_expect_eq(values_told, 0, "it was not slow");
	root_of_a_route(2, 2 * SP_NS_PER_S);
	cr_expect_eq(values_told, 1);
}

/* With a sample, the end of a root is a record, slow or not. */
static struct sp_root_end ends[16];
static unsigned ended;

static void keep_end(const struct sp_record *record, void *arg)
{
	(void)arg;
	if (record->kind != SP_RECORD_ROOT_END)
		return;
	cr_assert_lt(ended, SP_ARRAY_LEN(ends));
	ends[ended++] = record->root_end;
}

static void start_with_ends(void)
{
	set_up();
	part = calloc(1, sizeof(*part));
	open_channel();
	cr_assert_eq(sp_span_values_init(NULL, true), 0);
	cr_assert_eq(sp_slow_roots_init(true), 0);
	sp_root_durations_use(part, sizeof(*part));
}

TestSuite(root_ends, .init = start_with_ends, .timeout = 20);

static void drain_ends(void)
{
	ended = 0;
	while (sp_ring_drain(&consumer, keep_end, NULL, 16) != 0)
		;
}

static void note_sample(uint64_t id)
{
	struct sp_span_record r;

	cr_assert(sp_span_of(handle_of(id), &r));
	sp_span_values_mark(r.root_ref, r.root_id);
}

Test(root_ends, are_told_of_roots_with_samples)
{
	part->name[0].threshold_ns = SP_NS_PER_S;
	root(1, 1000);
	cr_assert(begin(2));
	note_sample(2);
	pass(5000);
	cr_assert(end(2));
	drain_ends();

	cr_assert_eq(ended, 1);
	cr_expect_eq(ends[0].root_id, 2);
	cr_expect_eq(ends[0].duration_ns, 5000);
	cr_expect_eq(ends[0].place, 0);
	cr_expect_eq(ends[0].name_id, sp_names_intern("span", 4));
	cr_expect_eq(sp_count_read(SP_COUNT_ROOT_ENDS), 1);
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_ROOT_ENDS), 0);
}

/* The entry of a root is used again: the sample was of the root before. */
Test(root_ends, are_of_the_root_that_had_the_sample)
{
	cr_assert(begin(1));
	note_sample(1);
	cr_assert(end(1));
	root(2, 1000);
	drain_ends();

	cr_assert_eq(ended, 1);
	cr_expect_eq(ends[0].root_id, 1);
}

Test(root_ends, that_find_no_room_are_counted)
{
	for (uint64_t id = 1; id <= 1000; id++) {
		cr_assert(begin(id));
		note_sample(id);
		cr_assert(end(id));
	}
	cr_expect_eq(sp_count_read(SP_COUNT_ROOT_ENDS), 1000);
	cr_expect_gt(sp_count_read(SP_COUNT_DROP_ROOT_ENDS), 0);
	cr_expect_lt(sp_count_read(SP_COUNT_DROP_ROOT_ENDS), 1000);
}

Test(slow_roots, without_samples_have_no_record_of_their_end)
{
	cr_assert(begin(1));
	note_sample(1);
	cr_assert(end(1));
	drain_ends();
	cr_expect_eq(ended, 0, "nobody has asked for it");
}

static void set_failed(uint64_t id, bool is_error)
{
	struct sp_span_record r;

	cr_assert(sp_span_of(handle_of(id), &r));
	sp_slow_roots_set_failed(&r, is_error);
}

Test(slow_roots, say_that_they_have_failed)
{
	cr_assert(begin(1));
	set_failed(1, true);
	cr_assert(end(1));
	root(2, 1000);
	cr_assert(begin(3));
	set_failed(3, true);
	set_failed(3, false);
	cr_assert(end(3));
	/* A child's error is not its root's. */
	cr_assert(begin(4));
	cr_assert(begin_under(5, 4));
	set_failed(5, true);
	cr_assert(end(5));
	cr_assert(end(4));
	drain();

	cr_assert_eq(n, 4);
	cr_expect_eq(got[0].has, SP_SLOW_ROOT_ERROR);
	for (unsigned i = 1; i < n; i++)
		cr_expect_eq(got[i].has, 0, "%u", i);
}

Test(slow_roots, are_known_as_such_until_their_entry_is_used_again)
{
	struct sp_span_record r;

	cr_assert(begin(1));
	cr_assert(sp_span_of(handle_of(1), &r));
	cr_expect_not(sp_slow_roots_was_slow(r.ref));
	pass(1000);
	cr_assert(sp_span_close(&r));
	cr_expect(sp_slow_roots_end(r.ref));
	cr_expect(sp_slow_roots_was_slow(r.ref));
	sp_span_table_release(&r);
	part->name[0].threshold_ns = SP_NS_PER_S;
	cr_assert(begin(2));
	cr_assert(sp_span_of(handle_of(2), &r));
	cr_expect_not(sp_slow_roots_was_slow(r.ref));
	cr_assert(sp_span_close(&r));
	cr_expect_not(sp_slow_roots_end(r.ref));
}
