/* SPDX-License-Identifier: Apache-2.0 */
/* Span names out of the region: copied once, and as they were then. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "export/exporter/name_texts.h"
#include "host_double.h"
#include "sampler/region/names.h"

static struct sp_name_texts *names;

static void set_up(void)
{
	host_make();
	names = sp_name_texts_new((char *)host.region + NAMES_AT, NAMES_BYTES);
	cr_assert_not_null(names);
}

TestSuite(name_texts, .init = set_up, .timeout = 20);

static const char *text(uint32_t id)
{
	size_t len;
	const char *s = sp_name_texts_get(names, id, &len);

	cr_assert_eq(strlen(s), len);
	return s;
}

Test(name_texts, are_the_hosts)
{
	uint32_t id = sp_names_intern("GET /", 5);

	cr_expect_str_eq(text(id), "GET /");
	cr_expect_str_eq(text(0), "");
	cr_expect_str_eq(text(id + 1), "");
	sp_name_texts_free(names);
}

Test(name_texts, stay_what_they_were)
{
	uint32_t id = sp_names_intern("GET /", 5);
	const char *before = text(id);

	memset((char *)host.region + NAMES_AT, 0xff, NAMES_BYTES);

	cr_expect_eq(text(id), before);
	cr_expect_str_eq(before, "GET /");
	cr_expect_str_eq(text(id + 1), "");
}

Test(name_texts, that_came_later_are_found_later)
{
	uint32_t id = sp_names_intern("GET /", 5);

	cr_expect_str_eq(text(id), "GET /");
	cr_expect_str_eq(text(sp_names_intern("POST /", 6)), "POST /");
}

Test(name_texts, may_be_many)
{
	uint32_t ids[1000];
	char name[32];

	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "name %u", i);
		ids[i] = sp_names_intern(name, strlen(name));
		cr_assert_str_eq(text(ids[i]), name);
	}
	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "name %u", i);
		cr_assert_str_eq(text(ids[i]), name);
	}
	sp_name_texts_free(names);
}

Test(name_texts, are_clean_whatever_stands_there)
{
	uint32_t id = sp_names_intern("GET /", 5);
	char *at = memmem(host.region, REGION_BYTES, "GET /", 5);

	cr_assert_not_null(at);
	at[2] = '\xff';
	cr_expect_str_eq(text(id), "GE\xef\xbf\xbd /");
}
