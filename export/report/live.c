/* SPDX-License-Identifier: Apache-2.0 */
/* Makes answers out of requests (live.h). Context: the report tool, a process for each connection. */
#define _GNU_SOURCE
#include "export/report/live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "export/report/file.h"
#include "export/report/flame.h"
#include "export/report/page.h"
#include "export/report/page_text.h"
#include "export/report/reading.h"
#include "sampler/base/compiler.h"

#define SP_LIVE_SPANS 200U
#define SP_LIVE_JSON "application/json"

/* What a request asks for. */
struct query {
	struct sp_report_options o;
	const char *span_name; /* of the spans that are listed */
};

static bool is_type(const char *s)
{
	return strcmp(s, "cpu") == 0 || strcmp(s, "off_cpu") == 0 || strcmp(s, "wall") == 0;
}

/* "5m" */
static bool read_ago(const char *value, uint64_t *at)
{
	char ago[16];
	int len = snprintf(ago, sizeof(ago), "-%s", value);

	return len > 0 && (size_t)len < sizeof(ago) && sp_time_point_read(ago, time(NULL), at);
}

static bool take(struct query *q, const char *key, const char *value)
{
	struct sp_report_options *o = &q->o;

	if (strcmp(key, "type") == 0 && is_type(value))
		o->type = strcmp(value, "cpu") != 0 ? value : NULL;
	else if (strcmp(key, "span") == 0)
		o->selection.span_id = value;
	else if (strcmp(key, "span_name") == 0)
		o->selection.span_name = q->span_name = value;
	else if (strcmp(key, "diff") == 0 && strcmp(value, "spans") == 0)
		o->selection.diff = true;
	else if (strcmp(key, "last") == 0)
		return read_ago(value, &o->window.from_ns);
	else if (strcmp(key, "before") == 0)
		return read_ago(value, &o->baseline_window.to_ns);
	else
		return false;
	return true;
}

/* False: it has a key or a value that is not known. */
static bool read_query(struct query *q, const struct sp_report_options *o, char *rest)
{
	char *key;
	char *value;
	int found;

	*q = (struct query){.o = *o};
	q->o.form = SP_FORM_FLAMEGRAPH;
	while ((found = sp_get_pair(&rest, &key, &value)) > 0)
		if (!take(q, key, value))
			return false;
	if (q->o.selection.diff) {
		q->o.baseline = NULL;
		q->o.baseline_window = (struct sp_time_window){0};
	}
	return found == 0 && (!q->o.selection.diff || q->o.selection.span_id != NULL);
}

struct stamp {
	uint64_t files;
	uint64_t newest_ns;
	uint64_t bytes;
};

static int add_stamp(void *arg, const char *path)
{
	struct stamp *stamp = arg;
	struct stat st;
	uint64_t ns;

	if (stat(path, &st) != 0)
		return 0;
	ns = (uint64_t)st.st_mtim.tv_sec * SP_NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
	stamp->files++;
	stamp->bytes += (uint64_t)st.st_size;
	if (ns > stamp->newest_ns)
		stamp->newest_ns = ns;
	return 0;
}

/* Differs when files have come, gone or changed. */
static void put_stamp(FILE *out, char *const *path)
{
	struct stamp stamp = {0};
	char why[SP_REPORT_ERROR];

	for (; *path != NULL; path++)
		(void)sp_report_each(*path, add_stamp, &stamp, why);
	(void)fprintf(out, "\"stamp\":\"%" PRIu64 "-%" PRIu64 "-%" PRIu64 "\"", stamp.files,
		      stamp.newest_ns, stamp.bytes);
}

static void put_error(FILE *out, const char *why)
{
	(void)fputs(",\"error\":", out);
	sp_page_put_json(out, why);
}

static void put_names(FILE *out, const struct sp_tally *t)
{
	(void)fprintf(out, ",\"ns\":%" PRIu64 ",\"spanNames\":[", t->labelled.ns);
	for (size_t i = 0; i < t->names; i++) {
		const struct sp_name_row *n = &t->name[i];

		(void)fprintf(out, "%s{\"name\":", i != 0 ? ",\n" : "");
		sp_page_put_json(out, sp_tally_text(t, n->name));
		(void)fprintf(out,
			      ",\"spans\":%" PRIu32 ",\"samples\":%" PRIu64 ",\"ns\":%" PRIu64 "}",
			      n->spans, n->sum.samples, n->sum.ns);
	}
	(void)fputs("]", out);
}

static void put_spans(FILE *out, const struct sp_tally *t, const char *name)
{
	unsigned n = 0;

	(void)fputs(",\"spans\":[", out);
	for (size_t i = 0; i < t->spans && n < SP_LIVE_SPANS; i++) {
		const struct sp_span_row *s = &t->span[i];

		if (name != NULL && strcmp(sp_tally_text(t, s->name), name) != 0)
			continue;
		(void)fprintf(out, "%s{\"id\":", n++ != 0 ? ",\n" : "");
		sp_page_put_json(out, sp_tally_text(t, s->id));
		(void)fputs(",\"name\":", out);
		sp_page_put_json(out, sp_tally_text(t, s->name));
		(void)fprintf(out, ",\"samples\":%" PRIu64 ",\"ns\":%" PRIu64 "}", s->sum.samples,
			      s->sum.ns);
	}
	(void)fputs("]", out);
}

