/* SPDX-License-Identifier: Apache-2.0 */
/* The table of open spans with one thread; test/stress/span_table.c is about several threads. */
#include "sampler/open_spans/span_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test/unit/core/span_remove.h"
#include "test/unit/emulated.h"

#define HANDLES UINT64_C(0x7f3a10000000)

static struct sp_span_record record_of(uint64_t id, uint64_t handle)
{
	struct sp_span_record r = {
		.span_id = id,
		.root_id = id ^ 1,
		.handle = handle,
		.trace = {id * 3, id * 5},
		.start_ns = id * 7,
		.name_id = (uint32_t)id * 11,
		.root_name_id = (uint32_t)id * 13,
		.root_ref = (uint32_t)id * 17,
		.thread = (uint16_t)(id % 5),
		.sdk = (uint8_t)(id % 7),
	};

	return r;
}

static int add(uint64_t id, uint64_t handle)
{
	struct sp_span_record r = record_of(id, handle);

	return sp_span_table_add(&r);
}

static bool is(const struct sp_span_record *r, uint64_t id, uint64_t handle)
{
	struct sp_span_record want = record_of(id, handle);

	return memcmp(r, &want, offsetof(struct sp_span_record, ref)) == 0 && r->ref != 0;
}

/* Span ids are random. */
static uint64_t random_id(uint64_t n)
{
	n = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
	n = (n ^ (n >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	n = (n ^ (n >> 27)) * UINT64_C(0x94d049bb133111eb);
	return n ^ (n >> 31);
}

static void start(void)
{
	cr_assert_eq(sp_span_table_init(), 0);
}

TestSuite(span_table, .init = start, .timeout = 20);

TestSuite(span_table_before_init, .timeout = 20);

Test(span_table_before_init, is_empty_and_refuses)
{
	struct sp_span_record r;

	cr_assert_eq(add(1, 2), -ENOSPC);
	cr_assert_not(sp_span_table_by_id(1, &r));
	cr_assert_not(sp_span_table_by_handle(2, &r));
	cr_assert_not(sp_span_table_may_have(1, 2));
	cr_assert_not(sp_test_span_remove(1, &r));
	sp_span_table_forked(0, 0, NULL, 0);
	cr_assert_eq(sp_span_table_count(), 0);
}

static rlim_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	cr_assert_not_null(f);
	cr_assert_eq(fscanf(f, "%lu", &pages), 1);
	(void)fclose(f);
	return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* One of its mappings fails, whichever. */
Test(span_table_before_init, is_whole_or_is_none)
{
	struct rlimit before;
	unsigned refused = 0;
	int rc = -1;

#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("the sanitizer takes terabytes");
#endif
	if (emulated())
		cr_skip_test("the emulator does not have that limit");
	cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);
	for (rlim_t spare = 0; rc != 0 && spare < 1U << 30; spare += 1U << 16) {
		struct rlimit limit = before;

		limit.rlim_cur = address_space() + spare;
		cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
		rc = sp_span_table_init();
		cr_assert_eq(setrlimit(RLIMIT_AS, &before), 0);
		refused += rc == -ENOMEM;
		cr_assert_eq(add(1, 2), rc == 0 ? 0 : -ENOSPC);
	}
	cr_assert_eq(rc, 0);
	cr_assert_gt(refused, 4);
}

Test(span_table, finds_by_id_and_by_handle)
{
	struct sp_span_record r;

	cr_assert_eq(add(1, 100), 0);
	cr_assert_eq(add(2, 200), 0);

	cr_assert(sp_span_table_by_id(1, &r));
	cr_assert(is(&r, 1, 100));
	cr_assert_eq(sp_span_index_ref(atomic_load(r.cell)), r.ref, "its end needs no search");
	cr_assert(sp_span_table_by_handle(200, &r));
	cr_assert(is(&r, 2, 200));
	cr_assert_null(r.cell);
	cr_assert_not(sp_span_table_by_id(100, &r));
	cr_assert_not(sp_span_table_by_handle(1, &r));
	cr_assert_eq(sp_span_table_count(), 2);
}

Test(span_table, may_have_what_it_has_and_hardly_anything_else)
{
	unsigned wrong = 0;

	cr_assert_eq(add(1, HANDLES), 0);
	cr_assert_eq(add(2, HANDLES + 64), 0);

	cr_expect(sp_span_table_may_have(1, HANDLES + 128), "by its id");
	cr_expect(sp_span_table_may_have(3, HANDLES + 64), "by its object");
	for (uint64_t i = 0; i < 1000; i++)
		wrong += sp_span_table_may_have(random_id(i), HANDLES + (i + 2) * 64);
	cr_expect_eq(wrong, 0);
}

Test(span_table, init_again_keeps_what_is_there)
{
	struct sp_span_record r;

	add(1, 100);

	cr_assert_eq(sp_span_table_init(), 0);
	cr_assert(sp_span_table_by_id(1, &r));
}

static void fill_up(uint64_t stride)
{
	for (uint64_t i = 0; i < SP_SPANS_MAX - 1; i++)
		cr_assert_eq(add(random_id(i), HANDLES + i * stride), 0, "span %lu", i);
}

Test(span_table, holds_exactly_its_limit)
{
	struct sp_span_record r;

	fill_up(64);
	cr_assert_eq(sp_span_table_count(), SP_SPANS_MAX - 1);
	cr_assert_eq(add(random_id(SP_SPANS_MAX), 1), 0, "the last one fits");
	cr_assert_eq(add(random_id(SP_SPANS_MAX + 1), 2), -ENOSPC, "one more does not");
	cr_assert_eq(sp_span_table_count(), SP_SPANS_MAX);

	for (uint64_t i = 0; i < SP_SPANS_MAX - 1; i++) {
		cr_assert(sp_span_table_by_id(random_id(i), &r));
		cr_assert(is(&r, random_id(i), HANDLES + i * 64));
		cr_assert(sp_span_table_by_handle(HANDLES + i * 64, &r));
	}
	cr_assert(sp_test_span_remove(random_id(0), &r));
	cr_assert_eq(add(random_id(SP_SPANS_MAX + 1), 2), 0, "a freed place is used again");
}

/* Handles are heap addresses. Handles with any spacing fill the whole table, not only one window. */
Test(span_table, spreads_evenly_spaced_handles)
{
	const uint64_t strides[] = {1, 8, 16, 24, 32, 48, 64, 96, 112, 128, 256, 1024, 4096, 65536};
	struct sp_span_record r;

	for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
		fill_up(strides[s]);
		for (uint64_t i = 0; i < SP_SPANS_MAX - 1; i++)
			cr_assert(sp_test_span_remove(random_id(i), &r));
		cr_assert_eq(sp_span_table_count(), 0, "stride %lu", strides[s]);
	}
}

