/* SPDX-License-Identifier: Apache-2.0 */
/* The server's rules for label sets, /ingest's name grammar, forms and selectors. */
#include "test/pyroscope/labels.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "test/pyroscope/labelset.h"
#include "test/pyroscope/multipart.h"
#include "test/pyroscope/selector.h"

struct set {
	struct pd_arena arena;
	struct pd_labels labels;
	struct pd_error e;
};

static void set_init(struct set *s)
{
	*s = (struct set){0};
	s->labels.at = pd_arena_calloc(&s->arena, 64, sizeof(*s->labels.at));
	pd_labels_add(&s->labels, "__name__", pd_bytes_of("process_cpu"));
	pd_labels_add(&s->labels, "service_name", pd_bytes_of("svc"));
}

static void set_fini(struct set *s)
{
	pd_error_fini(&s->e);
	pd_arena_fini(&s->arena);
}

static char *repeat(struct set *s, char c, size_t n)
{
	char *text = pd_arena_calloc(&s->arena, n + 1, 1);

	memset(text, c, n);
	return text;
}

static int check(struct set *s)
{
	return pd_labels_validate(&pd_limits_default, &s->labels, &s->e);
}

static void expect_refused(struct set *s, const char *reason, const char *message)
{
	cr_expect_eq(check(s), -1, "%s was accepted", message);
	cr_assert_not_null(s->e.reason, "%s", message);
	cr_expect_str_eq(s->e.reason, reason);
	cr_expect_not_null(strstr(s->e.message.at, message), "%s", s->e.message.at);
	cr_expect_eq(s->e.code, PD_INVALID_ARGUMENT);
	set_fini(s);
}

static void expect_accepted(struct set *s)
{
	cr_expect_eq(check(s), 0, "%s", s->e.message.at);
	set_fini(s);
}

Test(labels, takes_30_names_and_no_more, .timeout = 20)
{
	for (size_t n = 29; n <= 31; n++) {
		struct set s;

		set_init(&s);
		for (size_t i = 2; i < n; i++) {
			char *name = repeat(&s, 'x', i);

			pd_labels_add(&s.labels, name, pd_bytes_of("v"));
		}
		if (n <= 30)
			expect_accepted(&s);
		else
			expect_refused(&s, "max_label_names_per_series",
				       "has 31 label names; limit 30");
	}
}

Test(labels, takes_values_of_2048_bytes_and_no_more, .timeout = 20)
{
	for (size_t n = 2047; n <= 2049; n++) {
		struct set s;

		set_init(&s);
		pd_labels_add(&s.labels, "span_name", pd_bytes_of(repeat(&s, 'v', n)));
		if (n <= 2048)
			expect_accepted(&s);
		else
			expect_refused(&s, "label_value_too_long",
				       "has label value too long: 'vvv");
	}
}

Test(labels, takes_names_of_1024_bytes_and_no_more, .timeout = 20)
{
	for (size_t n = 1023; n <= 1025; n++) {
		struct set s;

		set_init(&s);
		pd_labels_add(&s.labels, repeat(&s, 'n', n), pd_bytes_of("v"));
		if (n <= 1024)
			expect_accepted(&s);
		else
			expect_refused(&s, "label_name_too_long", "has label name too long: 'nnn");
	}
}