/* The lists to choose from: names of all spans, and the largest spans, of one name if that is asked for. */
static void put_lists(FILE *out, struct query *q, char *const *path)
{
	struct sp_reading r;
	int err;

	q->o.selection.span_id = q->o.selection.span_name = NULL;
	q->o.selection.diff = false;
	q->o.baseline = NULL;
	q->o.baseline_window = (struct sp_time_window){0};
	err = sp_reading_init(&r, &q->o);
	if (err == 0)
		err = sp_reading_run(&r, path);
	if (err != 0) {
		put_error(out, r.why);
	} else {
		put_names(out, &r.tally);
		put_spans(out, &r.tally, q->span_name);
	}
	sp_reading_fini(&r);
}

static void put_flame(FILE *out, struct query *q, char *const *path)
{
	struct sp_flame_head head;
	struct sp_reading r;
	int err = sp_reading_init(&r, &q->o);

	r.wants_tree = r.tree.by_span = true;
	if (err == 0)
		err = sp_reading_run(&r, path);
	if (err != 0) {
		put_error(out, r.why);
	} else {
		sp_flame_head_of(&r, &head);
		(void)fputs(",\n\"profile\":", out);
		sp_flame_print_data(out, &r.tree, &head);
	}
	sp_reading_fini(&r);
}

static void put_nothing(FILE *out, struct query *q, char *const *path)
{
	(void)out;
	(void)q;
	(void)path;
}

/* The page itself: what is inline in a file is loaded here. */
static void put_page(FILE *out)
{
	(void)fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width\">\n"
		    "<title>spanprof</title>\n",
		    out);
	(void)fprintf(out, "<link rel=\"stylesheet\" href=\"%s\">\n</head>\n", sp_page_style.name);
	(void)fputs(sp_page_body.text, out);
	for (size_t i = 0; i < sp_page_scripts; i++)
		(void)fprintf(out, "<script src=\"%s\"></script>\n", sp_page_script[i]->name);
	(void)fprintf(out, "<script src=\"%s\"></script>\n</body>\n</html>\n", sp_page_live.name);
}

static const struct sp_page_file *file_of(const char *path)
{
	if (strcmp(path, sp_page_style.name) == 0)
		return &sp_page_style;
	if (strcmp(path, sp_page_live.name) == 0)
		return &sp_page_live;
	for (size_t i = 0; i < sp_page_scripts; i++)
		if (strcmp(path, sp_page_script[i]->name) == 0)
			return sp_page_script[i];
	return NULL;
}

static const struct {
	const char *path;
	void (*put)(FILE *out, struct query *q, char *const *path);
} reports[] = {
	{"/profile.json", put_flame},
	{"/spans.json", put_lists},
	{"/stamp.json", put_nothing},
};

/* False: it is none of the reports, or asked for wrongly, which the status says. */
static bool put_report(FILE *out, const struct sp_report_options *o, char *const *path,
		       struct sp_get *get, struct sp_live_answer *a)
{
	struct query q;

	a->status = 404;
	for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
		if (strcmp(get->path, reports[i].path) != 0)
			continue;
		a->status = read_query(&q, o, get->query) ? 200 : 400;
		if (a->status != 200)
			return false;
		a->type = SP_LIVE_JSON;
		(void)fputs("{", out);
		/* Before the files are read: what comes meanwhile is noticed later. */
		put_stamp(out, path);
		reports[i].put(out, &q, path);
		(void)fputs("}\n", out);
		return true;
	}
	return false;
}

static bool put_file(FILE *out, const char *path, struct sp_live_answer *a)
{
	const struct sp_page_file *file = file_of(path);

	if (file == NULL)
		return false;
	a->type = file->type;
	(void)fputs(file->text, out);
	return true;
}

void sp_live_answer(const struct sp_report_options *o, char *const *path, struct sp_get *get,
		    struct sp_live_answer *a)
{
	FILE *out;

	*a = (struct sp_live_answer){.status = 200};
	out = open_memstream(&a->body, &a->len);
	if (out == NULL) {
		a->status = 500;
		return;
	}
	if (strcmp(get->path, sp_page_body.name) == 0) {
		a->type = sp_page_body.type;
		put_page(out);
	} else if (!put_file(out, get->path, a)) {
		(void)put_report(out, o, path, get, a);
	}
	if (fclose(out) != 0)
		a->status = 500;
}

static const char *reason_of(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	default:
		return "Internal Server Error";
	}
}

void sp_live_print_head(FILE *out, const struct sp_live_answer *a)
{
	(void)fprintf(out, "HTTP/1.0 %d %s\r\n", a->status, reason_of(a->status));
	if (a->type != NULL)
		(void)fprintf(out, "Content-Type: %s\r\n", a->type);
	if (a->status == 405)
		(void)fputs("Allow: GET\r\n", out);
	(void)fprintf(out,
		      "Content-Length: %zu\r\n"
		      "Connection: close\r\n"
		      "Cache-Control: no-store\r\n"
		      "X-Content-Type-Options: nosniff\r\n"
		      "Referrer-Policy: no-referrer\r\n"
		      "Cross-Origin-Resource-Policy: same-origin\r\n"
		      "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src "
		      "'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
		      "frame-ancestors 'none'\r\n\r\n",
		      a->len);
}
