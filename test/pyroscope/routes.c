/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of each path, functions for all handlers, and the double's own paths /ready and
 * /double/.
 */
#include "test/pyroscope/routes.h"

#include <string.h>
#include <strings.h>

#include "test/pyroscope/codec.h"

void pd_response_fini(struct pd_response *r)
{
	pd_text_fini(&r->body);
	json_decref(r->headers);
	*r = (struct pd_response){0};
}

void pd_response_header(struct pd_response *out, const char *name, const char *value)
{
	if (out->headers == NULL)
		out->headers = json_object();
	json_object_set_new(out->headers, name, json_string(value));
}

void pd_response_json(struct pd_response *out, json_t *j)
{
	out->status = out->status != 0 ? out->status : 200;
	out->type = "application/json";
	out->body.len = 0;
	pd_json_add(&out->body, j);
	json_decref(j);
}

void pd_response_error(struct pd_response *out, const struct pd_error *e)
{
	out->status = pd_code_status(e->code);
	snprintf(out->note, sizeof(out->note), "%s", e->reason);
	pd_response_json(out, json_pack("{s:s,s:o}", "code", pd_code_name(e->code), "message",
					pd_json_bytes(pd_text_bytes(&e->message))));
}

const char *pd_request_header(const struct pd_request *in, const char *name)
{
	const char *value = json_string_value(json_object_get(in->headers, name));

	return value != NULL ? value : "";
}

const char *pd_request_tenant(const struct pd_double *d, const struct pd_request *in,
			      struct pd_response *out)
{
	const char *tenant = pd_request_header(in, "x-scope-orgid");
	struct pd_error e = {0};

	if (!d->options.multitenancy)
		return "anonymous";
	if (tenant[0] != '\0')
		return tenant;
	pd_error_set(&e, PD_UNAUTHENTICATED, "no_tenant", "no org id");
	pd_response_error(out, &e);
	pd_error_fini(&e);
	return NULL;
}

static bool basic_matches(const char *header, const char *user_password)
{
	struct pd_text given = {0};
	bool ok = strncasecmp(header, "Basic ", 6) == 0 &&
		  pd_base64_decode(pd_bytes_of(header + 6), &given) == 0 &&
		  pd_bytes_is(pd_text_bytes(&given), user_password);

	pd_text_fini(&given);
	return ok;
}

/* Checks the credentials that a proxy in front of the server would require. */
static bool authorized(const struct pd_double *d, const struct pd_request *in,
		       struct pd_response *out)
{
	const char *header = pd_request_header(in, "authorization");

	if (d->options.basic == NULL && d->options.token == NULL)
		return true;
	if (d->options.basic != NULL && basic_matches(header, d->options.basic))
		return true;
	if (d->options.token != NULL && strncasecmp(header, "Bearer ", 7) == 0 &&
	    strcmp(header + 7, d->options.token) == 0)
		return true;
	out->status = 401;
	out->type = "text/plain";
	pd_text_adds(&out->body, "Unauthorized\n");
	pd_response_header(out, "WWW-Authenticate",
			   d->options.basic != NULL ? "Basic realm=\"pyroscope\"" : "Bearer");
	snprintf(out->note, sizeof(out->note), "unauthorized");
	return false;
}

static void route_ready(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	(void)d;
	(void)in;
	out->status = 200;
	out->type = "text/plain";
	pd_text_adds(&out->body, "ready\n");
}

static void route_stats(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	(void)in;
	pd_response_json(out, pd_stats_json(d));
}

static void route_spans(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	(void)in;
	pd_response_json(out, pd_spans_json(d));
}

static void route_fault(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	struct pd_error e = {0};
	json_t *j = NULL;

	if (strcmp(in->method, "DELETE") == 0) {
		pd_faults_fini(&d->faults);
		pd_response_json(out, json_object());
		return;
	}
	j = json_loadb((const char *)in->body.at, in->body.len, JSON_REJECT_DUPLICATES, NULL);
	if (j == NULL)
		pd_error_set(&e, PD_INVALID_ARGUMENT, "bad_fault", "bad fault: not JSON");
	else
		pd_faults_add_json(&d->faults, j, &e);
	if (e.code != PD_OK)
		pd_response_error(out, &e);
	else
		pd_response_json(out, json_pack("{s:I}", "pending", (json_int_t)d->faults.len));
	json_decref(j);
	pd_error_fini(&e);
}

static const struct route {
	const char *path; /* a path that ends in '/' stands for all paths below it */
	const char *methods;
	bool open; /* needs no credentials */
	void (*handle)(struct pd_double *d, const struct pd_request *in, struct pd_response *out);
} routes[] = {
	{"/push.v1.PusherService/Push", "POST", false, pd_route_push},
	{"/ingest", "POST", false, pd_route_ingest},
	{"/pyroscope/ingest", "POST", false, pd_route_ingest},
	{"/v1development/profiles", "POST", false, pd_route_otlp},
	{"/querier.v1.QuerierService/", "POST", false, pd_route_query},
	{"/ready", "GET, HEAD", true, route_ready},
	{"/double/stats", "GET", true, route_stats},
	{"/double/spans", "GET", true, route_spans},
	{"/double/fault", "POST, DELETE", true, route_fault},
};

static const struct route *find_route(const char *path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		size_t len = strlen(routes[i].path);
		bool tree = routes[i].path[len - 1] == '/';

		if (strncmp(routes[i].path, path, tree ? len : len + 1) == 0)
			return &routes[i];
	}
	return NULL;
}

static bool method_allowed(const char *methods, const char *method)
{
	size_t len = strlen(method);

	for (const char *m = methods; *m != '\0'; m += strspn(m, ", ")) {
		size_t word = strcspn(m, ",");

		if (word == len && memcmp(m, method, len) == 0)
			return true;
		m += word;
	}
	return false;
}

void pd_route(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	const struct route *r = find_route(in->path);

	if ((r == NULL || !r->open) && !authorized(d, in, out))
		return;
	if (r == NULL) {
		out->status = 404;
		out->type = "text/plain";
		pd_text_adds(&out->body, "404 page not found\n");
	} else if (!method_allowed(r->methods, in->method)) {
		out->status = 405;
		pd_response_header(out, "Allow", r->methods);
	} else {
		r->handle(d, in, out);
		d->stats.requests += !r->open && r->handle != pd_route_query && out->status == 200;
	}
}
