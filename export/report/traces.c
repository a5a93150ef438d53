/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins spans of whole traces with profiles (traces.h).
 *
 * --trace names the trace that is shown. Without it the traces with the slowest slow roots are
 * shown. If no slow root is in these files, the longest traces with a span in a profile are. Each
 * of their spans becomes a request of slowest.c, which finds its samples by its id. A span of
 * another program has no samples: its row has the times of the file alone.
 *
 * The files may be anybody's. The parents of a span may lead back to the span itself. Then one span
 * of that circle gets a row as if it had no parent. A span has one parent at most, so a walk along
 * parents ends in one circle, and all walks together pass each span twice at most.
 *
 * Context: the report tool.
 */
#define _GNU_SOURCE
#include "export/report/traces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/file.h"
#include "export/util/log.h"

/* Of all traces that are shown together. */
#define ROWS_MAX 100000U

#define NONE UINT32_MAX

#define TOO_MANY_OF_ONE_ID "out of memory, or thousands of spans have one id"

static int refuse(struct sp_traces *t, int status, const char *why)
{
	(void)snprintf(t->x.r.why, sizeof(t->x.r.why), "%s", why);
	return status;
}

static int no_memory(struct sp_traces *t)
{
	return refuse(t, SP_EXIT_DAMAGED, SP_REPORT_NO_MEMORY);
}

void sp_trace_id_put(char out[SP_TRACE_ID_TEXT], const struct sp_trace_id *id)
{
	(void)snprintf(out, SP_TRACE_ID_TEXT, "%016" PRIx64 "%016" PRIx64, id->high, id->low);
}

/* Which traces there are */

