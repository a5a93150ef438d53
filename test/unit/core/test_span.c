/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about spans for which a stack or the table has to be full, a thread has no block, or something is
 * told. The rules of spans are test_span_model.c's.
 */
#include "sampler/span/span.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "sampler/base/counters.h"
#include "test/unit/core/span_host.h"
#include "test/unit/sampler/stderr_pipe.h"

TestSuite(span, .init = set_up, .timeout = 20);

static void begin_a_full_stack(void)
{
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++)
		cr_assert(begin(id));
}

/* The root that a sample would show now; 0 for none. */
static uint64_t active_root(void)
{
	struct sp_span_record r = {0};

	(void)sp_span_stack_peek(&sp_thread_own->spans, &r);
	return active() != 0 ? r.root_id : 0;
}

Test(span, deeper_than_the_stack_is_its_roots_and_not_the_last_ones)
{
	begin_a_full_stack();

	for (uint64_t id = 201; id <= 210; id++) {
		cr_assert(begin(id));
		cr_assert_eq(active(), ROOT_ALONE);
		cr_assert_eq(active_root(), 1);
		cr_assert_eq(root_of(id), 1);
	}
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL), 0, "nothing is lost");
	for (uint64_t id = 210; id >= 201; id--) {
		cr_assert_eq(active(), ROOT_ALONE);
		cr_assert(end(id));
	}
	cr_assert_eq(active(), SP_SPAN_DEPTH_MAX);
	cr_assert(end(SP_SPAN_DEPTH_MAX));
	cr_assert(begin(300));
	cr_assert_eq(active(), 300);
}

/* Nobody counts it off, because a stack is changed by its thread alone. */
Test(span, deeper_than_the_stack_that_ended_elsewhere_counts_until_the_stack_is_empty)
{
	begin_a_full_stack();
	cr_assert(begin(201));
	end_elsewhere(201);

	for (uint64_t id = SP_SPAN_DEPTH_MAX; id >= 1; id--) {
		cr_assert_eq(active(), ROOT_ALONE);
		cr_assert(end(id));
	}
	cr_assert(begin(300));
	cr_assert_eq(active(), 300);
}

Test(span, deeper_than_the_stack_shows_nothing_where_roots_differ)
{
	struct sp_span_start root = start_of(200);

	begin_a_full_stack();
	root.has_parent = true;
	cr_assert(begin(199));
	cr_assert(sp_span_started(&root));
	cr_assert_eq(active_root(), 0);
	cr_assert(end(200));
	cr_assert_eq(active_root(), 0, "199 may be what is active, or not");
	cr_assert(end(199));
	cr_assert_eq(active(), SP_SPAN_DEPTH_MAX);

	cr_assert(begin(198));
	cr_assert_eq(active_root(), 1);
}

static uint32_t beyond(void)
{
	return atomic_load(&sp_thread_own->spans.beyond);
}

Test(span, deeper_than_the_stack_that_went_with_a_scope_below_is_not_counted_again)
{
	const uint8_t id[8] = {50};

	sp_active_span_set_source(SP_ACTIVE_AUTO);
	sp_active_span_attached(7777, id);
	for (uint64_t token = 1; token <= SP_SPAN_DEPTH_MAX; token++)
		sp_active_span_attached(token, NULL);
	cr_assert_eq(beyond(), 1);
	/* through all of it, and then once more as deep */
	sp_active_span_detached(7777, true);
	cr_assert_eq(beyond(), 0);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), 0);
}

Test(span, deeper_than_the_stack_a_scope_attached_twice_is_detached_there_first)
{
	for (uint64_t token = 1; token <= SP_SPAN_DEPTH_MAX; token++)
		sp_active_span_attached(token, NULL);
	sp_active_span_attached(1, NULL);
	sp_active_span_attached(900, NULL);
	cr_assert_eq(beyond(), 2);
	sp_active_span_detached(900, true);
	sp_active_span_detached(1, true);
	cr_assert_eq(beyond(), 0);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), SP_SPAN_DEPTH_MAX);
}

