/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of spans beside a model of it that is as simple as the rules: a list without end, whose
 * entries are looked through from the top. test/stress/span_stack_step.c looks between the
 * instructions.
 */
#include "sampler/open_spans/span_stack.h"

#include <criterion/criterion.h>
#include <string.h>

#define SPANS 400U /* their ids are 1 to this */
#define ROOTS 6U
#define STORAGE 3U

static struct sp_span_stack stack;

/* --- The model ------------------------------------------------------------------------------------ */

static struct {
	uint64_t id;
	uint64_t token;
} list[4096];
static unsigned entries;
static struct {
	bool open;
	bool started; /* on this stack */
	struct sp_span_record record;
} spans[SPANS + 1];
static bool silent;
/*
 * A program may attach the same context twice. Beyond the last frame only the usual order of detaches is
 * understood then.
 */
static bool same_tokens;
/* All starts are scopes: otherwise most of what is deep interleaves with something. */
static bool scopes_only;
/* Something has been beyond the last frame since the list was empty. */
static bool was_beyond;

static bool is_open(uint64_t id)
{
	return id <= SPANS && spans[id].open;
}

static bool stands_in(uint64_t token)
{
	return token == SP_SPAN_STANDS_IN || token == SP_SPAN_YIELDS;
}

static bool counts(unsigned at)
{
	uint64_t token = list[at].token;

	return !(token == SP_SPAN_YIELDS && atomic_load(&sp_span_stack_scoped)) &&
	       !(silent && token < SP_SPAN_NO_SCOPE && token % SP_SPAN_STORAGES == STORAGE);
}

static bool is_started(uint64_t token)
{
	return token == SP_SPAN_STARTED || stands_in(token);
}

/* Also of SP_SPAN_NONE the id, if an attached span has ended. */
static enum sp_span_active model(uint64_t *id)
{
	*id = 0;
	for (unsigned i = entries; i-- > 0;) {
		if (!counts(i))
			continue;
		*id = list[i].id;
		if (sp_span_token_is_label(list[i].token))
			return SP_SPAN_LABEL;
		if (!is_open(list[i].id) && is_started(list[i].token))
			continue;
		if (!is_open(list[i].id))
			return SP_SPAN_NONE;
		for (unsigned k = i; stands_in(list[i].token) && k-- > 0;) {
			if (counts(k) && stands_in(list[k].token) && is_open(list[k].id) &&
			    spans[list[k].id].record.root_id != spans[*id].record.root_id &&
			    spans[list[k].id].record.sdk == spans[*id].record.sdk)
				return SP_SPAN_INTERLEAVED;
		}
		return SP_SPAN_KNOWN;
	}
	*id = 0;
	return SP_SPAN_NONE;
}

static bool is_empty(void)
{
	for (unsigned i = 0; i < entries; i++) {
		if (!is_started(list[i].token) || is_open(list[i].id))
			return false;
	}
	return true;
}

static void check(const char *what)
{
	struct sp_span_record r;
	enum sp_span_active is = sp_span_stack_peek(&stack, &r);
	uint64_t id;
	enum sp_span_active should = model(&id);

	was_beyond = (was_beyond && !is_empty()) || sp_span_stack_is_beyond(&stack);
	if (is == SP_SPAN_KNOWN || is == SP_SPAN_LABEL) {
		cr_assert_eq(is, should, "%s: %d instead of %d", what, is, should);
		cr_assert_eq(r.span_id, id, "%s", what);
		cr_assert(is == SP_SPAN_LABEL || r.root_id == spans[id].record.root_id);
	} else if (is == SP_SPAN_ROOT_ALONE) {
		/* The root goes on while what is attached beyond the last frame has ended. */
		cr_assert(should == SP_SPAN_KNOWN || should == SP_SPAN_NONE,
			  "%s: a root instead of %d", what, should);
		cr_assert(id <= SPANS && r.root_id == spans[id].record.root_id, "%s", what);
	} else if (!was_beyond) {
		cr_assert_eq(is, should, "%s: %d instead of %d", what, is, should);
	}
}

/* --- Operations, on both -------------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252;

static unsigned below(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)((seed >> 11) % n);
}

static void push(uint64_t id, uint64_t token)
{
	(void)sp_span_stack_push(&stack, id, token);
	list[entries].id = id;
	list[entries++].token = token;
}

static uint64_t key(void)
{
	static uint64_t last;

	return same_tokens ? 1 + below(20) : ++last;
}

/* A child of what lies on top, or a span of any root. */
static void open_span(uint64_t id, bool started)
{
	struct sp_span_record *r = &spans[id].record;
	uint64_t root = 1000 + below(ROOTS);

	if (entries != 0 && list[entries - 1].id <= SPANS && below(4) != 0)
		root = spans[list[entries - 1].id].record.root_id;
	*r = (struct sp_span_record){
		.span_id = id, .root_id = root, .handle = id, .sdk = (uint8_t)below(2)};
	if (started)
		r->beyond = sp_span_stack_place(&stack);
	spans[id].started = started;
	cr_assert_eq(sp_span_table_add(r), 0);
	spans[id].open = true;
}

