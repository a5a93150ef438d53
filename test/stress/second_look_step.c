/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock-free read looks at the owner of the values twice: the values count only if the owner is the same after the
 * read. Here the owner changes after each single instruction of such a read, and of operations that a single exchange
 * decides. No result may mix the words of two owners.
 */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/process.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/region/ring.h"
#include "sampler/sampling/allocation.h"
#include "sampler/sampling/handler.h"
#include "sampler/span/span.h"
#include "sampler/span/span_values.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"
#include "sampler/unwind/rule_cache_sig.h"
#include "test/stress/race_step.h"
#include "test/unit/core/span_remove.h"

#define NEW_NAME 4711U

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("line %d: not %s\n", __LINE__, #cond);                              \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* --- The table of open spans: A ends, and B takes its entry --------------------------------------- */

static struct sp_span_record a;
static struct sp_span_record b;
static struct sp_span_record found;
static uint32_t root_name;
static bool is_found;
/* Many others are open, so that the next lookup is never long. */
#define OTHERS 8192U
#define ID_STEP UINT64_C(0x9e3779b97f4a7c15)
/* B has A's object, as when an SDK makes the next span in the memory of the last one. */
static bool same_handle;

static struct sp_span_record record_of(uint64_t id)
{
	struct sp_span_record r = {
		.span_id = id,
		.root_id = id, /* it is its own root */
		/* looks like an address */
		.handle = same_handle ? 4096 : (id + 2) & ~SP_SPAN_BY_ID,
		.trace = {id + 3, id + 4},
		.start_ns = id + 5,
		.name_id = (uint32_t)id + 6,
		.root_name_id = (uint32_t)id + 7,
		.thread = (uint16_t)id,
		.sdk = (uint8_t)id,
	};

	return r;
}

static bool is_whole(const struct sp_span_record *r, const struct sp_span_record *want)
{
	return r->ref == want->ref && memcmp(r, want, offsetof(struct sp_span_record, ref)) == 0;
}

static void open_others(void)
{
	for (uint64_t i = 1; i <= OTHERS; i++) {
		struct sp_span_record r = record_of(i * ID_STEP);

		MUST(sp_span_table_add(&r) == 0);
	}
}

/* An open span other than these two, as it started. */
static bool is_other(const struct sp_span_record *r)
{
	struct sp_span_record want;

	return r->span_id != a.span_id && r->span_id != b.span_id &&
	       sp_span_table_by_id(r->span_id, &want) && is_whole(r, &want);
}

static void open_a(void)
{
	struct sp_span_record gone;

	(void)sp_test_span_remove(a.span_id, &gone);
	(void)sp_test_span_remove(b.span_id, &gone);
	MUST(sp_span_table_count() == OTHERS);
	/* no id is repeated, because it may find traces of an earlier span */
	a = record_of(a.span_id + 2 * ID_STEP);
	b = record_of(a.span_id + ID_STEP);
	MUST(sp_span_table_add(&a) == 0);
	is_found = false;
	memset(&found, 0, sizeof(found));
	root_name = 0;
}

static void replace_a_by_b(void)
{
	struct sp_span_record gone;

	MUST(sp_test_span_remove(a.span_id, &gone));
	MUST(sp_span_table_add(&b) == 0);
	/* a reference leads to the entry, even if another span has the entry now */
	MUST(sp_span_table_holds(a.ref, b.span_id));
}

/* Replaces A by a root with A's id in A's entry. */
static void replace_a_by_its_like(void)
{
	struct sp_span_record like = record_of(a.span_id);
	struct sp_span_record gone;

	like.root_name_id = NEW_NAME + 1;
	MUST(sp_test_span_remove(a.span_id, &gone));
	MUST(sp_span_table_add(&like) == 0);
	MUST(sp_span_table_holds(a.ref, a.span_id));
}

static void read_root_name(void)
{
	const struct sp_span_record child = {
		.root_id = a.span_id,
		.root_ref = a.ref,
		.root_name_id = NEW_NAME,
	};

	root_name = sp_span_table_root_name(&child);
}

static bool is_name_of_a(void)
{
	return root_name == a.root_name_id || root_name == NEW_NAME;
}

static void find_by_id(void)
{
	is_found = sp_span_table_by_id(a.span_id, &found);
}

static bool found_a_or_nothing(void)
{
	return !is_found || is_whole(&found, &a);
}

static void find_by_handle(void)
{
	is_found = sp_span_table_by_handle(a.handle, &found);
}

static bool found_one_or_nothing(void)
{
	return !is_found || is_whole(&found, &a) || is_whole(&found, &b);
}

static bool found_one(void)
{
	return is_found && (is_whole(&found, &a) || is_whole(&found, &b) || is_other(&found));
}

/* The index of A, where the next lookup begins. */
static uint32_t place;

static void open_a_and_find_its_place(void)
{
	uint32_t at = 0;

	open_a();
	do {
		MUST(sp_span_table_next(&at, &found));
	} while (found.span_id != a.span_id);
	place = at - 1;
	is_found = false;
}

static void read_the_next(void)
{
	uint32_t at = place;

	is_found = sp_span_table_next(&at, &found);
}

static void note_a(void)
{
	sp_span_table_mark_sample(a.ref, a.span_id);
}

static bool b_has_no_sample(void)
{
	return !sp_span_table_has_sample(&b);
}

static void replace_and_note_b(void)
{
	replace_a_by_b();
	sp_span_table_mark_sample(b.ref, b.span_id);
}

static bool b_has_a_sample(void)
{
	return sp_span_table_has_sample(&b);
}

static void rename_a(void)
{
	sp_span_table_rename(&a, NEW_NAME);
}

static bool b_has_its_names(void)
{
	return sp_span_table_by_id(b.span_id, &found) && is_whole(&found, &b);
}

static unsigned ends;

static void open_a_not_ended(void)
{
	open_a();
	ends = 0;
}

static void end_a(void)
{
	struct sp_span_record gone;

	ends += sp_test_span_remove(a.span_id, &gone);
}

static void end_a_and_begin_b(void)
{
	end_a();
	MUST(sp_span_table_add(&b) == 0);
}

static bool a_has_ended_once(void)
{
	return ends == 1 && !sp_span_table_by_id(a.span_id, &found) &&
	       !sp_span_table_by_handle(a.handle, &found) && sp_span_table_count() == OTHERS;
}

static bool a_has_ended_once_and_b_is_there(void)
{
	return ends == 1 && !sp_span_table_by_id(a.span_id, &found) &&
	       sp_span_table_by_id(b.span_id, &found) && is_whole(&found, &b) &&
	       sp_span_table_by_handle(b.handle, &found) && is_whole(&found, &b) &&
	       sp_span_table_count() == OTHERS + 1;
}

static unsigned race_in_table(void)
{
	static const struct race races[] = {
		{"a root's name", open_a, read_root_name, replace_a_by_b, is_name_of_a, 10},
		{"a root's name, and its id comes again", open_a, read_root_name,
		 replace_a_by_its_like, is_name_of_a, 10},
		{"a span by its id", open_a, find_by_id, replace_a_by_b, found_a_or_nothing, 20},
		{"a span by its object", open_a, find_by_handle, replace_a_by_b,
		 found_one_or_nothing, 20},
		{"all spans, one by one", open_a_and_find_its_place, read_the_next, replace_a_by_b,
		 found_one, 20},
		{"a late note", open_a, note_a, replace_a_by_b, b_has_no_sample, 10},
		{"a note and the next span's", open_a, note_a, replace_and_note_b, b_has_a_sample,
		 10},
		{"a late name", open_a, rename_a, replace_a_by_b, b_has_its_names, 10},
		{"two ends", open_a_not_ended, end_a, end_a, a_has_ended_once, 20},
		{"an end and the next span", open_a_not_ended, end_a, end_a_and_begin_b,
		 a_has_ended_once_and_b_is_there, 20},
	};
	struct sp_span_record first[] = {record_of(1), record_of(2)};
	struct sp_span_record gone;
	unsigned bad = 0;

	/* A and B take their entries, so that lookups find others behind either. */
	for (size_t i = 0; i < SP_ARRAY_LEN(first); i++)
		MUST(sp_span_table_add(&first[i]) == 0);
	open_others();
	for (size_t i = 0; i < SP_ARRAY_LEN(first); i++)
		MUST(sp_test_span_remove(first[i].span_id, &gone));
	a.span_id = 1;
	for (int same = 0; same < 2; same++) {
		same_handle = same != 0;
		for (size_t i = 0; i < SP_ARRAY_LEN(races); i++)
			bad += race_run(&races[i]);
	}
	return bad;
}

/* --- Rows of unwinding rules ---------------------------------------------------------------------- */

#define PC UINT64_C(0x401000)
#define IDENTITY UINT64_C(0x123456789abcdef)
#define OTHER_IDENTITY UINT64_C(0xfedcba987654321)

static const struct sp_compact_rule rule_one = {.word = {16, 1, 64}};
static const struct sp_compact_rule rule_two = {.word = {32, 2, 128}};
static struct sp_compact_rule rule;

static void keep_one(void)
{
	/* at both slots that it may have */
	for (int i = 0; i < 64; i++) {
		sp_rule_cache_keep(PC, OTHER_IDENTITY + (uint64_t)i, &rule_one);
		sp_rule_cache_keep(PC, IDENTITY, &rule_one);
	}
	MUST(sp_rule_cache_find(sp_rule_cache(), PC, IDENTITY, &rule));
	is_found = false;
}

static void find_rule(void)
{
	is_found = sp_rule_cache_find(sp_rule_cache(), PC, IDENTITY, &rule);
}

static void keep_others(void)
{
	for (uint64_t i = 0; i < 64; i++)
		sp_rule_cache_keep(PC, OTHER_IDENTITY + i, &rule_two);
}

static bool rule_is_one(void)
{
	return !is_found || memcmp(&rule, &rule_one, sizeof(rule)) == 0;
}

static void keep_other(void)
{
	sp_rule_cache_keep(PC, OTHER_IDENTITY, &rule_two);
}

static unsigned race_for_rows(void)
{
	static const struct race races[] = {
		{"a rule that is replaced", keep_one, find_rule, keep_others, rule_is_one, 10},
		{"a rule that is being kept", keep_one, keep_other, find_rule, rule_is_one, 10},
	};

	return race_run(&races[0]) + race_run(&races[1]);
}

/* --- What was installed for our signal before ------------------------------------------------------ */

static struct sp_signals_action plain;
static struct sp_signals_action full;
static struct sp_signals_action got;

static void no_handler(int signo)
{
	(void)signo;
}

static void no_action(int signo, siginfo_t *si, void *ucontext)
{
	(void)signo;
	(void)si;
	(void)ucontext;
}

/* Twice, so that nothing remains of the earlier state, wherever it is stored. */
static void set_plain(void)
{
	sp_signals_use(SIGURG, &plain);
	sp_signals_use(SIGURG, &plain);
}

static void set_full(void)
{
	sp_signals_use(SIGURG, &full);
}

static void read_action(void)
{
	got = sp_signals_before(SIGURG);
}

static bool is_one_action(void)
{
	return memcmp(&got, &plain, sizeof(got)) == 0 || memcmp(&got, &full, sizeof(got)) == 0;
}

static unsigned race_for_action(void)
{
	static const struct race races[] = {
		{"a disposition that is replaced", set_plain, read_action, set_full, is_one_action,
		 10},
		{"a disposition that is being set", set_plain, set_full, read_action, is_one_action,
		 10},
	};

	plain.plain = no_handler;
	full.action = no_action;
	full.flags = SA_SIGINFO | SA_RESTART;
	full.mask = ~UINT64_C(0);
	return race_run(&races[0]) + race_run(&races[1]);
}

/* --- A sample of an allocation: its span ends on another thread ------------------------------------ */

static _Alignas(4096) char memory[SP_RING_BYTES(SP_RING_SIZE_MIN)];
static struct sp_channel channel = {.number = 1};
static struct sp_ring consumer;
static struct sp_thread *own;
static unsigned sampled_in_a;
static unsigned ended_a;
static unsigned values_of_a;
static unsigned without_values;
static unsigned with_values;

static void end_a_elsewhere(void)
{
	struct sp_span_record r;

	if (!sp_span_table_by_id(a.span_id, &r))
		return;
	MUST(sp_span_table_close(&r));
	sp_span_report_end(&r);
	sp_span_table_release(&r);
}

static void begin_a(void)
{
	end_a_elsewhere();
	a = record_of(a.span_id + ID_STEP);
	a.name_id = a.root_name_id = 0;
	MUST(sp_span_table_add(&a) == 0);
	sp_span_values_set(&a, 0, SP_SPAN_VALUE_TEXT, "x", 1);
	sp_span_stack_push(&own->spans, a.span_id, 1);
}

static void sample_in_a(void)
{
	const struct sp_allocation_caller caller = {
		(uintptr_t)__builtin_return_address(0),
		(uintptr_t)__builtin_frame_address(0),
		(uintptr_t)__builtin_frame_address(0),
	};

	MUST(sp_allocation_sample(own, 1000, 1, &caller));
}

static void see(const struct sp_record *record, void *arg)
{
	(void)arg;
	if (record->kind == SP_RECORD_SAMPLE)
		sampled_in_a = record->sample.span_id == a.span_id;
	/* An end before the sample may be forgotten by then. */
	else if (record->kind == SP_RECORD_SPAN_ENDED)
		ended_a += sampled_in_a;
	else if (record->kind == SP_RECORD_SPAN_VALUES)
		values_of_a++;
}

static bool end_is_told(void)
{
	end_a_elsewhere();
	(void)sp_span_stack_pop(&own->spans, 1, false);
	sampled_in_a = ended_a = values_of_a = 0;
	while (sp_ring_drain(&consumer, see, NULL, 64) != 0)
		;
	without_values += sampled_in_a != 0 && values_of_a == 0;
	with_values += sampled_in_a != 0 && values_of_a != 0;
	return sampled_in_a == 0 || ended_a != 0;
}

static unsigned race_for_end(void)
{
	static const struct race race = {"a span that another thread ends",
					 begin_a,
					 sample_in_a,
					 end_a_elsewhere,
					 end_is_told,
					 200};
	unsigned bad;

	sp_process_set();
	MUST(sp_names_init(8) == 0 && sp_thread_init() == 0);
	own = sp_thread_self();
	MUST(own != NULL && sp_span_values_init("n", false) == 0);
	MUST(sp_ring_at(&channel.ring, memory, sizeof(memory)) == 0);
	MUST(sp_ring_at(&consumer, memory, sizeof(memory)) == 0);
	atomic_store(&sp_channel_open, &channel);
	sp_allocation_init(1);
	sp_handler_setup.always_snapshot = true; /* no walk, and no room for a later one */
	sp_active_span_label_scopes =
		(struct sp_active_span_label_scopes){.id = SP_SCOPE_ALL, .root = true};
	bad = race_run(&race);
	/* The values belong to a root that ends between the reading of the label and the next instructions. */
	printf("%u samples with the values of their root, %u without\n", with_values,
	       without_values);
	return bad + (without_values > with_values / 3);
}

int main(void)
{
	unsigned bad;

	if (!TRAP_STEP_POSSIBLE) {
		puts("single-stepping by the trap flag needs x86-64 without sanitizer");
		return TRAP_STEP_SKIPPED;
	}
	MUST(race_init() == 0);
	MUST(sp_span_table_init() == 0);
	MUST(sp_rule_cache_init() == 0);
	bad = race_in_table();
	bad += race_for_rows();
	bad += race_for_action();
	bad += race_for_end();
	return bad != 0;
}