/*
 * Keys with the same hash: the key is the wanted product multiplied by the inverse of the hash's factor, and the hash
 * takes bits 40 to 55 of the product.
 */
static uint64_t key_hashing_to(uint64_t place, uint64_t n)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t inverse = factor;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - factor * inverse;
	return (place << 40 | (n + 1)) * inverse;
}

/* The same for handles, which are addresses. */
static uint64_t handle_hashing_to(uint64_t place, uint64_t n)
{
	uint64_t key = key_hashing_to(place, n);

	while ((key & SP_SPAN_BY_ID) != 0) {
		n += UINT64_C(1) << 16;
		key = key_hashing_to(place, n);
	}
	return key;
}

Test(span_table, refuses_whole_when_the_window_of_a_handle_is_full)
{
	struct sp_span_record r;

	for (uint64_t n = 0; n < SP_SPAN_WINDOW; n++)
		cr_assert_eq(add(random_id(n), handle_hashing_to(9, n)), 0);

	cr_assert_eq(add(random_id(99), handle_hashing_to(9, SP_SPAN_WINDOW)), -ENOSPC);
	cr_assert_not(sp_span_table_by_id(random_id(99), &r));
	cr_assert_eq(sp_span_table_count(), SP_SPAN_WINDOW);
}

/* Cells of a line: a further key goes to the next lines. */
#define LINE 7U

/* The keys have different tags, so the cells of the line contain nothing of the key that went further. */
Test(span_table, may_have_what_had_to_go_beyond_its_line)
{
	for (uint64_t n = 0; n <= LINE; n++)
		cr_assert_eq(add(key_hashing_to(9, n << 32), handle_hashing_to(7, n << 32)), 0);

	cr_expect(sp_span_table_may_have(key_hashing_to(9, (uint64_t)LINE << 32), HANDLES));
	cr_expect(sp_span_table_may_have(random_id(1), handle_hashing_to(7, (uint64_t)LINE << 32)));
	cr_expect_not(sp_span_table_may_have(random_id(1), HANDLES));
}

Test(span_table, an_id_that_finds_all_behind_full_takes_what_is_free_in_front)
{
	struct sp_span_record r;

	for (uint64_t n = 0; n < SP_SPAN_WINDOW; n++)
		cr_assert_eq(add(key_hashing_to(9, n), HANDLES + n * 64), 0);
	for (uint64_t n = 0; n < LINE; n++)
		cr_assert(sp_test_span_remove(key_hashing_to(9, n), &r));

	for (uint64_t n = 0; n < LINE; n++)
		cr_assert_eq(add(key_hashing_to(9, 100 + n), HANDLES + n * 64), 0);
	cr_assert_eq(add(key_hashing_to(9, 200), 1), -ENOSPC);
	for (uint64_t n = 0; n < LINE; n++)
		cr_assert(sp_span_table_by_id(key_hashing_to(9, 100 + n), &r));
	for (uint64_t n = 0; n < LINE; n++)
		cr_assert(sp_test_span_remove(key_hashing_to(9, 100 + n), &r));
	for (uint64_t n = LINE; n < SP_SPAN_WINDOW; n++)
		cr_assert(sp_test_span_remove(key_hashing_to(9, n), &r));
	cr_assert_eq(sp_span_table_count(), 0);
}

