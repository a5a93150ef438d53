/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sampler/region/names.c. Each test is its own process, so each starts without a table. */
#include "sampler/region/names.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sampler/base/counters.h"
#include "test/common/own_memory.h"

#define FFFD "\xef\xbf\xbd"

static uint32_t intern(const char *name)
{
	return sp_names_intern(name, strlen(name));
}

static const char *text(uint32_t id)
{
	size_t len;
	const char *s = sp_names_text(id, &len);

	cr_assert_eq(len, strlen(s));
	return s;
}

static uint32_t intern_number(unsigned i)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "operation-%u", i);
	return intern(name);
}

static uint64_t over_limit(void)
{
	return sp_count_read(SP_COUNT_NAMES_OTHER);
}

Test(names, gives_nothing_before_init, .timeout = 20)
{
	size_t len = 99;

	cr_expect_eq(intern("early"), 0);
	cr_expect_str_eq(sp_names_text(1, &len), "");
	cr_expect_eq(len, 0);
}

Test(names, returns_the_same_id_for_the_same_name, .timeout = 20)
{
	cr_assert_eq(names_init(10), 0);
	uint32_t a = intern("GET /users");
	uint32_t b = intern("GET /orders");

	cr_expect_neq(a, 0);
	cr_expect_neq(a, b);
	cr_expect_eq(intern("GET /users"), a);
	cr_expect_eq(intern("GET /orders"), b);
	cr_expect_str_eq(text(a), "GET /users");
	cr_expect_str_eq(text(b), "GET /orders");
	cr_expect_neq(intern("GET /user"), a, "a prefix is another name");
}

Test(names, tells_names_apart_at_every_length, .timeout = 20)
{
	uint32_t ids[70];
	char name[70];

	cr_assert_eq(names_init(100), 0);
	memset(name, 'a', sizeof(name));
	for (size_t len = 1; len < 70; len++)
		ids[len] = sp_names_intern(name, len);

	for (size_t len = 1; len < 70; len++) {
		size_t got;

		cr_expect_eq(sp_names_intern(name, len), ids[len]);
		cr_expect_eq(memcmp(sp_names_text(ids[len], &got), name, len), 0);
		cr_expect_eq(got, len);
	}
	cr_expect_eq(over_limit(), 0);
}

Test(names, keeps_the_copy_when_the_caller_reuses_its_buffer, .timeout = 20)
{
	char name[] = "first";

	cr_assert_eq(names_init(10), 0);
	uint32_t id = intern(name);
	memcpy(name, "other", 5);

	cr_expect_str_eq(text(id), "first");
	cr_expect_neq(intern(name), id);
}

Test(names, names_the_nameless, .timeout = 20)
{
	cr_assert_eq(names_init(10), 0);

	cr_expect_str_eq(text(sp_names_intern("", 0)), "(unnamed)");
	cr_expect_str_eq(text(sp_names_intern(NULL, 0)), "(unnamed)");
	cr_expect_eq(intern("(unnamed)"), sp_names_intern("", 0));
}

Test(names, knows_no_text_for_ids_it_never_gave, .timeout = 20)
{
	cr_assert_eq(names_init(10), 0);
	uint32_t id = intern("only");
	unsigned texts = 0;

	for (uint32_t i = 0; i < 100000; i++)
		texts += text(i)[0] != '\0';
	cr_expect_eq(texts, 3, "only, (other) and (unnamed)");
	cr_expect_str_eq(text(id), "only");
	cr_expect_str_eq(text(UINT32_MAX), "");
}

Test(names, stores_up_to_the_limit_and_counts_what_is_over_it, .timeout = 20)
{
	char want[32];

	cr_assert_eq(names_init(1000), 0);
	for (unsigned i = 0; i < 999; i++)
		intern_number(i);
	cr_expect_str_eq(text(intern_number(999)), "operation-999", "the last one that fits");
	cr_expect_eq(over_limit(), 0);

	cr_expect_str_eq(text(intern_number(1000)), "(other)");
	cr_expect_eq(over_limit(), 1);
	cr_expect_str_eq(text(intern_number(1000)), "(other)");
	cr_expect_eq(over_limit(), 2, "every use of a name over the limit counts");

	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(want, sizeof(want), "operation-%u", i);
		cr_expect_str_eq(text(intern_number(i)), want);
	}
	cr_expect_str_eq(text(sp_names_intern("", 0)), "(unnamed)");
	cr_expect_eq(over_limit(), 2, "known names stay known");
}

Test(names, holds_the_largest_limit, .timeout = 20)
{
	cr_assert_eq(names_init(UINT32_MAX), 0);
	for (unsigned i = 0; i < SP_NAMES_MAX; i++)
		intern_number(i);
	cr_expect_eq(over_limit(), 0);

	intern_number(SP_NAMES_MAX);
	cr_expect_eq(over_limit(), 1);
	cr_expect_str_eq(text(intern_number(77777)), "operation-77777");
}

Test(names, becomes_other_when_the_texts_are_full, .timeout = 20)
{
	char name[SP_NAMES_MAX_BYTES];
	unsigned stored = 0;

	cr_assert_eq(names_init(SP_NAMES_MAX), 0);
	memset(name, 'n', sizeof(name));
	for (unsigned i = 0; i < 10000; i++) {
		(void)snprintf(name, 16, "%08u", i);
		name[8] = '-';
		stored += strcmp(text(sp_names_intern(name, sizeof(name))), "(other)") != 0;
	}

	cr_expect_gt(stored, 8000);
	cr_expect_lt(stored, 10000);
	cr_expect_eq(over_limit(), 10000 - stored);
}

