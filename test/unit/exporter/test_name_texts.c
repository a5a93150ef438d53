/* SPDX-License-Identifier: Apache-2.0 */
/* Span names from their ring: by id, each with its first text. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "export/exporter/member.h"
#include "sampler/base/text.h"
#include "sampler/region/names.h"
#include "test/common/own_memory.h"

#define RING (1U << 16)

static struct sp_name_texts *names;
static struct sp_channel host;
static struct sp_ring ring; /* the same ring, as the exporter sees it */

static void set_up(void)
{
	names = sp_name_texts_new();
	cr_assert_not_null(names);
	cr_assert_eq(sp_names_init(2000), 0);
	cr_assert_eq(ring_init(&host.names, RING), 0);
	host.number = 1;
	cr_assert_eq(sp_ring_at(&ring, host.names.ends, SP_RING_BYTES(RING)), 0);
}

static void tear_down(void)
{
	sp_name_texts_free(names);
}

TestSuite(name_texts, .init = set_up, .fini = tear_down, .timeout = 20);

static uint32_t tell(const char *name)
{
	uint32_t id = sp_names_intern(name, strlen(name));

	cr_assert(sp_names_announce(&host, id));
	return id;
}

/* "?" = unknown. */
static const char *text(uint32_t id)
{
	size_t len;
	const char *s;

	sp_name_texts_drain(names, &ring);
	s = sp_name_texts_get(names, id, &len);
	cr_assert_eq(s != NULL ? strlen(s) : 0, len);
	return s != NULL ? s : "?";
}

Test(name_texts, are_those_that_were_told)
{
	uint32_t id = tell("GET /");

	cr_expect_str_eq(text(id), "GET /");
	cr_expect_str_eq(text(0), "?");
	cr_expect_str_eq(text(sp_names_intern("POST /", 6)), "?");
	cr_expect_str_eq(text(tell("POST /")), "POST /");
	cr_expect_eq(ring.damaged, 0);
}

Test(name_texts, are_of_every_length)
{
	char name[SP_NAME_MAX + 1] = "";

	for (unsigned len = 1; len <= SP_NAME_MAX; len++) {
		name[len - 1] = (char)('a' + len % 26);
		if (len < 70 || len % 173 == 0 || len == SP_NAME_MAX)
			cr_expect_str_eq(text(tell(name)), name);
	}
}

/* One of many profiles may be encoded from the name at this moment. */
Test(name_texts, stay_what_they_were)
{
	const char *before = text(tell("GET /"));
	uint64_t again[3] = {0};
	struct sp_name_head head = {sp_names_intern("GET /", 5), 9};

	memcpy(again, &head, sizeof(head));
	memcpy(again + 1, "something", 9);
	cr_assert_eq(sp_ring_put(&host.names, SP_RECORD_NAME, again, sizeof(again)), 0);

	cr_expect_eq(text(head.id), before);
	cr_expect_str_eq(before, "GET /");
}

Test(name_texts, may_be_many)
{
	uint32_t ids[1000];
	char name[32];

	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "name %u", i);
		ids[i] = tell(name);
		if (i % 7 == 0)
			cr_assert_str_eq(text(ids[i]), name);
	}
	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "name %u", i);
		cr_assert_str_eq(text(ids[i]), name);
	}
}

static uint64_t put(enum sp_record_kind kind, uint32_t id, uint32_t len, const char *bytes,
		    uint64_t words)
{
	uint64_t before = ring.damaged;
	struct sp_name_record r = {{id, len}, ""};

	memcpy(r.text, bytes, strlen(bytes));
	cr_assert_eq(sp_ring_put(&host.names, kind, &r, 8 * words), 0);
	sp_name_texts_drain(names, &ring);
	return ring.damaged - before;
}

Test(name_texts, are_clean_and_whole_whatever_stands_there)
{
	cr_expect_eq(put(SP_RECORD_NAME, 7, 5, "GE\xffT!", 2), 0);
	cr_expect_str_eq(text(7), "GE\xef\xbf\xbdT!");
	cr_expect_eq(put(SP_RECORD_SAMPLE, 8, 5, "GET /", 2), 1, "another kind");
	cr_expect_eq(put(SP_RECORD_NAME, 8, 9, "GET /", 2), 1, "longer than the record");
	cr_expect_eq(put(SP_RECORD_NAME, 8, 5, "GET /", 3), 1, "shorter");
	cr_expect_eq(put(SP_RECORD_NAME, 8, UINT32_MAX, "GET /", 2), 1);
	cr_expect_eq(put(SP_RECORD_NAME, 8, SP_NAME_MAX + 1, "GET /", SP_NAME_MAX / 8 + 1), 1);
	cr_expect_eq(put(SP_RECORD_NAME, 8, 0, "", 1), 1);
	cr_expect_eq(put(SP_RECORD_NAME, 0, 5, "GET /", 2), 1);
	cr_expect_str_eq(text(8), "?");
	cr_expect_str_eq(text(tell("PUT /")), "PUT /");
}