Test(span_table, ids_with_equal_tags_are_told_apart)
{
	struct sp_span_record r;

	/* key_hashing_to() gives all keys of one place the same upper half of the hash */
	cr_assert_eq(add(key_hashing_to(9, 0), HANDLES), 0);
	cr_assert_eq(add(key_hashing_to(9, 1), HANDLES + 64), 0);

	cr_assert(sp_span_table_by_id(key_hashing_to(9, 1), &r));
	cr_assert(is(&r, key_hashing_to(9, 1), HANDLES + 64));
	cr_assert_not(sp_span_table_by_id(key_hashing_to(9, 2), &r));
}

Test(span_table, does_not_find_by_its_object_what_is_found_by_its_id)
{
	struct sp_span_record r;

	for (uint64_t n = 0; n <= SP_SPAN_WINDOW; n++)
		cr_assert_eq(add(random_id(n), handle_hashing_to(9, n) | SP_SPAN_BY_ID), 0);

	cr_expect_not(sp_span_table_by_handle(handle_hashing_to(9, 0), &r));
	cr_expect_not(sp_span_table_may_have(random_id(99), handle_hashing_to(9, 0)));
	for (uint64_t n = 0; n <= SP_SPAN_WINDOW; n++)
		cr_assert(sp_test_span_remove(random_id(n), &r));
	cr_assert_eq(sp_span_table_count(), 0);
}

Test(span_table, closes_by_a_copy_once)
{
	struct sp_span_record r;

	cr_assert_eq(add(random_id(1), HANDLES), 0);
	cr_assert(sp_span_table_by_handle(HANDLES, &r));

	cr_assert(sp_span_table_close(&r));
	cr_assert_not(sp_span_table_close(&r));
	cr_assert_eq(add(random_id(1), HANDLES), 0);
	cr_assert_not(sp_span_table_close(&r), "the copy is of an earlier span");
}

Test(span_table, a_window_goes_on_at_the_start_of_the_table)
{
	struct sp_span_record r;

	for (uint64_t n = 0; n < SP_SPAN_WINDOW; n++)
		cr_assert_eq(add(key_hashing_to(65535, n), HANDLES + n * 64), 0);
	for (uint64_t n = 0; n < SP_SPAN_WINDOW; n++)
		cr_assert(sp_span_table_by_id(key_hashing_to(65535, n), &r));
}

/* thread is id % 5, see record_of() */
Test(span_table, a_forked_child_keeps_the_spans_of_one_thread_and_those_named)
{
	const uint64_t named[2] = {20, 21};
	struct sp_span_record r;

	for (uint64_t id = 1; id <= 100; id++)
		add(id, id * 64);

	sp_span_table_forked(3, 7, named, 2);

	cr_assert_eq(sp_span_table_count(), 22);
	for (uint64_t id = 1; id <= 100; id++) {
		bool kept = id % 5 == 3 || id == 20 || id == 21;

		cr_assert_eq(sp_span_table_by_id(id, &r), kept, "id %lu", id);
		cr_assert_eq(sp_span_table_by_handle(id * 64, &r), kept, "id %lu", id);
		if (kept)
			cr_assert_eq(r.thread, id % 5 == 3 ? 7 : SP_SPAN_NO_THREAD);
	}
	/* the spans 20 and 21 are each other's root */
	cr_assert(sp_span_table_by_id(20, &r));
	cr_assert(sp_span_table_holds(r.root_ref, 21));
	for (uint64_t id = 1; id <= 100; id++)
		cr_assert_eq(sp_test_span_remove(id, &r), id % 5 == 3 || id == 20 || id == 21);
	fill_up(64);
}

static long page_faults(void)
{
	struct rusage usage;

	cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_minflt;
}

/* A forked child walks the table before it runs, so the walk must not read memory that no span has used. */
Test(span_table, is_walked_without_a_look_at_what_was_never_used)
{
	struct sp_span_record r;
	uint32_t at = 0;
	long before;
	unsigned n = 0;

	cr_assert_eq(add(1, HANDLES), 0);
	before = page_faults();
	while (sp_span_table_next(&at, &r))
		n++;
	cr_expect_eq(n, 1);
	cr_expect_lt(page_faults() - before, 32, "%ld", page_faults() - before);
}