static uint32_t hash_of(uint64_t id)
{
	return (uint32_t)sp_hash_add(0, id);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_spans(const void *a, const void *b)
{
	const struct sp_trace_span *x = a;
	const struct sp_trace_span *y = b;
	int order = sp_trace_id_compare(&x->trace, &y->trace);

	if (order == 0)
		order = compare_numbers(x->start_ns, y->start_ns);
	/* Of two that begin at once the longer one may be the parent. */
	if (order == 0)
		order = compare_numbers(y->end_ns, x->end_ns);
	return order != 0 ? order : compare_numbers(x->id, y->id);
}

/* Sorts the spans, so that those of a trace follow each other. */
static int find_traces(struct sp_traces *t)
{
	struct sp_trace_span *span = t->spans.span;

	if (t->spans.n != 0)
		qsort(span, t->spans.n, sizeof(*span), compare_spans);
	for (uint32_t i = 0; i < t->spans.n; i++) {
		struct sp_trace *last = t->traces != 0 ? &t->trace[t->traces - 1] : NULL;

		if (last == NULL || sp_trace_id_compare(&last->id, &span[i].trace) != 0) {
			if (!SP_GROW(t->trace, t->trace_cap, t->traces + 1, UINT32_MAX))
				return -1;
			last = &t->trace[t->traces++];
			*last = (struct sp_trace){
				.id = span[i].trace, .first = i, .start_ns = span[i].start_ns};
		}
		last->n++;
		if (span[i].end_ns > last->end_ns)
			last->end_ns = span[i].end_ns;
	}
	return 0;
}

static struct sp_trace *find_trace(const struct sp_traces *t, const struct sp_trace_id *id)
{
	size_t from = 0, to = t->traces;

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		int order = sp_trace_id_compare(&t->trace[middle].id, id);

		if (order == 0)
			return &t->trace[middle];
		if (order < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return NULL;
}

static int read_files(struct sp_traces *t)
{
	char why[SP_REPORT_ERROR];

	for (size_t i = 0; i < t->o->traces_n; i++) {
		struct sp_bytes file = {0};
		int err = sp_report_read_spans(t->o->traces[i], &file, why);

		if (err == 0)
			err = sp_trace_spans_read(&t->spans, &file, why);
		free(file.data);
		t->passed += err != 0;
		if (err != 0)
			sp_report_complain(t->o->traces[i], why);
	}
	return t->spans.nomem ? -1 : find_traces(t);
}

/* Which of them are shown */

/* 0 or -1 without memory. */
static int show(struct sp_traces *t, struct sp_trace *trace)
{
	if (trace == NULL || t->n == t->o->top || trace->is_shown)
		return 0;
	if (!SP_GROW(t->shown, t->shown_cap, t->n + 1, UINT32_MAX))
		return -1;
	trace->is_shown = true;
	t->shown[t->n++] = (uint32_t)(trace - t->trace);
	return 0;
}

static struct sp_trace *trace_of(const struct sp_traces *t, const struct sp_slowest_request *q)
{
	struct sp_trace_id id;

	return sp_trace_id_read(t->x.roots.root[q->root].trace_id, &id) ? find_trace(t, &id) : NULL;
}

/* The spans that samples name, where no slow root says which trace to show. */
struct marking {
	struct sp_traces *t;
	struct sp_hash_index by_id;
};

static void mark(void *arg, const struct sp_report_sample *s)
{
	struct marking *m = arg;
	uint64_t id;
	uint32_t i;

	m->t->x.r.has_added = true;
	if (!sp_report_id_read(s->span_id, &id))
		return;
	for (uint32_t step = 0; sp_hash_index_next(&m->by_id, hash_of(id), &step, &i);)
		if (m->t->spans.span[i].id == id)
			m->t->spans.span[i].is_profiled = true;
}

static int mark_file(void *arg, const struct sp_bytes *file, char why[SP_REPORT_ERROR])
{
	const struct sp_report_sink sink = {.sample = mark, .arg = arg};

	return sp_report_load(file, SP_REPORT_MEMORY_MAX, &sink, why);
}

static int mark_spans(struct sp_traces *t)
{
	struct marking m = {.t = t};
	const struct sp_reading_visitor visitor = {mark_file, &m, NULL};
	size_t files = t->x.r.files, passed = t->x.r.passed;
	int err = 0;

	for (uint32_t i = 0; err == 0 && i < t->spans.n; i++)
		if (!sp_hash_index_put(&m.by_id, hash_of(t->spans.span[i].id), i))
			err = refuse(t, SP_EXIT_DAMAGED, TOO_MANY_OF_ONE_ID);
	if (err == 0)
		err = sp_reading_visit(&t->x.r, t->path, &visitor);
	/* The profiles are read once more. */
	t->x.r.files = files;
	t->x.r.passed = passed;
	sp_hash_index_fini(&m.by_id);
	return err;
}

static bool has_profiled(const struct sp_traces *t, const struct sp_trace *trace)
{
	for (uint32_t i = 0; i < trace->n; i++)
		if (t->spans.span[trace->first + i].is_profiled)
			return true;
	return false;
}

static int compare_durations(const void *a, const void *b, void *arg)
{
	const struct sp_trace *x = (const struct sp_trace *)arg + *(const uint32_t *)a;
	const struct sp_trace *y = (const struct sp_trace *)arg + *(const uint32_t *)b;

	return compare_numbers(y->end_ns - y->start_ns, x->end_ns - x->start_ns);
}

/* Without slow roots: the longest ones with a span in a profile. */
static int show_longest(struct sp_traces *t)
{
	uint32_t *found = calloc(t->traces + 1, sizeof(*found));
	int err = found != NULL ? mark_spans(t) : no_memory(t);
	size_t n = 0;

	for (uint32_t i = 0; err == 0 && i < t->traces; i++)
		if (has_profiled(t, &t->trace[i]))
			found[n++] = i;
	if (n != 0)
		qsort_r(found, n, sizeof(*found), compare_durations, t->trace);
	for (size_t i = 0; err == 0 && i < n; i++)
		if (show(t, &t->trace[found[i]]) != 0)
			err = no_memory(t);
	free(found);
	if (err == 0 && n == 0)
		err = refuse(
			t, SP_EXIT_USAGE,
			"no profile and no slow request has a span of these traces; --trace shows "
			"one of them all the same");
	return err;
}

static int show_traces(struct sp_traces *t)
{
	if (t->o->selection.trace_id != NULL) {
		if (t->traces == 0)
			return refuse(t, SP_EXIT_USAGE, "no span of these files is of that trace");
		return show(t, &t->trace[0]) == 0 ? 0 : no_memory(t);
	}
	for (size_t i = 0; i < t->x.requests; i++)
		if (show(t, trace_of(t, &t->x.request[i])) != 0)
			return no_memory(t);
	return t->n != 0 ? 0 : show_longest(t);
}

/* Their waterfalls */

/* Spans of a trace by their number in it. */
struct family {
	const struct sp_trace_span *span;
	uint32_t n;
	uint32_t *by_id;  /* sorted */
	uint32_t *parent; /* NONE = it has none in the files */
	uint32_t *first;  /* child; NONE = there is none */
	uint32_t *next;   /* sibling */
	uint32_t *walk;   /* the last search for a circle that came by, plus 1 */
	bool *is_done;    /* it has its row */
};

static int compare_ids(const void *a, const void *b, void *arg)
{
	const struct sp_trace_span *span = arg;

	return compare_numbers(span[*(const uint32_t *)a].id, span[*(const uint32_t *)b].id);
}

static uint32_t find_span(const struct family *f, uint64_t id)
{
	uint32_t from = 0, to = f->n;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (f->span[f->by_id[middle]].id < id)
			from = middle + 1;
		else
			to = middle;
	}
	return from < f->n && f->span[f->by_id[from]].id == id ? f->by_id[from] : NONE;
}

static void family_fini(struct family *f)
{
	free(f->by_id);
	free(f->parent);
	free(f->first);
	free(f->next);
	free(f->walk);
	free(f->is_done);
}

/* 0 or -1 without memory; family_fini() is right after either. */
static int family_init(struct family *f, const struct sp_trace_span *span, uint32_t n)
{
	*f = (struct family){.span = span, .n = n};
	f->by_id = calloc(n, sizeof(*f->by_id));
	f->parent = calloc(n, sizeof(*f->parent));
	f->first = calloc(n, sizeof(*f->first));
	f->next = calloc(n, sizeof(*f->next));
	f->walk = calloc(n, sizeof(*f->walk));
	f->is_done = calloc(n, sizeof(*f->is_done));
	if (f->by_id == NULL || f->parent == NULL || f->first == NULL || f->next == NULL ||
	    f->walk == NULL || f->is_done == NULL)
		return -1;
	for (uint32_t i = 0; i < n; i++)
		f->by_id[i] = i;
	qsort_r(f->by_id, n, sizeof(*f->by_id), compare_ids, (void *)(uintptr_t)span);
	memset(f->first, 0xff, n * sizeof(*f->first));
	/* From the last one on, so that children are in the order of their starts. */
	for (uint32_t i = n; i-- > 0;) {
		uint32_t parent = span[i].parent != 0 ? find_span(f, span[i].parent) : NONE;

		f->parent[i] = parent;
		f->next[i] = NONE;
		if (parent == NONE)
			continue;
		f->next[i] = f->first[parent];
		f->first[parent] = i;
	}
	return 0;
}

/* That one, or the first after it that has no row. */
static uint32_t pending(const struct family *f, uint32_t i)
{
	while (i != NONE && f->is_done[i])
		i = f->next[i];
	return i;
}

/* 0 or -1 without memory. */
static int add_row(struct sp_traces *t, struct sp_trace *trace, struct family *f, uint32_t i,
		   uint32_t depth)
{
	f->is_done[i] = true;
	if (t->rows == ROWS_MAX) {
		t->left_out++;
		return 0;
	}
	if (!SP_GROW(t->row, t->row_cap, t->rows + 1, ROWS_MAX))
		return -1;
	if (!sp_hash_index_put(&t->by_id, hash_of(f->span[i].id), (uint32_t)t->rows))
		return -1;
	t->row[t->rows++] = (struct sp_trace_row){
		.span = trace->first + i,
		.depth = depth,
		.lacks_parent = f->span[i].parent != 0 && f->parent[i] == NONE,
	};
	trace->rows++;
	return 0;
}

/* A span and what is below it. 0 or -1 without memory. */
static int add_rows(struct sp_traces *t, struct sp_trace *trace, struct family *f, uint32_t top)
{
	uint32_t depth = 0;
	uint32_t i = top;

	for (;;) {
		uint32_t next;

		if (!f->is_done[i] && add_row(t, trace, f, i, depth) != 0)
			return -1;
		next = pending(f, f->first[i]);
		depth += next != NONE;
		while (next == NONE && i != top) {
			next = pending(f, f->next[i]);
			if (next == NONE) {
				i = f->parent[i];
				depth--;
			}
		}
		if (next == NONE)
			return 0;
		i = next;
	}
}

/*
 * Walks from a span to its parent and on, up to the first span that the walk has passed before:
 * that span is its own ancestor.
 */
static uint32_t find_circle(struct family *f, uint32_t i)
{
	const uint32_t walk = i + 1;

	while (f->walk[i] != walk) {
		f->walk[i] = walk;
		i = f->parent[i];
	}
	return i;
}

static void count_services(struct sp_traces *t, struct sp_trace *trace, uint32_t *seen)
{
	for (uint32_t i = 0; i < trace->n; i++) {
		uint32_t service = t->spans.span[trace->first + i].service;

		trace->services += seen[service] != trace->first + 1;
		seen[service] = trace->first + 1;
	}
}

static int make_rows(struct sp_traces *t, struct sp_trace *trace)
{
	struct family f;
	uint32_t *seen = calloc(t->spans.text.n, sizeof(*seen));
	int err = family_init(&f, t->spans.span + trace->first, trace->n);

	trace->first_row = (uint32_t)t->rows;
	if (seen == NULL)
		err = -1;
	for (uint32_t i = 0; err == 0 && i < f.n; i++)
		if (f.parent[i] == NONE)
			err = add_rows(t, trace, &f, i);
	for (uint32_t i = 0; err == 0 && i < f.n; i++) {
		size_t row = t->rows;

		if (f.is_done[i])
			continue;
		err = add_rows(t, trace, &f, find_circle(&f, i));
		t->own_parents++;
		if (row < t->rows)
			t->row[row].is_own_parent = true;
	}
	if (err == 0)
		count_services(t, trace, seen);
	family_fini(&f);
	free(seen);
	return err;
}

/* What the profiles know of their spans */

static int put_text(struct sp_traces *t, uint32_t text, uint32_t *id)
{
	const char *s = sp_trace_spans_text(&t->spans, text);

	return sp_strtab_put(&t->x.roots.text, s, strlen(s), id);
}

/* A request for a span that is no slow root. */
static int add_request(struct sp_traces *t, const struct sp_trace_span *span)
{
	struct sp_report_root root = {.id = span->id,
				      .start_ns = span->start_ns,
				      .end_ns = span->end_ns,
				      .cpu_ns = span->cpu_ns,
				      .off_cpu_ns = span->off_cpu_ns,
				      .runnable_ns = span->runnable_ns,
				      .allocated_bytes = span->allocated_bytes,
				      .major_faults = SP_ROOT_VALUE_UNKNOWN,
				      .thread_id = SP_ROOT_VALUE_UNKNOWN,
				      .count = SP_ROOT_VALUE_UNKNOWN,
				      .p50_ns = SP_ROOT_VALUE_UNKNOWN,
				      .p90_ns = SP_ROOT_VALUE_UNKNOWN,
				      .p99_ns = SP_ROOT_VALUE_UNKNOWN};

	sp_trace_id_put(root.trace_id, &span->trace);
	(void)snprintf(root.span_id, sizeof(root.span_id), "%016" PRIx64, span->id);
	if (put_text(t, span->service, &root.service) != 0 ||
	    put_text(t, span->name, &root.name) != 0)
		return no_memory(t);
	return sp_slowest_add(&t->x, &root);
}

/* The row of a slow root; NULL = its trace is not shown, or its span is not in the files. */
static struct sp_trace_row *row_of(const struct sp_traces *t, const struct sp_slowest_request *q)
{
	const struct sp_report_root *root = &t->x.roots.root[q->root];
	struct sp_trace_id trace;
	uint32_t i;

	if (!sp_trace_id_read(root->trace_id, &trace))
		return NULL;
	for (uint32_t step = 0; sp_hash_index_next(&t->by_id, hash_of(root->id), &step, &i);) {
		const struct sp_trace_span *span = sp_trace_row_span(t, &t->row[i]);

		if (span->id == root->id && sp_trace_id_compare(&span->trace, &trace) == 0)
			return &t->row[i];
	}
	return NULL;
}

/* Keeps the slow roots that have a row, and adds all other spans. */
static int make_requests(struct sp_traces *t)
{
	struct sp_slowest *x = &t->x;
	size_t n = 0;
	int err = 0;

	for (size_t i = 0; i < x->requests; i++) {
		struct sp_trace_row *row = row_of(t, &x->request[i]);

		if (row == NULL || row->request != 0)
			continue;
		x->request[n++] = x->request[i];
		row->request = (uint32_t)n;
	}
	x->requests = n;
	for (size_t i = 0; err == 0 && i < t->rows; i++) {
		if (t->row[i].request != 0)
			continue;
		err = add_request(t, sp_trace_row_span(t, &t->row[i]));
		t->row[i].request = (uint32_t)x->requests;
	}
	return err;
}

static int choose(void *arg, struct sp_slowest *x)
{
	struct sp_traces *t = arg;
	int err = 0;

	if (x->roots.text.n == 0 && sp_strtab_init(&x->roots.text) != 0)
		return no_memory(t);
	err = show_traces(t);
	for (size_t i = 0; err == 0 && i < t->n; i++)
		if (make_rows(t, &t->trace[t->shown[i]]) != 0)
			err = refuse(t, SP_EXIT_DAMAGED, TOO_MANY_OF_ONE_ID);
	return err == 0 ? make_requests(t) : err;
}

static bool has_samples(const struct sp_slowest_request *q)
{
	for (unsigned part = 0; part < SP_PART_SAMPLED; part++)
		if (q->node[part] != 0)
			return true;
	return q->sampled_bytes != 0;
}

/*
 * Forgets requests of which nothing is known: spans of programs that are not profiled, or too short
 * for a sample.
 */
static void forget_unknown(struct sp_traces *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct sp_trace *trace = &t->trace[t->shown[i]];

		for (uint32_t k = 0; k < trace->rows; k++) {
			struct sp_trace_row *row = &t->row[trace->first_row + k];
			struct sp_slowest_request *q = &t->x.request[row->request - 1];

			q->is_unknown = q->is_added && !has_samples(q) && !q->cpu.is_known &&
					!q->off_cpu.is_known;
			trace->profiled += !q->is_unknown;
			if (q->is_unknown)
				row->request = 0;
		}
	}
}