Test(span, deeper_than_the_stack_a_detach_of_what_was_never_attached_takes_nothing_away)
{
	for (uint64_t token = 1; token <= SP_SPAN_DEPTH_MAX + 2; token++)
		sp_active_span_attached(token, NULL);
	sp_active_span_detached(902, true);
	cr_assert_eq(beyond(), 2);
	for (uint64_t token = SP_SPAN_DEPTH_MAX + 2; token > SP_SPAN_DEPTH_MAX; token--)
		sp_active_span_detached(token, true);
	cr_assert_eq(beyond(), 0);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), SP_SPAN_DEPTH_MAX);
}

Test(span, that_the_table_cannot_hold_labels_nothing)
{
	for (uint64_t i = 0; i < SP_SPANS_MAX; i++) {
		struct sp_span_record r = {
			.span_id = 1000 + i, .handle = 1 + i, .start_ns = UINT64_MAX / 2};

		cr_assert_eq(sp_span_table_add(&r), 0);
	}

	cr_assert_not(begin(1));
	cr_assert_eq(active(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_TABLE_FULL), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 0, "it will never be ended");
}

static void *after_the_end(void *arg)
{
	(void)arg;
	sp_thread_ended();
	cr_assert(begin(1), "a destructor of thread-local data may start spans");
	cr_assert_eq(active(), 0);
	cr_assert(end(1));
	return NULL;
}

Test(span, in_a_thread_that_has_ended_for_us_is_tracked_without_a_label)
{
	run(after_the_end);

	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_NO_THREAD), 1);
}

static void *some_spans(void *arg)
{
	for (uint64_t id = 1; id <= 40; id++)
		cr_assert(begin_under(id, 0));
	for (uint64_t id = 1; id <= 40; id++)
		cr_assert(end(id));
	sp_thread_ended();
	return arg;
}

Test(span, a_thread_that_ends_leaves_all_places_to_others)
{
	uint64_t id;

	run(some_spans);

	for (id = 1; id <= SP_SPANS_MAX; id++) {
		struct sp_span_record r = {.span_id = id, .root_id = id, .handle = id * 64};

		if (sp_span_table_add(&r) != 0)
			break;
	}
	cr_assert_eq(id, SP_SPANS_MAX + 1U);
}

static void *begin_of_two_sdks(void *arg)
{
	struct sp_span_start s = start_of(0x5d10 + (uintptr_t)arg);

	s.sdk = 2;
	cr_expect(sp_span_started(&s));
	s = start_of(0x5d20 + (uintptr_t)arg);
	s.sdk = 3;
	cr_expect(sp_span_started(&s));
	return NULL;
}

/* The last one has no block of its own to count in. */
static void *begin_without_a_block(void *arg)
{
	sp_thread_ended();
	return begin_of_two_sdks(arg);
}

Test(span, counts_the_spans_of_each_sdk)
{
	pthread_t thread;
	uint64_t all = sp_count_read(SP_COUNT_SPANS_STARTED);

	(void)begin_of_two_sdks((void *)1);
	cr_assert_eq(pthread_create(&thread, NULL, begin_of_two_sdks, (void *)2), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(pthread_create(&thread, NULL, begin_without_a_block, (void *)3), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_expect_eq(sp_count_spans_of(2), 3);
	cr_expect_eq(sp_count_spans_of(3), 3);
	cr_expect_eq(sp_count_spans_of(1), 0);
	cr_expect_eq(sp_count_spans_of(SP_COUNTED_SDKS), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), all + 6);
	sp_counters_reset();
	cr_expect_eq(sp_count_spans_of(2), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 0);
}

Test(span, that_others_have_ended_leaves_an_empty_stack_at_the_next_start)
{
	begin_a_full_stack();
	cr_assert(begin(201));
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++)
		end_elsewhere(id);
	end_elsewhere(201);

	cr_assert(begin(300));
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), 1);
	cr_assert_eq(beyond(), 0);
}

/* As in an event loop: each span ends after the next one has begun, and the first one stays open. */
static void begin_before_the_last_ends(enum sp_activation how)
{
	cr_assert(begin(1));
	for (uint64_t id = 2; id <= 3 * SP_SPAN_DEPTH_MAX; id++) {
		struct sp_span_start s = start_of(id);

		s.how = how;
		cr_assert(sp_span_started(&s));
		if (id > 2)
			cr_assert(end(id - 1));
		cr_assert_eq(active(), id);
		cr_assert_eq(root_of(id), 1);
	}
	cr_assert_eq(beyond(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL), 0);
	cr_assert(end(3 * SP_SPAN_DEPTH_MAX));
	cr_assert_eq(active(), 1);
}