Test(labels, refuses_each_bad_label, .timeout = 20)
{
	static const struct {
		const char *name;
		const char *value;
		const char *reason;
		const char *message;
	} bad[] = {
		{"", "v", "invalid_labels", "with error: invalid label name ''"},
		{"\xc5", "v", "invalid_labels", "with error: invalid label name '\xc5'"},
		{"n", "\xc5", "invalid_labels", "with error: invalid label value '\xc5'"},
		{"service_name", "svc", "duplicate_label_names",
		 "has duplicate label name: 'service_name'"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct set s;

		set_init(&s);
		pd_labels_add(&s.labels, bad[i].name, pd_bytes_of(bad[i].value));
		expect_refused(&s, bad[i].reason, bad[i].message);
	}
}

Test(labels, wants_a_metric_and_a_service_name, .timeout = 20)
{
	struct set s;

	set_init(&s);
	s.labels.len = 0;
	expect_refused(&s, "missing_labels",
		       "error at least one label pair is required per profile");
	set_init(&s);
	pd_labels_remove(&s.labels, "__name__");
	expect_refused(&s, "invalid_labels",
		       "invalid labels '{service_name=\"svc\"}' with error: invalid metric name");
	set_init(&s);
	pd_labels_remove(&s.labels, "service_name");
	expect_refused(
		&s, "missing_labels",
		"invalid labels '{__name__=\"process_cpu\"}' with error: service name is not "
		"provided");
	set_init(&s);
	expect_accepted(&s);
}

Test(labels, accepts_any_utf8_as_name_but_knows_the_safe_ones, .timeout = 20)
{
	struct set s;

	set_init(&s);
	pd_labels_add(&s.labels, "\xc3\xa9 t\xc3\xa9", pd_bytes_of("v"));
	expect_accepted(&s);
	cr_expect(pd_labels_name_safe(pd_bytes_of("_a.b9")));
	cr_expect_not(pd_labels_name_safe(pd_bytes_of("9a")));
	cr_expect_not(pd_labels_name_safe(pd_bytes_of("a-b")));
	cr_expect_not(pd_labels_name_safe(pd_bytes_of("")));
}

static void expect_name(const char *name, const char *labels)
{
	struct set s = {0};
	struct pd_text text = {0};
	int rc = pd_labelset_parse(&s.arena, pd_bytes_of(name), &s.labels, &s.e);

	if (rc == 0) {
		pd_labels_text(s.labels, &text);
		cr_expect_str_eq(text.at, labels, "%s gave %s", name, text.at);
	} else {
		cr_expect_str_eq(s.e.message.at, labels, "%s gave %s", name, s.e.message.at);
		cr_expect_str_eq(s.e.reason, "bad_name");
	}
	pd_text_fini(&text);
	set_fini(&s);
}

Test(labelset, follows_the_servers_grammar, .timeout = 20)
{
	expect_name("app", "{__name__=\"app\"}");
	expect_name(" a-b.c/d_9 ", "{__name__=\"a-b.c/d_9\"}");
	expect_name("app{}", "{__name__=\"app\"}");
	expect_name("app{a=b,c.d= e f }", "{__name__=\"app\", a=\"b\", c.d=\"e f\"}");
	expect_name("app{a=b=c&\"d\"}", "{__name__=\"app\", a=\"b=c&\\\"d\\\"\"}");
	expect_name("app{a=1,a=2}", "{__name__=\"app\", a=\"2\"}");
	expect_name("app{a=b", "{__name__=\"app\"}");
	expect_name("", "service name is required");
	expect_name("{a=b}", "service name is required");
	expect_name("a:b", "invalid service name: a:b");
	expect_name("a b", "invalid service name: a b");
	expect_name("app{a=b,c,d=e}", "invalid label name: c,d");
	expect_name("app{=v}", "label name is required");
}

Test(multipart, finds_files_and_tells_values_from_them, .timeout = 20)
{
	struct pd_bytes in = pd_bytes_of("--B\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\n"
					 "value\r\n--B\r\nX: y\r\n"
					 "content-disposition: form-data; name=\"profile\"; "
					 "filename=\"p.pprof\"\r\n\r\n\r\ndata\r\n\r\n--B--\r\n");
	struct pd_bytes boundary = pd_multipart_boundary("multipart/form-data; boundary=\"B\"");
	struct pd_part part;

	cr_assert(pd_bytes_is(boundary, "B"));
	cr_assert_eq(pd_multipart_next(&in, boundary, &part), 1);
	cr_assert(pd_bytes_is(part.name, "v") && !part.is_file && pd_bytes_is(part.data, "value"));
	cr_assert_eq(pd_multipart_next(&in, boundary, &part), 1);
	cr_assert(pd_bytes_is(part.name, "profile") && part.is_file);
	cr_assert(pd_bytes_is(part.data, "\r\ndata\r\n"));
	cr_assert_eq(pd_multipart_next(&in, boundary, &part), 0);
}

Test(multipart, survives_every_cut, .timeout = 20)
{
	static const char form[] = "--B\r\nContent-Disposition: form-data; name=\"profile\"; "
				   "filename=\"p\"\r\n\r\ndata\r\n--B--\r\n";
	size_t whole = 0;

	for (size_t cut = 0; cut < sizeof(form); cut++) {
		char *copy = strndup(form, cut);
		struct pd_bytes in = {(uint8_t *)copy, cut};
		struct pd_part part;
		int parts = 0;

		while (pd_multipart_next(&in, pd_bytes_of("B"), &part) > 0)
			parts++;
		whole += parts == 1;
		cr_expect_leq(parts, 1);
		free(copy);
	}
	cr_expect_eq(whole, sizeof("--\r\n"), "a part needs its closing delimiter: %zu", whole);
	cr_expect_eq(pd_multipart_boundary("text/plain; boundary=B").len, 0);
}

static int parse_selector(const char *text, struct set *s, struct pd_selector *selector)
{
	*selector = (struct pd_selector){0};
	return pd_selector_parse(&s->arena, pd_bytes_of(text), selector, &s->e);
}

Test(selector, matches_equal_unequal_and_absent, .timeout = 20)
{
	static const struct {
		const char *text;
		bool matches;
	} cases[] = {
		{"{}", true},
		{"{service_name=\"svc\"}", true},
		{" { service_name = \"svc\" , __name__=\"process_cpu\" } ", true},
		{"{service_name=\"other\"}", false},
		{"{service_name!=\"svc\"}", false},
		{"{service_name!=\"other\",absent=\"\"}", true},
		{"{absent!=\"\"}", false},
	};
	struct set s;
	struct pd_selector selector;

	set_init(&s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(parse_selector(cases[i].text, &s, &selector), 0, "%s", cases[i].text);
		cr_expect_eq(pd_selector_matches(&selector, s.labels), cases[i].matches, "%s",
			     cases[i].text);
	}
	cr_assert_eq(parse_selector("{a=\"q\\\"\\\\\\n\"}", &s, &selector), 0);
	cr_expect(pd_bytes_is(selector.at[0].value, "q\"\\\n"));
	set_fini(&s);
}

Test(selector, refuses_what_it_does_not_know, .timeout = 20)
{
	static const char *const bad[] = {"",           "{",        "{a}",
					  "{a=}",       "{a=\"b}",  "{a=~\"b\"}",
					  "{a!~\"b\"}", "{=\"b\"}", "{a=\"b\" c=\"d\"}",
					  "{a=\"b\"}x", "a=\"b\""};
	struct set s;
	struct pd_selector selector;

	set_init(&s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(parse_selector(bad[i], &s, &selector), -1, "%s", bad[i]);
	set_fini(&s);
}