static uint64_t closed_span(void)
{
	for (;;) {
		uint64_t id = 1 + below(SPANS);

		if (!spans[id].open)
			return id;
	}
}

static void start(uint64_t token)
{
	uint64_t id = closed_span();

	/* An id never comes again; here the model would take the frame of the earlier span for it. */
	for (unsigned i = 0; i < entries; i++) {
		if (list[i].id == id)
			return;
	}
	open_span(id, true);
	push(id, token);
}

static void attach(uint32_t storage)
{
	uint64_t id = 1 + below(SPANS);
	uint64_t token = sp_span_token_of(storage, key());

	for (unsigned i = 0; i < entries && !spans[id].open; i++) {
		if (list[i].id == id)
			return;
	}
	if (below(3) != 0 && !spans[id].open)
		open_span(id, false);
	push(below(8) != 0 ? id : SP_SPAN_BLANK, token);
}

static void end_here(uint64_t id)
{
	struct sp_span_record *r = &spans[id].record;

	cr_assert(sp_span_table_close(r));
	if (spans[id].started)
		sp_span_stack_ended(&stack, r);
	else
		sp_span_stack_strike(&stack);
	sp_span_table_release(r);
	spans[id].open = false;
}

static void end_elsewhere(uint64_t id)
{
	cr_assert(sp_span_table_close(&spans[id].record));
	sp_span_stack_strike(&stack);
	sp_span_table_release(&spans[id].record);
	spans[id].open = false;
}

static void remove_entry(unsigned at, bool through)
{
	if (through)
		entries = at;
	else
		memmove(&list[at], &list[at + 1], (--entries - at) * sizeof(list[0]));
}

static void detach(uint64_t token, bool through)
{
	(void)sp_span_stack_pop(&stack, token, through);
	for (unsigned i = entries; i-- > 0;) {
		if (list[i].token == token) {
			/* What a silent storage says of others is worth nothing. */
			remove_entry(i, through && counts(i));
			return;
		}
	}
}

static void forget(bool silent_only)
{
	sp_span_stack_pop_scopes(&stack, silent_only);
	for (unsigned i = entries; i-- > 0;) {
		if (list[i].token < SP_SPAN_NO_SCOPE && !is_started(list[i].token) &&
		    (!silent_only || !counts(i)))
			remove_entry(i, false);
	}
}

static void step(unsigned depth)
{
	uint64_t id = 1 + below(SPANS);
	unsigned at = entries != 0 ? entries - 1 - below(entries < 6 ? entries : 6) : 0;
	uint64_t token = entries != 0 ? list[at].token : 0;

	switch (below(entries < depth ? 12 : 6)) {
	case 0:
	case 1:
		if (entries != 0 && is_open(list[at].id))
			end_here(list[at].id);
		check("an end here");
		break;
	case 2:
		if (is_open(id) && below(8) == 0)
			end_elsewhere(id);
		check("an end elsewhere");
		break;
	case 3:
	case 4:
		if (entries != 0 && !is_started(token))
			detach(token, below(2) != 0);
		check("a detach");
		break;
	case 5:
		if (below(100) == 0)
			forget(below(2) != 0);
		check("scopes forgotten");
		break;
	case 6:
	case 7:
		start(scopes_only     ? SP_SPAN_STARTED
		      : below(2) != 0 ? SP_SPAN_STANDS_IN
				      : SP_SPAN_YIELDS);
		check("a start that stands in");
		break;
	case 8:
		start(SP_SPAN_STARTED);
		check("a start");
		break;
	case 9:
		push(500 + below(9), sp_span_token_of_label((uint32_t)key(), 7));
		check("a manual label");
		break;
	default:
		attach(below(3) != 0 ? 0 : STORAGE);
		check("an attach");
		break;
	}
}

static void set_up(void)
{
	cr_assert_eq(sp_span_table_init(), 0);
}

TestSuite(span_stack, .init = set_up, .timeout = 60);

/* A new stack as often as it takes for everything to have met everything. */
static void walk(unsigned depth, unsigned steps)
{
	same_tokens = depth < 20;
	for (unsigned turn = 0; turn < 60; turn++) {
		for (unsigned id = 1; id <= SPANS; id++) {
			if (spans[id].open)
				end_elsewhere(id);
		}
		sp_span_stack_clear(&stack);
		entries = 0;
		was_beyond = false;
		scopes_only = turn % 2 != 0;
		silent = false;
		atomic_store(&sp_span_stack_silent, 0);
		atomic_store(&sp_span_stack_scoped, false);
		for (unsigned n = 0; n < steps && entries < 4000; n++) {
			step(depth);
			if (turn % 3 == 1 && n == steps / 3)
				atomic_store(&sp_span_stack_scoped, true);
			if (turn % 3 == 2 && n == steps / 2) {
				silent = true;
				atomic_store(&sp_span_stack_silent, UINT32_C(1) << STORAGE);
			}
		}
	}
}

Test(span_stack, is_as_the_list_says)
{
	walk(12, 4000);
	walk(90, 4000);
}