/* The whole report */

static void put_count(struct sp_text_out *out, size_t n, const char *one, const char *many)
{
	if (n != 0)
		sp_text_out_put(out, "%s%zu %s", out->len != 0 ? ", " : "", n, n == 1 ? one : many);
}

bool sp_traces_put_passed(const struct sp_traces *t, char out[SP_DESCRIBE_TEXT])
{
	struct sp_text_out text = {out, SP_DESCRIBE_TEXT, 0};

	out[0] = '\0';
	put_count(&text, t->passed + t->x.r.passed, "file", "files");
	put_count(&text, t->spans.bad_lines, "line that is no JSON", "lines that are no JSON");
	put_count(&text, t->spans.large_lines, "line that takes too much memory",
		  "lines that take too much memory");
	put_count(&text, t->spans.bad_spans, "span without ids or times",
		  "spans without ids or times");
	put_count(&text, t->spans.twice, "span that is there twice", "spans that are there twice");
	put_count(&text, t->spans.too_many + t->left_out, "span for which there is no room",
		  "spans for which there is no room");
	put_count(&text, t->own_parents, "parent that is below its own child",
		  "parents that are below their own children");
	return text.len != 0;
}

bool sp_traces_has_passed(const struct sp_traces *t)
{
	return t->passed + t->x.r.passed + t->spans.bad_lines + t->spans.large_lines +
		       t->spans.bad_spans + t->spans.too_many + t->left_out !=
	       0;
}

int sp_traces_read(struct sp_traces *t, const struct sp_report_options *o, char *const *path)
{
	const struct sp_slowest_chooser chooser = {choose, t};
	const char *trace_id = o->selection.trace_id;
	int err;

	*t = (struct sp_traces){.o = o, .path = path};
	if (trace_id != NULL && !sp_trace_id_read(trace_id, &t->only))
		return refuse(t, SP_EXIT_USAGE, "--trace needs 32 hexadecimal digits");
	t->spans.only = trace_id != NULL ? &t->only : NULL;
	if (read_files(t) != 0)
		return no_memory(t);
	if (t->passed == o->traces_n) {
		t->x.r.is_told = true;
		return SP_EXIT_DAMAGED;
	}
	t->own = *o;
	t->own.selection.trace_id = NULL;
	err = sp_slowest_read(&t->x, &t->own, path, &t->told, &chooser);
	if (err == 0)
		forget_unknown(t);
	return err;
}

void sp_traces_fini(struct sp_traces *t)
{
	sp_slowest_fini(&t->x);
	sp_trace_spans_fini(&t->spans);
	sp_hash_index_fini(&t->by_id);
	sp_strtab_fini(&t->told);
	free(t->trace);
	free(t->shown);
	free(t->row);
}