Test(span, that_ended_below_an_open_one_takes_no_room)
{
	begin_before_the_last_ends(SP_ACTIVATION_START);
}

Test(span, that_stood_in_and_ended_below_an_open_one_takes_no_room)
{
	begin_before_the_last_ends(SP_ACTIVATION_NONE);
}

Test(span, of_scopes_those_that_were_detached_below_another_take_no_room)
{
	const uint8_t id[8] = {1};

	cr_assert(begin_scoped(1));
	for (uint64_t token = 32; token <= 32 * 3 * SP_SPAN_DEPTH_MAX; token += 32) {
		cr_assert(sp_active_span_attached(token, id));
		sp_active_span_detached(token - 32, false);
		cr_assert_eq(active(), 1);
	}
	cr_assert_eq(beyond(), 0);
	sp_active_span_detached(32 * 3 * SP_SPAN_DEPTH_MAX, false);
	cr_assert_eq(active(), 0);
}

/* A frame of a scope hides what is below it, whether its span has ended or not, wherever it has moved to. */
Test(span, that_makes_room_below_an_open_one_keeps_scopes_and_labels)
{
	const uint8_t id[8] = {2};

	cr_assert(begin(1));
	cr_assert(begin(2));
	cr_assert(sp_active_span_attached(32, id));
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(5000, 1), 0);
	cr_assert(begin(3));
	cr_assert(end(2));
	for (uint64_t n = 4; n <= 3 * SP_SPAN_DEPTH_MAX; n++) {
		cr_assert(begin(n));
		cr_assert(end(n - 1));
		cr_assert_eq(active(), n);
	}
	cr_assert(end(3 * SP_SPAN_DEPTH_MAX));
	cr_assert_eq(active(), 5000);
	cr_assert(sp_manual_label_leave());
	cr_assert_eq(active(), 0);
	sp_active_span_detached(32, false);
	cr_assert_eq(active(), 1);
}

Test(span, of_a_thread_where_starts_interleave_are_told_once)
{
	stderr_begin();
	begin_root(1);
	cr_assert_eq(active(), 1);
	cr_assert_eq(stderr_end(), 0);

	stderr_begin();
	begin_root(2);
	cr_assert_eq(active(), 0);
	cr_assert(end(2));
	begin_root(3);
	cr_assert_eq(stderr_end(), 1, "once is enough");
	cr_assert(stderr_has("SPANPROF_ACTIVE_SPAN"));
}

static void begin_linked(uint64_t id, uint64_t linked)
{
	struct sp_span_start s = start_of(id);

	s.how = SP_ACTIVATION_NONE;
	s.has_parent = true;
	s.linked_root = sp_active_span_linked_root(linked);
	cr_assert(sp_span_started(&s));
}

static void *links_to_another_thread(void *arg)
{
	(void)arg;
	begin_root(20);
	begin_linked(21, 10);
	cr_assert_eq(active(), 0);
	return NULL;
}

/* As MySQL's statements to their session: roots without a parent, on the thread of the other one. */
Test(span, of_a_root_that_links_to_the_open_one_is_active)
{
	stderr_begin();
	begin_root(10);
	begin_linked(11, 10);
	cr_assert_eq(active(), 11);
	cr_assert(begin_under(12, 11));
	cr_assert_eq(active(), 12);
	end(12);
	end(11);
	cr_assert_eq(active(), 10);
	begin_linked(13, 10);
	cr_assert_eq(active(), 13);
	cr_assert_eq(stderr_end(), 0);
}

/* Two of them at once interleave, as does one that links elsewhere, or comes from another thread. */
Test(span, of_linked_roots_that_interleave_are_not_guessed)
{
	begin_root(10);
	begin_linked(11, 10);
	begin_linked(12, 10);
	cr_assert_eq(active(), 0);
	end(12);
	cr_assert_eq(active(), 11);
	begin_linked(13, 99);
	cr_assert_eq(active(), 0);
	end(13);
	begin_root(14);
	cr_assert_eq(active(), 0);
	end(14);
	end(11);
	run(links_to_another_thread);
}