Test(names, cuts_at_2048_bytes_and_never_inside_a_character, .timeout = 20)
{
	char name[2100];
	size_t len;

	cr_assert_eq(names_init(10), 0);
	memset(name, 'x', sizeof(name));
	for (size_t n = 2047; n <= 2049; n++) {
		(void)sp_names_text(sp_names_intern(name, n), &len);
		cr_expect_eq(len, n < 2048 ? n : 2048, "length %zu", n);
	}
	cr_expect_eq(sp_names_intern(name, 2048), sp_names_intern(name, 2100));

	memcpy(name + 2047, "\xc3\xa9", 2);
	(void)sp_names_text(sp_names_intern(name, 2049), &len);
	cr_expect_eq(len, 2047);
	memcpy(name + 2046, "\xc3\xa9", 2);
	(void)sp_names_text(sp_names_intern(name, 2049), &len);
	cr_expect_eq(len, 2048);
}

Test(names, repairs_invalid_utf8_to_one_and_the_same_name, .timeout = 20)
{
	cr_assert_eq(names_init(10), 0);
	uint32_t id = intern("caf\xe9");

	cr_expect_str_eq(text(id), "caf" FFFD);
	cr_expect_eq(intern("caf\xe9"), id);
	cr_expect_eq(intern("caf" FFFD), id);
	cr_expect_eq(over_limit(), 0);
}

Test(names, has_one_table, .timeout = 20)
{
	cr_assert_eq(names_init(10), 0);
	uint32_t id = intern("kept");

	cr_assert_eq(names_init(99), -EEXIST);
	cr_expect_eq(intern("kept"), id);
}

Test(names, leaves_errno_alone, .timeout = 20)
{
	errno = 1234;
	cr_expect_eq(names_init(10), 0);
	cr_expect_neq(intern("caf\xe9"), 0);
	cr_expect_eq(errno, 1234);
}

static _Alignas(4096) char memory[2][4 << 20];

static void expect_read(const void *from, uint32_t id, const char *want)
{
	char name[SP_NAMES_MAX_BYTES];
	size_t len = sp_names_read(from, sizeof(memory[0]), id, name, sizeof(name));

	cr_expect_eq(len, strlen(want), "%s: %zu", want, len);
	cr_expect_eq(memcmp(name, want, len), 0, "%s", want);
}

Test(names, can_be_read_by_who_has_the_memory, .timeout = 20)
{
	uint32_t id;

	cr_assert_leq(sp_names_bytes(1000), sizeof(memory[0]));
	cr_assert_eq(sp_names_init_at(memory[0], sizeof(memory[0]), 1000), 0);
	id = intern("GET /users");

	expect_read(memory[0], id, "GET /users");
	expect_read(memory[0], sp_names_intern("", 0), "(unnamed)");
	expect_read(memory[0], 0, "");
	expect_read(memory[0], id + 1, "");
	expect_read(memory[0], UINT32_MAX, "");
}

Test(names, takes_no_memory_that_is_too_small, .timeout = 20)
{
	cr_expect_eq(sp_names_init_at(memory[0], sp_names_bytes(1000) - 1, 1000), -EINVAL);
	cr_expect_eq(intern("early"), 0);
	cr_expect_eq(sp_names_init_at(memory[0], sizeof(memory[0]), 1000), 0);
	cr_expect_eq(sp_names_init_at(memory[1], sizeof(memory[1]), 1000), -EEXIST);
}

Test(names, goes_on_in_other_memory_with_the_same_ids, .timeout = 20)
{
	uint32_t a;
	uint32_t b;

	cr_assert_eq(sp_names_init_at(memory[0], sizeof(memory[0]), 1000), 0);
	a = intern("GET /users");
	cr_assert_eq(sp_names_move(memory[1], sp_names_bytes(1000) - 1), -EINVAL);
	cr_assert_eq(sp_names_move(memory[1], sizeof(memory[1])), 0);
	memset(memory[0], 0xff, sizeof(memory[0]));

	b = intern("GET /orders");
	cr_expect_eq(intern("GET /users"), a);
	cr_expect_str_eq(text(a), "GET /users");
	expect_read(memory[1], a, "GET /users");
	expect_read(memory[1], b, "GET /orders");
	expect_read(memory[0], a, "");
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return *state >> 33;
}

/* Both sides, under the sanitizers: whatever stands there, nothing outside is touched. */
Test(names, survives_any_words_in_its_memory, .timeout = 60)
{
	size_t bytes = sp_names_bytes(8);
	char *end = memory[1];
	uint64_t state = 1;
	char name[64];
	size_t len;

	cr_assert_eq(sp_names_init_at(end - bytes, bytes, 8), 0);
	for (unsigned round = 0; round < 20000; round++) {
		uint32_t word = (uint32_t)next_random(&state) &
				(next_random(&state) % 2 != 0 ? UINT32_MAX : 0xffff);
		/* the head is worth most of it */
		size_t at = next_random(&state) % (next_random(&state) % 2 != 0 ? 8 : bytes / 4);
		uint32_t id = (uint32_t)next_random(&state) % 5000;

		memcpy(end - bytes + at * 4, &word, sizeof(word));
		len = sp_names_read(end - bytes, bytes, id, name, sizeof(name));
		cr_assert_leq(len, sizeof(name));
		(void)intern_number(round % 20);
		(void)sp_names_text(id, &len);
		cr_assert_leq(len, SP_NAMES_MAX_BYTES);
	}
}
