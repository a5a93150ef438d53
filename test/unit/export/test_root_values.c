/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of roots until profiles are made of their samples: texts, bounds, ages, names. */
#include "export/profile/root_values.h"

#include <criterion/criterion.h>
#include <string.h>

#include "core_double.h"

static struct sp_root_values *values;
static struct sp_span_values record;
static uint32_t used;

static void start(void)
{
	core_reset();
	core.config.span_labels = "http.route,n";
	values = sp_root_values_new(&core.ops);
}

static void stop(void)
{
	sp_root_values_free(values);
}

TestSuite(root_values, .init = start, .fini = stop, .timeout = 60);

static void begin(uint64_t root_id)
{
	memset(&record, 0, sizeof(record));
	record.root_id = root_id;
	used = 0;
}

static void add(unsigned key, enum sp_span_value_type type, const void *value, size_t bytes)
{
	record.value[key].type = (uint16_t)type;
	record.value[key].bytes = (uint16_t)bytes;
	memcpy(record.bytes + used, value, bytes);
	used += SP_SPAN_VALUE_PADDED(bytes);
}

static void tell(uint64_t root_id, const char *text)
{
	begin(root_id);
	add(0, SP_SPAN_VALUE_TEXT, text, strlen(text));
	sp_root_values_take(values, &record);
}

static const char *get(uint64_t root_id, unsigned attribute)
{
	size_t len;

	return sp_root_values_get(values, root_id, attribute, &len);
}

Test(root_values, are_found_for_two_profiles)
{
	tell(1, "/a");
	cr_expect_str_eq(get(1, 0), "/a");
	cr_expect_null(get(1, 1));
	cr_expect_null(get(2, 0));
	sp_root_values_age(values);
	tell(2, "/b");
	cr_expect_str_eq(get(1, 0), "/a");
	cr_expect_str_eq(get(2, 0), "/b");
	sp_root_values_age(values);
	cr_expect_null(get(1, 0));
	cr_expect_str_eq(get(2, 0), "/b");
	sp_root_values_age(values);
	cr_expect_null(get(2, 0));
}

Test(root_values, the_last_ones_of_an_id_count)
{
	tell(1, "/a");
	tell(1, "/b");
	cr_expect_str_eq(get(1, 0), "/b");
	sp_root_values_age(values);
	tell(1, "/c");
	cr_expect_str_eq(get(1, 0), "/c");
}

Test(root_values, numbers_are_written_as_people_write_them)
{
	static const struct {
		double x;
		const char *text;
	} cases[] = {
		{0.1, "0.1"}, {1e300, "1e+300"}, {-2.5, "-2.5"}, {1.0 / 3, "0.3333333333333333"}};
	int64_t least = INT64_MIN;
	uint64_t most = UINT64_MAX;

	begin(1);
	add(0, SP_SPAN_VALUE_INT64, &least, 8);
	add(1, SP_SPAN_VALUE_UINT64, &most, 8);
	sp_root_values_take(values, &record);
	cr_expect_str_eq(get(1, 0), "-9223372036854775808");
	cr_expect_str_eq(get(1, 1), "18446744073709551615");
	begin(2);
	least = 1;
	most = 0;
	add(0, SP_SPAN_VALUE_BOOL, &least, 8);
	add(1, SP_SPAN_VALUE_BOOL, &most, 8);
	sp_root_values_take(values, &record);
	cr_expect_str_eq(get(2, 0), "true");
	cr_expect_str_eq(get(2, 1), "false");
	for (uint64_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(3 + i);
		add(1, SP_SPAN_VALUE_DOUBLE, &cases[i].x, 8);
		sp_root_values_take(values, &record);
		cr_expect_str_eq(get(3 + i, 1), cases[i].text);
	}
}

/* A host may write any bytes. */
Test(root_values, become_valid_text)
{
	begin(1);
	add(0, SP_SPAN_VALUE_TEXT, "a\0b\xff", 4);
	sp_root_values_take(values, &record);
	cr_expect_str_eq(get(1, 0), "a\xef\xbf\xbd"
				    "b\xef\xbf\xbd");
}