Test(span_stack, never_shows_another_span_than_the_list_however_deep)
{
	walk(300, 4000);
}

/* --- Facts ---------------------------------------------------------------------------------------- */

static void start_child(uint64_t id, uint64_t token)
{
	spans[id].record = (struct sp_span_record){
		.span_id = id, .root_id = 1, .handle = id, .name_id = (uint32_t)id};
	spans[id].record.beyond = sp_span_stack_place(&stack);
	cr_assert_eq(sp_span_table_add(&spans[id].record), 0);
	spans[id].open = true;
	spans[id].started = true;
	push(id, token);
}

static enum sp_span_active top(uint64_t *id, uint64_t *root)
{
	struct sp_span_record r = {0};
	enum sp_span_active is = sp_span_stack_peek(&stack, &r);

	*id = r.span_id;
	*root = r.root_id;
	return is;
}

Test(span_stack, deeper_than_its_frames_knows_the_root_until_all_of_that_has_ended)
{
	uint64_t id;
	uint64_t root;

	for (uint64_t i = 1; i <= SP_SPAN_DEPTH_MAX + 3; i++)
		start_child(i, SP_SPAN_STANDS_IN);
	/* The last frame's span goes first. */
	end_here(SP_SPAN_DEPTH_MAX);
	for (uint64_t i = SP_SPAN_DEPTH_MAX + 3; i > SP_SPAN_DEPTH_MAX; i--) {
		cr_assert_eq(top(&id, &root), SP_SPAN_ROOT_ALONE);
		cr_assert_eq(root, 1);
		end_here(i);
	}
	cr_assert_eq(top(&id, &root), SP_SPAN_KNOWN);
	cr_assert_eq(id, SP_SPAN_DEPTH_MAX - 1);
}

Test(span_stack, deeper_than_its_frames_is_unknown_where_that_has_another_root)
{
	uint64_t id;
	uint64_t root;

	for (uint64_t i = 1; i <= SP_SPAN_DEPTH_MAX; i++)
		start_child(i, SP_SPAN_STARTED);
	spans[300].record = (struct sp_span_record){.span_id = 300, .root_id = 300, .handle = 300};
	spans[300].record.beyond = sp_span_stack_place(&stack);
	cr_assert_eq(sp_span_table_add(&spans[300].record), 0);
	push(300, SP_SPAN_STARTED);

	cr_assert_eq(top(&id, &root), SP_SPAN_NONE);
	start_child(301, SP_SPAN_STARTED);
	cr_assert_eq(top(&id, &root), SP_SPAN_NONE);
}

Test(span_stack, that_others_have_emptied_is_empty_at_the_next_push)
{
	for (uint64_t i = 1; i <= SP_SPAN_DEPTH_MAX + 3; i++)
		start_child(i, SP_SPAN_STANDS_IN);
	for (uint64_t i = 1; i <= SP_SPAN_DEPTH_MAX + 3; i++)
		end_elsewhere(i);

	start_child(300, SP_SPAN_STANDS_IN);
	cr_assert_eq(atomic_load(&stack.depth), 1);
	cr_assert_not(sp_span_stack_is_beyond(&stack));
}

Test(span_stack, tells_what_a_storage_has_attached)
{
	start_child(1, SP_SPAN_STARTED);
	push(1, sp_span_token_of(STORAGE, 5));
	push(2, sp_span_token_of(0, 5));

	cr_expect_eq(sp_span_stack_attached(&stack, STORAGE), 1);
	cr_expect_eq(sp_span_stack_attached(&stack, 0), 2);
	cr_expect_eq(sp_span_stack_attached(&stack, 1), 0);
	push(SP_SPAN_BLANK, sp_span_token_of(0, 6));
	cr_expect_eq(sp_span_stack_attached(&stack, 0), 0);
}

Test(span_stack, of_a_manual_label_has_name_and_trace)
{
	struct sp_span_record r;

	start_child(1, SP_SPAN_STARTED);
	end_here(1);
	spans[2].record =
		(struct sp_span_record){.span_id = 2, .root_id = 2, .handle = 2, .trace = {5, 6}};
	cr_assert_eq(sp_span_table_add(&spans[2].record), 0);
	push(2, SP_SPAN_STARTED);
	push(77, sp_span_token_of_label(1, 9));
	push(78, sp_span_token_of_label(2, 10));

	cr_assert_eq(sp_span_stack_peek(&stack, &r), SP_SPAN_LABEL);
	cr_expect(r.span_id == 78 && r.root_id == 78 && r.name_id == 10 && r.root_name_id == 10);
	cr_expect(r.trace[0] == 5 && r.trace[1] == 6 && r.ref == 0 && r.root_ref == 0);
	cr_expect_eq(sp_span_stack_peek_span(&stack, &r), SP_SPAN_KNOWN);
	cr_expect_eq(r.span_id, 2);
	cr_expect(sp_span_stack_pop(&stack, sp_span_token_of_label(1, 0), false), "by its level");
	cr_expect_eq(sp_span_stack_peek(&stack, &r), SP_SPAN_LABEL);
	cr_expect_eq(r.span_id, 78);
}