/* What does not fit is no reason to give up as long as some of what is below goes. */
Test(span, of_scopes_that_come_back_from_the_depth_are_believed)
{
	for (unsigned turn = 0; turn < 40; turn++) {
		for (uint64_t token = 1; token <= 200; token++)
			cr_assert(sp_active_span_attached(token, NULL), "turn %u", turn);
		for (uint64_t token = 200; token >= 1; token--)
			sp_active_span_detached(token, true);
	}
}

static unsigned attached_until_given_up(void)
{
	unsigned n = 0;

	while (n < 100000 && sp_active_span_attached(1000 + n, NULL))
		n++;
	return n;
}

Test(span, of_scopes_that_pile_up_are_given_up_and_hide_nothing_more)
{
	uint64_t lost = sp_count_read(SP_COUNT_SPAN_STACK_FULL);
	unsigned n = attached_until_given_up();

	cr_assert_lt(n, 10000);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL), lost + n + 1 - SP_SPAN_DEPTH_MAX);
	cr_assert(begin(1));
	cr_assert_eq(active(), 1, "by its start, as nothing is above it");
	end(1);
	cr_assert_eq(active(), 0);
}

/* One request that recurses as deep, with many leaves there, each of which is detached. */
Test(span, of_scopes_beyond_the_last_frame_that_are_detached_do_not_pile_up)
{
	const uint64_t deep = SP_SPAN_DEPTH_MAX + 3;

	for (uint64_t token = 1; token <= deep; token++)
		cr_assert(sp_active_span_attached(token, NULL));
	for (unsigned leaf = 0; leaf < 5000; leaf++) {
		cr_assert(sp_active_span_attached(deep + 1, NULL), "leaf %u", leaf);
		sp_active_span_detached_here(deep + 1, leaf % 2 == 0);
	}
	cr_assert_eq(beyond(), 3);
	cr_assert_lt(attached_until_given_up(), 10000, "those that stay do so nevertheless");
}

/* As many fibers go from this thread to another as come from there, and beyond the last frame all look alike. */
Test(span, of_scopes_that_are_detached_elsewhere_pile_up_although_others_are_detached_here)
{
	uint64_t token = 0;

	while (token < 100000 && sp_active_span_attached(++token, NULL))
		sp_active_span_detached(200000 + token, true);
	cr_assert_lt(token, 10000);
}

static void attach_by(uint32_t storage, uint64_t key, uint64_t id)
{
	sp_active_span_attached(sp_span_token_of(storage, key), (const uint8_t *)&id);
}

Test(span, of_a_silent_storage_is_none_beyond_the_end_of_the_stack)
{
	attach_by(3, 1, 0);
	begin_scoped(1);
	for (uint64_t key = 2; key < 200; key++)
		attach_by(3, key, 1);
	cr_assert_eq(active(), ROOT_ALONE);

	sp_active_span_silence(3);

	cr_assert_eq(active(), 0);
	attach_by(3, 300, 1);
	attach_by(4, 1, 1);
	cr_assert_eq(active(), 1);
}

Test(span, of_a_doubted_storage_is_none_until_it_is_trusted)
{
	sp_active_span_doubt(3);
	begin_scoped(1);
	attach_by(3, 1, 1);
	cr_assert_eq(active(), 0, "neither by its scope nor by its start");
	attach_by(4, 1, 1);
	cr_assert_eq(active(), 1, "another storage is not in doubt");
	sp_active_span_detached(sp_span_token_of(4, 1), true);

	sp_active_span_trust(3);

	cr_assert_eq(active(), 1, "its scope was kept");
	sp_active_span_detached(sp_span_token_of(3, 1), true);
	cr_assert_eq(active(), 0);
}

Test(span, of_a_doubted_storage_is_none_for_good_once_it_is_silenced)
{
	sp_active_span_doubt(3);
	begin_scoped(1);
	attach_by(3, 1, 1);
	sp_active_span_silence(3);

	attach_by(3, 2, 1);

	cr_assert_eq(active(), 0);
	attach_by(4, 1, 1);
	cr_assert_eq(active(), 1);
}

/*
 * The short way of spans that are found by their id (sp_span_started_by_id(), sp_span_close_by_id(),
 * sp_active_span_attach()) and the whole way have to say the same after each step of any sequence. The ids
 * are few, so that starts of open spans, ends of others' objects and tokens twice come up again and again.
 */
#define STEPS 600U
#define IDS 24U

struct seen {
	bool done;
	enum sp_span_active is;
	struct sp_span_record r;
	uint64_t counted[3];
};