/* Adds a root and a span below it. The record of the span has the state at its start. */
static void add_root(uint64_t id, uint32_t name_id, struct sp_span_record *root,
		     struct sp_span_record *child)
{
	*root = (struct sp_span_record){.span_id = id,
					.root_id = id,
					.handle = id * 100,
					.name_id = name_id,
					.root_name_id = name_id};
	cr_assert_eq(sp_span_table_add(root), 0);
	*child = (struct sp_span_record){
		.root_id = id, .root_ref = root->ref, .root_name_id = name_id};
}

Test(span_table, a_root_that_is_renamed_is_so_for_spans_that_outlive_it)
{
	struct sp_span_record root;
	struct sp_span_record child;
	struct sp_span_record r;

	add_root(1, 11, &root, &child);
	cr_assert_eq(sp_span_table_root_name(&child), 11);
	sp_span_table_rename(&root, 12);
	cr_assert_eq(sp_span_table_root_name(&child), 12);
	cr_assert(sp_span_table_by_id(1, &r));
	cr_assert_eq(r.name_id, 12);
	cr_assert_eq(sp_span_table_root_name(&r), 12);

	cr_assert(sp_test_span_remove(1, &r));
	cr_assert_eq(sp_span_table_root_name(&child), 12);
	sp_span_table_rename(&root, 13);
	cr_assert_eq(sp_span_table_root_name(&child), 12, "it is over");
}

/* A thread uses one entry for all its roots, so the entry's reference is repeated in the end. */
Test(span_table, a_root_has_no_name_of_an_earlier_one_with_its_reference)
{
	struct sp_span_record root, child, other, r;
	uint32_t first;
	uint64_t id = 1;

	add_root(id, 11, &root, &child);
	first = root.ref;
	sp_span_table_rename(&root, 12);
	cr_assert(sp_test_span_remove(id, &r));
	do {
		id += 1000;
		add_root(id, 77, &other, &child);
		cr_assert(sp_test_span_remove(id, &r));
		cr_assert_lt(id, 1000000000, "no reference comes again");
	} while (other.ref != first);

	cr_expect_eq(sp_span_table_root_name(&child), 77);
}

Test(span_table, a_root_whose_id_comes_again_is_another_one)
{
	struct sp_span_record root;
	struct sp_span_record child;
	struct sp_span_record next;
	struct sp_span_record nephew;
	struct sp_span_record r;

	add_root(1, 11, &root, &child);
	cr_assert(sp_test_span_remove(1, &r));
	add_root(1, 21, &next, &nephew);
	cr_assert(sp_span_table_holds(root.ref, 1), "in the same entry");

	cr_assert_eq(sp_span_table_root_name(&child), 11);
	cr_assert_eq(sp_span_table_root_name(&nephew), 21);
	sp_span_table_rename(&next, 22);
	cr_assert_eq(sp_span_table_root_name(&child), 11);
	cr_assert_eq(sp_span_table_root_name(&nephew), 22);
}

Test(span_table, is_as_fast_as_before_when_many_spans_have_ended)
{
	struct sp_span_record r;

	for (uint64_t n = 0; n < 8000; n++)
		cr_assert_eq(add(random_id(n), HANDLES + 64 * n), 0);
	cr_expect(sp_span_table_may_have(random_id(9000), SP_SPAN_BY_ID));
	for (uint64_t n = 0; n < 8000; n++) {
		cr_assert(n % 2 == 0 ? sp_span_table_by_handle(HANDLES + 64 * n, &r)
				     : sp_span_table_by_id(random_id(n), &r));
		cr_assert(sp_span_table_close(&r));
		sp_span_table_release(&r);
	}
	for (uint64_t n = 0; n < 8000; n++)
		cr_assert_not(sp_span_table_may_have(random_id(n), HANDLES + 64 * n), "%llu",
			      (unsigned long long)n);
}

Test(span_table, a_late_note_is_not_the_next_spans)
{
	struct sp_span_record first;
	struct sp_span_record next;

	add(1, 100);
	cr_assert(sp_span_table_by_id(1, &first));
	cr_assert_not(sp_span_table_has_sample(&first));
	sp_span_table_mark_sample(first.ref, 1);
	cr_assert(sp_span_table_has_sample(&first));
	cr_assert(sp_test_span_remove(1, &first));

	add(2, 200);
	cr_assert(sp_span_table_by_id(2, &next));
	cr_assert_not(sp_span_table_has_sample(&next), "the note of the entry's last span");
	sp_span_table_mark_sample(first.ref, 1);
	sp_span_table_mark_sample(0, 2);
	cr_assert_not(sp_span_table_has_sample(&next));
	sp_span_table_mark_sample(next.ref, 2);
	cr_assert(sp_span_table_has_sample(&next));
}
