/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double for unit tests; see fixture.h.
 */
#include "test/pyroscope/tests/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

void fixture_init(struct fixture *f, struct pd_options options)
{
	*f = (struct fixture){0};
	options.now_ns = FIXTURE_NOW;
	pd_double_init(&f->d, &options);
	pb_start(&f->p, FIXTURE_NOW);
}

void fixture_fini(struct fixture *f)
{
	struct pd_text rest = pb_finish(&f->p);

	pd_text_fini(&rest);
	pd_response_fini(&f->r);
	pd_error_fini(&f->e);
	pd_double_fini(&f->d);
}

int fixture_push(struct fixture *f)
{
	struct pd_pair pair[] = {
		{pd_bytes_of("__name__"), pd_bytes_of("process_cpu")},
		{pd_bytes_of("service_name"), pd_bytes_of("svc")},
	};
	struct pd_text raw = pb_finish(&f->p);
	struct pd_delivery in = {
		.tenant = "anonymous",
		.labels = {pair, 2},
		.id = pd_bytes_of("id"),
		.raw = pd_text_bytes(&raw),
		.headers = json_object(),
	};
	int rc;

	pd_error_fini(&f->e);
	rc = pd_push(&f->d, &in, &f->e);
	json_decref(in.headers);
	pd_text_fini(&raw);
	pb_start(&f->p, FIXTURE_NOW);
	return rc;
}

static void add_header(json_t *headers, const char *line, size_t len)
{
	const char *colon = memchr(line, ':', len);
	struct pd_arena a = {0};
	struct pd_bytes name;
	struct pd_bytes value;

	if (colon == NULL)
		return;
	name = (struct pd_bytes){(const uint8_t *)line, (size_t)(colon - line)};
	value = (struct pd_bytes){(const uint8_t *)colon + 2, len - name.len - 2};
	json_object_set_new(headers, pd_arena_string(&a, name),
			    json_string(pd_arena_string(&a, value)));
	pd_arena_fini(&a);
}

/* The query string of "path?a=b&c=d", undecoded; path ends up without it. */
static json_t *split_query(char *path)
{
	json_t *query = json_object();
	char *rest = strchr(path, '?');
	char *pair;

	if (rest != NULL)
		*rest++ = '\0';
	while (rest != NULL && (pair = strsep(&rest, "&")) != NULL) {
		char *value = strchr(pair, '=');

		if (value != NULL)
			*value++ = '\0';
		json_object_set_new(query, pair, json_string(value != NULL ? value : ""));
	}
	return query;
}

unsigned fixture_call(struct fixture *f, const char *method, const char *path, const char *headers,
		      struct pd_bytes body)
{
	struct pd_arena a = {0};
	char *copy = pd_arena_string(&a, pd_bytes_of(path));
	struct pd_request in = {.method = method, .body = body, .headers = json_object()};

	in.query = split_query(copy);
	in.path = copy;
	in.body_too_large = body.len > f->d.limits.body_bytes;
	while (*headers != '\0') {
		size_t len = strcspn(headers, "\n");

		add_header(in.headers, headers, len);
		headers += len + (headers[len] == '\n');
	}
	pd_response_fini(&f->r);
	pd_route(&f->d, &in, &f->r);
	pd_text_adds(&f->r.body, "");
	json_decref(in.headers);
	json_decref(in.query);
	pd_arena_fini(&a);
	return f->r.status;
}

unsigned fixture_query(struct fixture *f, const char *call, const char *json)
{
	struct pd_text path = {0};
	unsigned status;

	pd_text_addf(&path, "/querier.v1.QuerierService/%s", call);
	status = fixture_call(f, "POST", path.at, "content-type: application/json",
			      pd_bytes_of(json));
	pd_text_fini(&path);
	return status;
}

void fixture_refused(struct fixture *f, enum pd_code code, const char *reason, const char *message)
{
	uint64_t before = f->d.stats.profiles;
	json_int_t counted = json_integer_value(json_object_get(f->d.stats.rejected, reason));

	cr_expect_eq(fixture_push(f), -1, "accepted, though: %s", message);
	cr_assert_not_null(f->e.reason, "%s", message);
	cr_expect_eq(f->e.code, code, "%s: %s", pd_code_name(f->e.code), f->e.message.at);
	cr_expect_str_eq(f->e.reason, reason);
	cr_expect_not_null(strstr(f->e.message.at, message), "%s", f->e.message.at);
	cr_expect_eq(f->d.stats.profiles, before);
	cr_expect_eq(json_integer_value(json_object_get(f->d.stats.rejected, reason)), counted + 1);
}

void fixture_accepted(struct fixture *f)
{
	uint64_t before = f->d.stats.profiles;

	cr_expect_eq(fixture_push(f), 0, "%s", f->e.message.at);
	cr_expect_eq(f->d.stats.profiles, before + 1);
}