struct play {
	uint64_t seed;
	bool brief;
	enum sp_active_span source;
	uint64_t ended[IDS + 1];
	struct seen seen[STEPS];
};

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 33) % below;
}

static bool brief_start(const struct sp_span_start *s, bool brief)
{
	return brief ? sp_span_started_by_id(s, sp_span_name(s->name, s->name_len))
		     : sp_span_started(s);
}

static bool brief_end(uint64_t id, const void *handle, bool brief)
{
	struct sp_span_record r;
	uint32_t ref;

	if (!brief) {
		if (!sp_span_of_id(id, handle, &r) || !sp_span_close(&r))
			return false;
		sp_span_table_release(&r);
		return true;
	}
	ref = sp_span_close_by_id(id, handle);
	if (ref != 0)
		sp_span_table_leave(ref);
	return ref != 0;
}

/* One of a few ids. That of a span that has ended is given out no more: its root's name would depend on entries. */
static uint64_t draw_id(struct play *p)
{
	return 1 + draw(&p->seed, IDS);
}

static uint64_t fresh(const struct play *p, uint64_t id)
{
	return id + IDS * p->ended[id];
}

static bool start_any(struct play *p)
{
	static const char *const name[] = {"", "a", "four", "seven77", "twelve lines"};
	struct sp_span_start s = start_of(fresh(p, draw_id(p)));
	uint64_t parent = draw(&p->seed, 3) != 0 ? fresh(p, draw_id(p)) : 0;
	uint64_t n = draw(&p->seed, 5);

	s.by_id = true;
	s.name = name[n];
	s.name_len = strlen(name[n]);
	s.has_parent = draw(&p->seed, 2) == 0;
	s.how = (enum sp_activation)draw(&p->seed, 3);
	s.sdk = (uint8_t)draw(&p->seed, 3);
	s.trace_id[0] = (uint8_t)draw(&p->seed, 2);
	memcpy(s.parent_id, &parent, sizeof(parent));
	if (draw(&p->seed, 9) == 0)
		s.handle = handle_of(draw_id(p));
	return brief_start(&s, p->brief);
}

static bool end_any(struct play *p)
{
	uint64_t id = draw_id(p);
	const void *handle = handle_of(draw(&p->seed, 9) != 0 ? fresh(p, id) : draw_id(p));

	if (!brief_end(fresh(p, id), handle, p->brief))
		return false;
	p->ended[id]++;
	return true;
}

static bool attach_any(struct play *p)
{
	uint64_t token = sp_span_token_of(1, 1 + draw(&p->seed, 4));
	uint64_t id = draw(&p->seed, 5) != 0 ? fresh(p, draw_id(p)) : 0;

	return p->brief ? sp_active_span_attach(token, id)
			: sp_active_span_attached(token, (const uint8_t *)&id);
}

static bool step_any(struct play *p, bool scopes)
{
	uint64_t token;

	switch (draw(&p->seed, scopes ? 5 : 3)) {
	case 0:
		return start_any(p);
	case 1:
	case 2:
		return end_any(p);
	case 3:
		return attach_any(p);
	default:
		token = sp_span_token_of(1, 1 + draw(&p->seed, 4));
		sp_active_span_detached(token, draw(&p->seed, 2) == 0);
		return true;
	}
}

static void look(struct seen *s)
{
	memset(&s->r, 0, sizeof(s->r));
	s->is = sp_span_stack_peek(&sp_thread_own->spans, &s->r);
	if (s->is == SP_SPAN_NONE || s->is == SP_SPAN_INTERLEAVED)
		memset(&s->r, 0, sizeof(s->r));
	/* Which entry a span has does not matter. */
	s->r.ref = 0;
	s->r.root_ref = s->r.root_ref != 0;
	s->r.cell = NULL;
	s->r.start_ns = 0;
	s->counted[0] = sp_count_read(SP_COUNT_SPANS_STARTED);
	s->counted[1] = sp_count_read(SP_COUNT_SPANS_ENDED);
	s->counted[2] = sp_span_table_count();
}