Test(root_values, have_bounds_and_tell)
{
	char text[SP_SPAN_VALUE_BYTES + 1];

	for (uint64_t id = 1; id <= SP_ROOT_VALUES_MAX + 10; id++)
		tell(id, "/a");
	cr_expect_eq(core.counter[SP_COUNT_SPAN_VALUES_NO_ROOM], 10);
	cr_expect_str_eq(get(SP_ROOT_VALUES_MAX, 0), "/a");
	cr_expect_null(get(SP_ROOT_VALUES_MAX + 1, 0));
	sp_root_values_age(values);
	memset(text, 'x', sizeof(text));
	text[SP_SPAN_VALUE_BYTES] = '\0';
	for (uint64_t id = 1; id <= SP_ROOT_VALUES_MAX; id++) {
		memcpy(text, &(uint64_t){id | UINT64_C(0x4040404040000000)}, 8);
		for (unsigned i = 0; i < 4; i++)
			text[i] = (char)('a' + (id >> 4 * i & 15));
		tell(id, text);
	}
	cr_expect_geq(core.counter[SP_COUNT_SPAN_VALUES_NO_ROOM],
		      10 + SP_ROOT_VALUES_MAX - SP_ROOT_VALUES_TEXTS / SP_SPAN_VALUE_BYTES);
	/* The last text had no room. Then the other value, which is stored already, is dropped as well. */
	begin(1);
	add(0, SP_SPAN_VALUE_TEXT, get(1, 0), strlen(get(1, 0)));
	add(1, SP_SPAN_VALUE_TEXT, text, strlen(text));
	sp_root_values_take(values, &record);
	cr_expect_null(get(1, 0));
	cr_expect_null(get(1, 1));
}

static char refusals[500];

static void refused(void *arg, const char *key, size_t len, const char *reason)
{
	(void)arg;
	(void)reason;
	strncat(refusals, key, len);
	strcat(refusals, ";");
}

Test(root_values, names_are_safe_and_nobody_elses)
{
	char name[SP_SPAN_VALUES_MAX][SP_SPAN_KEY_BYTES + 2];

	cr_expect_eq(sp_root_labels("mysql.digest_text,2nd.key, a-b ,span.id", name, refused, NULL),
		     4);
	cr_expect_str_eq(name[0], "mysql.digest_text");
	cr_expect_str_eq(name[1], "_2nd.key");
	cr_expect_str_eq(name[2], "a_b");
	cr_expect_str_eq(name[3], "");
	cr_expect_eq(
		sp_root_labels("http.route,http_route,__name__,service.name", name, refused, NULL),
		4);
	cr_expect_str_eq(name[0], "http.route");
	for (unsigned i = 1; i < 4; i++)
		cr_expect_str_eq(name[i], "");
	cr_expect_str_eq(refusals, "span.id;http_route;__name__;service.name;");
}

/* The second of three attributes is no label; the third one still has its own values. */
Test(root_values, of_a_refused_key_are_left_out_and_told_once)
{
	struct sp_root_values *other;

	core.config.span_labels = "a,trace_id,c";
	other = sp_root_values_new(&core.ops);
	cr_expect_eq(sp_root_values_attributes(other), 2);
	cr_expect_str_eq(sp_root_values_name(other, 1), "c");
	begin(1);
	add(1, SP_SPAN_VALUE_TEXT, "no", 2);
	add(2, SP_SPAN_VALUE_TEXT, "yes", 3);
	sp_root_values_take(other, &record);
	cr_expect_null(sp_root_values_get(other, 1, 0, &(size_t){0}));
	cr_expect_str_eq(sp_root_values_get(other, 1, 1, &(size_t){0}), "yes");
	sp_root_values_free(other);
}

static enum sp_latency latency_of(void *arg, const struct sp_root_end *end)
{
	++*(unsigned *)arg;
	return (enum sp_latency)end->duration_ns;
}

static void end_of(struct sp_root_values *of, uint64_t root_id, enum sp_latency latency)
{
	sp_root_values_end(of, &(struct sp_root_end){.root_id = root_id, .duration_ns = latency});
}

static struct sp_root_values *with_latency(const char *keys)
{
	core.config.span_labels = keys;
	core.config.span_latency = true;
	return sp_root_values_new(&core.ops);
}

