/* SPDX-License-Identifier: Apache-2.0 */
/* The query of the older protocol. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "export/profile/gzip.h"
#include "export/push/request.h"

static struct sp_series series;

static void refused(void *arg, const char *name, size_t len, const char *reason)
{
	(void)arg;
	cr_assert_fail("%.*s: %s", (int)len, name, reason);
}

static char *query_of(const char *service, const char *labels)
{
	struct sp_request r = {
		.protocol = SP_PROTOCOL_INGEST,
		.series = &series,
		.from_ns = 1700000000999999999,
		.until_ns = 1700000015000000000,
		.rate_hz = 97,
	};
	char *query;

	core_reset();
	core.config.service_name = service;
	core.config.labels = labels;
	cr_assert_eq(sp_series_init(&series, &core.config, 12, refused, NULL), 0);
	cr_assert_eq(sp_ingest_query(&r, &query), 0);
	return query;
}

Test(ingest, carries_labels_and_times, .timeout = 20)
{
	char *query = query_of("azAZ09", "hostname=h,zone=a");

	cr_expect_str_eq(
		query,
		"?name=azAZ09%7Bservice_name%3DazAZ09%2Cpid%3D12%2Chostname%3Dh%2Czone%3Da%7D"
		"&format=pprof&spyName=spanprof&sampleRate=97&units=samples"
		"&aggregationType=sum&from=1700000000&until=1700000015");
	free(query);
}

Test(ingest, a_name_that_the_grammar_has_no_place_for_is_made_to_fit, .timeout = 20)
{
	char *query = query_of("a b:c,d}e\xc3\xa4/f.g-h", "hostname=h,x=1 & 2=} %");

	cr_expect_eq(strncmp(query, "?name=a_b_c_d_e__/f.g-h%7B", 26), 0, "%s", query);
	cr_expect_not_null(strstr(query, "service_name%3Da%20b%3Ac_d_e%C3%A4%2Ff.g-h%2C"), "%s",
			   query);
	cr_expect_not_null(strstr(query, "%2Cx%3D1%20%26%202%3D_%20%25%7D&"), "%s", query);
	free(query);
}

Test(ingest, a_value_of_spaces_does_not_vanish, .timeout = 20)
{
	char *query = query_of("  ", "x=y");

	cr_expect_not_null(strstr(query, "%7Bservice_name%3D_%20%2C"), "%s", query);
	free(query);
}

Test(ingest, the_body_is_the_compressed_profile, .timeout = 20)
{
	static uint8_t profile[] = "not looked at";
	struct sp_encoded in = {.bytes = {profile, sizeof(profile)}};
	struct sp_request r = {.protocol = SP_PROTOCOL_INGEST, .series = &series};
	struct sp_message m;
	struct sp_bytes plain;

	free(query_of("shop", NULL));
	cr_assert_eq(sp_request_make(&r, &in, &m), 0);
	cr_assert_eq(sp_gzip_unpack(m.body.data, m.body.len, 100, &plain), 0);

	cr_expect_eq(plain.len, sizeof(profile));
	cr_expect_eq(memcmp(plain.data, profile, sizeof(profile)), 0);
	cr_expect_not_null(m.query);
	free(plain.data);
	free(in.packed.data);
	sp_message_fini(&m);
}