static void *play(void *arg)
{
	struct play *p = arg;
	bool scopes = draw(&p->seed, 2) == 0;
	struct sp_span_record r;
	uint32_t at = 0;

	/* So that there are free entries at hand. */
	for (uint64_t id = 1; id <= 4; id++)
		cr_assert(begin(id));
	for (uint64_t id = 1; id <= 4; id++)
		cr_assert(end(id));
	sp_counters_reset();
	for (unsigned i = 0; i < STEPS; i++) {
		p->seen[i].done = step_any(p, scopes);
		look(&p->seen[i]);
	}
	while (sp_span_table_next(&at, &r)) {
		cr_assert(sp_span_close(&r));
		sp_span_table_release(&r);
	}
	sp_thread_ended();
	return NULL;
}

static void play_in_thread(struct play *p)
{
	pthread_t thread;

	memset(p->ended, 0, sizeof(p->ended));
	atomic_store(&sp_span_stack_scoped, false);
	sp_active_span_set_source(p->source);
	cr_assert_eq(pthread_create(&thread, NULL, play, p), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(sp_span_table_count(), 0);
}

Test(span, the_short_way_of_starts_and_ends_says_what_the_whole_way_says)
{
	static struct play whole;
	static struct play brief;
	static const enum sp_active_span sources[] = {SP_ACTIVE_AUTO, SP_ACTIVE_AUTO,
						      SP_ACTIVE_SCOPE, SP_ACTIVE_START,
						      SP_ACTIVE_CONTEXT};

	for (uint64_t seed = 1; seed <= 100; seed++) {
		whole.seed = brief.seed = seed;
		whole.source = brief.source = sources[seed % SP_ARRAY_LEN(sources)];
		brief.brief = true;
		sp_span_age_tick(seed % 2 == 0);
		play_in_thread(&whole);
		play_in_thread(&brief);

		for (unsigned i = 0; i < STEPS; i++)
			cr_assert(memcmp(&whole.seen[i], &brief.seen[i], sizeof(struct seen)) == 0,
				  "seed %lu, step %u: %d %d, active %d %d", seed, i,
				  whole.seen[i].done, brief.seen[i].done, (int)whole.seen[i].is,
				  (int)brief.seen[i].is);
	}
}

/* A start by the short way takes an entry that the thread has at hand, and its end gives it back. */
Test(span, the_short_way_uses_the_entries_at_hand)
{
	struct sp_span_start s = start_of(2);

	s.by_id = true;
	begin(1);
	end(1);
	cr_assert_eq(sp_thread_own->spare.n, 1);

	cr_assert(brief_start(&s, true));
	cr_expect_eq(sp_thread_own->spare.n, 0);
	cr_expect_eq(active(), 2);
	cr_expect(brief_end(2, s.handle, true));
	cr_expect_eq(sp_thread_own->spare.n, 1);
	cr_expect_eq(active(), 0);
}

static void *end_briefly(void *id)
{
	(void)sp_thread_self();
	cr_expect(brief_end((uint64_t)(uintptr_t)id, handle_of((uint64_t)(uintptr_t)id), true));
	return NULL;
}

Test(span, the_short_way_ends_on_another_thread)
{
	struct sp_span_start s = start_of(2);
	pthread_t thread;
	uint32_t struck;

	s.by_id = true;
	begin(1);
	end(1);
	cr_assert(brief_start(&s, true));
	struck = atomic_load(&sp_thread_own->spans.struck);

	cr_assert_eq(pthread_create(&thread, NULL, end_briefly, (void *)2), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_expect_eq(active(), 0);
	cr_expect_gt(atomic_load(&sp_thread_own->spans.struck), struck);
	cr_expect_not(brief_end(2, s.handle, true));
}

/*
 * A program's own generator may give an id out again, and the SDK the same object: each is a span of its own,
 * with an end of its own.
 */
Test(span, with_the_id_of_one_that_has_ended_is_another)
{
	struct sp_span_start s = start_of(7);
	struct sp_span_record r;
	uint32_t first;

	s.by_id = true;
	begin(1);
	end(1);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert(brief_start(&s, true));
		cr_assert(sp_span_of_id(7, s.handle, &r));
		cr_expect(i == 0 || r.ref != first, "the same entry is used again");
		first = r.ref;
		cr_expect_not(sp_span_table_is_noted(r.ref, 8));
		cr_expect_eq(active(), 7);
		cr_expect(brief_end(7, s.handle, true));
		cr_expect_not(brief_end(7, s.handle, true));
		cr_expect_eq(active(), 0);
	}
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 4);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 4);
}