/* Without any attribute. */
Test(root_values, latency_is_a_label_like_them)
{
	struct sp_root_values *v = with_latency(NULL);
	unsigned asked = 0;
	size_t len;

	cr_assert_not_null(v);
	cr_assert_eq(sp_root_values_attributes(v), 1);
	cr_expect_str_eq(sp_root_values_name(v, 0), "latency");
	end_of(v, 1, SP_LATENCY_P90);
	end_of(v, 2, SP_LATENCY_SLOW);
	end_of(v, 3, SP_LATENCY_UNKNOWN);
	end_of(v, 0, SP_LATENCY_P50);
	cr_expect_null(sp_root_values_get(v, 1, 0, &len), "nobody has decided");
	sp_root_values_decide(v, latency_of, &asked);
	cr_expect_eq(asked, 3);
	cr_expect_str_eq(sp_root_values_get(v, 1, 0, &len), "p90");
	cr_expect_eq(len, 3);
	cr_expect_str_eq(sp_root_values_get(v, 2, 0, &len), "slow");
	cr_expect_null(sp_root_values_get(v, 3, 0, &len));
	cr_expect_null(sp_root_values_get(v, 4, 0, &len));
	/* Late samples find it. */
	sp_root_values_age(v);
	sp_root_values_decide(v, latency_of, &asked);
	cr_expect_str_eq(sp_root_values_get(v, 2, 0, &len), "slow");
	sp_root_values_age(v);
	sp_root_values_decide(v, latency_of, &asked);
	cr_expect_null(sp_root_values_get(v, 2, 0, &len));
	sp_root_values_free(v);
}

Test(root_values, come_after_the_end_of_their_root)
{
	struct sp_root_values *v = with_latency("http.route,latency,n");
	unsigned asked = 0;
	size_t len;

	cr_assert_eq(sp_root_values_attributes(v), 3, "the name is taken");
	cr_expect(core_logged("not the attribute"), "%s", core.log);
	end_of(v, 1, SP_LATENCY_P50);
	begin(1);
	add(0, SP_SPAN_VALUE_TEXT, "/a", 2);
	sp_root_values_take(v, &record);
	sp_root_values_decide(v, latency_of, &asked);
	cr_expect_str_eq(sp_root_values_get(v, 1, 0, &len), "/a");
	cr_expect_str_eq(sp_root_values_get(v, 1, 2, &len), "p50");
	/* The id is used again. */
	end_of(v, 1, SP_LATENCY_SLOW);
	sp_root_values_decide(v, latency_of, &asked);
	cr_expect_null(sp_root_values_get(v, 1, 0, &len));
	cr_expect_str_eq(sp_root_values_get(v, 1, 2, &len), "slow");
	sp_root_values_free(v);
}

Test(root_values, of_usual_roots_that_are_equal_are_those_of_one)
{
	struct sp_root_values *v = with_latency("http.route");
	unsigned asked = 0;
	uint64_t alike;

	for (uint64_t id = 1; id <= 6; id++) {
		end_of(v, id,
		       id == 6   ? SP_LATENCY_SLOW
		       : id == 5 ? SP_LATENCY_P90
				 : SP_LATENCY_P50);
		begin(id);
		add(0, SP_SPAN_VALUE_TEXT, id == 4 ? "/b" : "/a", 2);
		sp_root_values_take(v, &record);
	}
	sp_root_values_decide(v, latency_of, &asked);
	for (uint64_t id = 1; id <= 3; id++) {
		cr_expect(sp_root_values_is_usual(v, id, &alike));
		cr_expect_eq(alike, 1);
	}
	cr_expect(sp_root_values_is_usual(v, 4, &alike) && alike == 4, "another value");
	cr_expect(sp_root_values_is_usual(v, 5, &alike) && alike == 5, "another latency");
	cr_expect_not(sp_root_values_is_usual(v, 6, &alike));
	cr_expect_not(sp_root_values_is_usual(v, 7, &alike), "it is open");
	cr_expect_eq(alike, 7);
	sp_root_values_keep_id(v, 2);
	sp_root_values_keep_id(v, 99);
	cr_expect_not(sp_root_values_is_usual(v, 2, &alike));
	sp_root_values_free(v);
	sp_root_values_end(NULL, &(struct sp_root_end){.root_id = 1});
	sp_root_values_decide(NULL, latency_of, NULL);
	sp_root_values_keep_id(NULL, 1);
}
