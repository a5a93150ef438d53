/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sampler/region/names.c. Each test is its own process, so each starts without a table. */
#include "sampler/region/names.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "sampler/region/ring.h"
#include "test/common/own_memory.h"
#include "test/unit/emulated.h"

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

Test(names, tells_names_apart_at_every_length, .timeout = 20)
{
	uint32_t ids[70];
	char name[70];

	cr_assert_eq(sp_names_init(100), 0);
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

Test(names, names_the_nameless, .timeout = 20)
{
	cr_assert_eq(sp_names_init(10), 0);

	cr_expect_str_eq(text(sp_names_intern("", 0)), "(unnamed)");
	cr_expect_str_eq(text(sp_names_intern(NULL, 0)), "(unnamed)");
	cr_expect_eq(intern("(unnamed)"), sp_names_intern("", 0));
}

Test(names, knows_no_text_for_ids_it_never_gave, .timeout = 20)
{
	cr_assert_eq(sp_names_init(10), 0);
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

	cr_assert_eq(sp_names_init(1000), 0);
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
	cr_assert_eq(sp_names_init(UINT32_MAX), 0);
	for (unsigned i = 0; i < SP_NAMES_MAX; i++)
		intern_number(i);
	cr_expect_eq(over_limit(), 0);

	intern_number(SP_NAMES_MAX);
	cr_expect_eq(over_limit(), 1);
	cr_expect_str_eq(text(intern_number(77777)), "operation-77777");
}

Test(names, becomes_other_when_the_texts_are_full, .timeout = 20)
{
	char name[SP_NAME_MAX];
	unsigned stored = 0;

	cr_assert_eq(sp_names_init(SP_NAMES_MAX), 0);
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

	cr_assert_eq(sp_names_init(10), 0);
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
	cr_assert_eq(sp_names_init(10), 0);
	uint32_t id = intern("caf\xe9");

	cr_expect_str_eq(text(id), "caf" FFFD);
	cr_expect_eq(intern("caf\xe9"), id);
	cr_expect_eq(intern("caf" FFFD), id);
	cr_expect_eq(over_limit(), 0);
}

Test(names, has_one_table, .timeout = 20)
{
	cr_assert_eq(sp_names_init(10), 0);
	uint32_t id = intern("kept");

	cr_assert_eq(sp_names_init(99), 0);
	cr_expect_eq(intern("kept"), id);
}

Test(names, leaves_errno_alone, .timeout = 20)
{
	errno = 1234;
	cr_expect_eq(sp_names_init(10), 0);
	cr_expect_neq(intern("caf\xe9"), 0);
	cr_expect_eq(errno, 1234);
}

/* The ids in the ring, in order. */
static unsigned told(struct sp_ring *ring, uint32_t ids[8])
{
	struct sp_name_record r;
	unsigned n = 0;
	uint32_t kind;
	size_t len;

	for (; sp_ring_take(ring, &kind, &r, sizeof(r)) != 0; n++) {
		const char *text = sp_names_text(r.head.id, &len);

		cr_assert_lt(n, 8);
		cr_assert_eq(kind, SP_RECORD_NAME);
		cr_assert_eq(r.head.len, len);
		cr_assert_eq(memcmp(r.text, text, len), 0);
		ids[n] = r.head.id;
	}
	return n;
}

Test(names, are_told_once_in_each_channel, .timeout = 20)
{
	struct sp_channel a = {.number = 1};
	struct sp_channel b = {.number = 2};
	uint32_t ids[8];

	cr_assert(ring_init(&a.names, 8192) == 0 && ring_init(&b.names, 8192) == 0);
	cr_assert_eq(sp_names_init(10), 0);
	uint32_t get = intern("GET /users");
	uint32_t put = intern("PUT");

	cr_expect(sp_names_announce(&a, put) && sp_names_announce(&a, get) &&
		  sp_names_announce(&a, put));
	cr_expect_eq(told(&a.names, ids), 2);
	cr_expect(ids[0] == put && ids[1] == get);
	cr_expect(sp_names_announce(&b, get));
	cr_expect_eq(told(&b.names, ids), 1);
	cr_expect(sp_names_announce(&b, 0) && sp_names_announce(&b, put + 1) &&
		  sp_names_announce(&b, UINT32_MAX));
	cr_expect_eq(told(&b.names, ids), 0, "no names");
}

Test(names, that_found_no_room_are_told_again, .timeout = 20)
{
	struct sp_channel o = {.number = 1};
	uint64_t filler[500] = {0};
	uint32_t ids[8];
	uint32_t id;

	cr_assert_eq(sp_names_init(10), 0);
	id = intern("GET /users");
	cr_expect_not(sp_names_announce(&o, id), "there is no ring");
	cr_assert_eq(ring_init(&o.names, 8192), 0);
	while (sp_ring_put(&o.names, SP_RECORD_NAME, filler, sizeof(filler)) == 0)
		;
	while (sp_ring_put(&o.names, SP_RECORD_NAME, filler, 8) == 0)
		;
	cr_expect_not(sp_names_announce(&o, id));
	cr_expect_not(sp_names_announce(&o, id));
	while (sp_ring_take(&o.names, ids, filler, sizeof(filler)) != 0)
		;
	cr_expect(sp_names_announce(&o, id));
	cr_expect_eq(told(&o.names, ids), 1);
	cr_expect_eq(ids[0], id);
}

Test(names, of_a_parent_are_those_of_its_forked_child, .timeout = 20)
{
	uint32_t id;
	int status = -1;
	pid_t pid;

	cr_assert_eq(sp_names_init(10), 0);
	id = intern("GET /users");
	pid = fork();
	if (pid == 0) {
		bool same = intern("GET /users") == id && strcmp(text(id), "GET /users") == 0;

		_exit(same && intern("of the child") != id ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect_str_eq(text(intern("of the parent")), "of the parent");
}

/* As many as the limit allows, or none. */
Test(names, are_fewer_where_memory_is_limited, .timeout = 20)
{
	struct rlimit limit = {.rlim_cur = 64 << 20, .rlim_max = RLIM_INFINITY};
	unsigned n = 0;

	if (emulated())
		cr_skip_test("the emulator does not have that limit");
#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("the sanitizer takes terabytes");
#endif
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	cr_assert_eq(sp_names_init(SP_NAMES_MAX), 0);
	while (n < 10000 && over_limit() == 0)
		(void)intern_number(n++);
	cr_expect(n > 100 && n < 10000, "%u", n);
}

Test(names, without_any_address_there_is_no_table, .timeout = 20)
{
	struct rlimit was;
	struct rlimit none;
	int err;

	if (emulated())
		cr_skip_test("the emulator does not have that limit");
	cr_assert_eq(getrlimit(RLIMIT_AS, &was), 0);
	none = was;
	none.rlim_cur = 1;
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	err = sp_names_init(SP_NAMES_MAX);
	cr_assert_eq(setrlimit(RLIMIT_AS, &was), 0);
	cr_expect_eq(err, -ENOMEM, "%d", err);
	cr_expect_eq(intern("a name"), 0);
}
