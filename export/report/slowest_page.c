/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what made requests slow as the data of a page (page/slow.js draws it). Stacks are nodes in
 * preorder, each with the number of its caller, from 1 on; 0 is none. Names are untrusted:
 * sp_page_put_json() cleans and escapes them. Context: the report tool.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/page.h"
#include "export/report/slowest.h"
#include "export/report/time_line.h"
#include "sampler/base/compiler.h"

/*
 * In the mean flame graph of a name, frames with a smaller share than one in so many are left out,
 * because nobody could see them.
 */
#define NARROW 2000U

struct writer {
	FILE *out;
	const struct sp_slowest *x;
	struct sp_strtab name; /* names of all frames and threads */
	/* for each node of x->times: its number on the page, within its request */
	uint32_t *number;
	struct sp_segment *segment;
	bool failed;
};

static uint32_t name_of(struct writer *w, const struct sp_strtab *in, uint32_t text)
{
	size_t len;
	const char *s = sp_strtab_get(in, text, &len);
	uint32_t id = 0;

	w->failed = sp_strtab_put(&w->name, s, len, &id) != 0 || w->failed;
	return id;
}

static void put_text(const struct writer *w, const char *key, const char *text)
{
	(void)fprintf(w->out, "\"%s\":", key);
	sp_page_put_json(w->out, text);
}

static void put_number(const struct writer *w, const char *key, uint64_t n)
{
	if (n == SP_ROOT_VALUE_UNKNOWN)
		(void)fprintf(w->out, ",\"%s\":null", key);
	else
		(void)fprintf(w->out, ",\"%s\":%" PRIu64, key, n);
}

/* The next node below `top` after i, or 0. children: the first child of i may be next. */
static uint32_t next_below(const struct sp_tree *t, uint32_t top, uint32_t i, bool children)
{
	i = sp_tree_after(t, i, children);
	return t->node[i].depth > t->node[top].depth ? i : 0;
}

/*
 * Writes the stacks of one part: caller, name, kind, part, own time, own samples. number: of the
 * last node so far. Returns the number of the last one.
 */
static uint32_t put_part(struct writer *w, uint32_t top, enum sp_part part, uint64_t least,
			 uint32_t number)
{
	const struct sp_tree *t = &w->x->r.tree;
	uint32_t at_depth[SP_TREE_DEPTH + 2] = {0};
	uint32_t base = t->node[top].depth;
	uint32_t i = t->node[top].first;

	while (i != 0) {
		const struct sp_tree_node *n = &t->node[i];
		uint64_t ns = n->ns, samples = n->samples;

		if (n->ns < least) {
			i = next_below(t, top, i, false);
			continue;
		}
		for (uint32_t c = n->first; c != 0; c = t->node[c].next)
			if (t->node[c].ns >= least) {
				ns -= t->node[c].ns;
				samples -= t->node[c].samples;
			}
		(void)fprintf(w->out, "%s%" PRIu32 ",%" PRIu32 ",%d,%d,%" PRIu64 ",%" PRIu64,
			      number != 0 ? "," : "", at_depth[n->depth - base - 1],
			      name_of(w, &t->text, n->text), (int)n->kind, (int)part, ns, samples);
		at_depth[n->depth - base] = ++number;
		i = next_below(t, top, i, true);
	}
	return number;
}

static void put_flame(struct writer *w, const uint32_t node[SP_PART_SAMPLED], uint32_t narrow)
{
	const struct sp_tree *t = &w->x->r.tree;
	uint32_t number = 0;
	uint64_t all = 0;

	for (unsigned part = 0; part < SP_PART_SAMPLED; part++)
		all += node[part] != 0 ? t->node[node[part]].ns : 0;
	(void)fputs(",\"flame\":[", w->out);
	for (unsigned part = 0; part < SP_PART_SAMPLED; part++)
		if (node[part] != 0)
			number = put_part(w, node[part], (enum sp_part)part,
					  narrow != 0 ? all / narrow : 0, number);
	(void)fputs("]", w->out);
}

/* Writes a name of requests: how many there are, how long they take, and their mean flame graph. */
static void put_group(struct writer *w, const struct sp_slowest_group *g)
{
	static const uint32_t none[SP_PART_SAMPLED];
	double ns;

	(void)fputs("{", w->out);
	put_text(w, "service", sp_report_roots_text(&w->x->roots, g->service));
	(void)fputs(",", w->out);
	put_text(w, "name", sp_report_roots_text(&w->x->roots, g->name));
	put_number(w, "count", g->count);
	put_number(w, "slow", g->slow);
	put_number(w, "p50", g->p50_ns);
	put_number(w, "p90", g->p90_ns);
	put_number(w, "p99", g->p99_ns);
	put_flame(w, sp_slowest_mean(w->x, g, SP_PART_CPU, &ns) ? g->node : none, NARROW);
	(void)fputs("}", w->out);
}

static int64_t us_since(uint64_t at_ns, uint64_t start_ns)
{
	return ((int64_t)at_ns - (int64_t)start_ns) / 1000;
}

static void put_segments(struct writer *w, const struct sp_slowest_request *q,
			 const struct sp_moment *m, size_t n, bool is_main)
{
	const struct sp_report_root *root = &w->x->roots.root[q->root];
	size_t segments =
		sp_time_line_make(m, n, root->start_ns, root->end_ns, is_main, w->segment);

	(void)fprintf(w->out, "{\"id\":%" PRIu32 ",\"main\":%s,", m->thread,
		      is_main ? "true" : "false");
	put_text(w, "name", sp_strtab_get(&w->x->times.text, m->name, &(size_t){0}));
	(void)fputs(",\"segments\":[", w->out);
	for (size_t i = 0; i < segments; i++) {
		const struct sp_segment *s = &w->segment[i];

		(void)fprintf(w->out, "%s%" PRId64 ",%" PRId64 ",%" PRIu32 ",%d", i != 0 ? "," : "",
			      us_since(s->from_ns, root->start_ns),
			      us_since(s->to_ns, root->start_ns), w->number[s->node], (int)s->part);
	}
	(void)fputs("]}", w->out);
}

static bool is_of_root(const struct sp_report_root *root, const struct sp_moment *m)
{
	return root->thread_id == m->thread;
}

/*
 * Writes the threads of a request, its own thread first. If another thread has ended the request,
 * its own thread may have no samples; then the thread of the first sample counts as its own.
 */
static void put_threads(struct writer *w, const struct sp_slowest_request *q)
{
	const struct sp_report_root *root = &w->x->roots.root[q->root];
	const struct sp_moment *m = w->x->moment + q->first_moment;
	bool has_main = false;
	bool is_first = true;

	for (size_t i = 0; i < q->moments; i++)
		has_main = has_main || is_of_root(root, &m[i]);
	(void)fputs(",\"threads\":[", w->out);
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0, n; i < q->moments; i += n) {
			bool is_main = has_main ? is_of_root(root, &m[i]) : i == 0;

			for (n = 1; i + n < q->moments && m[i + n].thread == m[i].thread; n++)
				;
			if (is_main != (round == 0))
				continue;
			(void)fputs(is_first ? "" : ",", w->out);
			put_segments(w, q, &m[i], n, is_main);
			is_first = false;
		}
	}
	(void)fputs("]", w->out);
}

/* Writes the stacks of a request's samples with times: caller, name, kind. */
static void put_stacks(struct writer *w, uint32_t top)
{
	const struct sp_tree *t = &w->x->times;
	uint32_t number = 0;

	(void)fputs(",\"stacks\":[", w->out);
	w->number[top] = 0;
	for (uint32_t i = top != 0 ? t->node[top].first : 0; i != 0;
	     i = next_below(t, top, i, true)) {
		const struct sp_tree_node *n = &t->node[i];

		(void)fprintf(w->out, "%s%" PRIu32 ",%" PRIu32 ",%d", number != 0 ? "," : "",
			      w->number[n->parent], name_of(w, &t->text, n->text), (int)n->kind);
		w->number[i] = ++number;
	}
	(void)fputs("]", w->out);
}

static void put_time(const struct writer *w, const char *key, const struct sp_slowest_time *time)
{
	if (time->is_known)
		(void)fprintf(w->out, ",\"%s\":[%.0f,%s]", key, time->ns,
			      time->of_exact ? "true" : "false");
	else
		(void)fprintf(w->out, ",\"%s\":null", key);
}

static void put_request(struct writer *w, const struct sp_slowest_request *q, uint32_t top)
{
	const struct sp_report_root *root = &w->x->roots.root[q->root];
	char sentence[SP_REPORT_TEXT_MAX + 1];
	bool is_first = true;

	sp_slowest_sentence(sentence, w->x, q, true);
	(void)fputs("{", w->out);
	put_text(w, "sentence", sentence);
	(void)fprintf(w->out, ",\"group\":%" PRIu32 ",\"span\":\"%s\",\"trace\":\"%s\"", q->group,
		      root->span_id, root->trace_id);
	if (q->is_added)
		(void)fputs(",\"added\":true", w->out);
	put_number(w, "start_us", root->start_ns / 1000);
	put_number(w, "ns", q->duration_ns);
	put_number(w, "slower", q->slower_by_ns);
	put_number(w, "allocated", q->allocated_bytes);
	put_number(w, "faults", root->major_faults);
	put_time(w, "cpu", &q->cpu);
	put_time(w, "off", &q->off_cpu);
	(void)fputs(",\"waits\":[", w->out);
	for (unsigned part = SP_PART_RUNNABLE; part < SP_PART_SAMPLED; part++) {
		struct sp_slowest_time time = sp_slowest_part(w->x, q, (enum sp_part)part);

		if (!time.is_known)
			continue;
		(void)fprintf(w->out, "%s%u,%.0f", is_first ? "" : ",", part, time.ns);
		is_first = false;
	}
	(void)fputs("]", w->out);
	put_flame(w, q->node, 0);
	put_stacks(w, top);
	put_threads(w, q);
	(void)fputs("}", w->out);
}

/* Finds the node of x->times above the stacks of each request; 0 = none. */
static void find_tops(const struct sp_slowest *x, uint32_t *top)
{
	const struct sp_tree *t = &x->times;

	for (uint32_t i = t->node[0].first; i != 0; i = t->node[i].next)
		top[strtoul(sp_tree_text(t, &t->node[i]), NULL, 10)] = i;
}

static void put_words(const struct writer *w, const char *key, const char *const *words, size_t n)
{
	(void)fprintf(w->out, "\"%s\":[", key);
	for (size_t i = 0; i < n; i++)
		(void)fprintf(w->out, "%s\"%s\"", i != 0 ? "," : "", words[i]);
	(void)fputs("],\n", w->out);
}

static void put_all(struct writer *w, const uint32_t *top)
{
	const struct sp_slowest *x = w->x;

	(void)fputs("{", w->out);
	put_words(w, "parts", sp_part_words, SP_PARTS);
	put_words(w, "kinds", sp_frame_kind_words, SP_FRAME_KIND_N);
	(void)fprintf(w->out,
		      "\"all\":%zu,\"waits\":%s,\"from_us\":%" PRIu64 ",\"to_us\":%" PRIu64
		      ",\n\"groups\":[",
		      x->all_requests, x->has_waits ? "true" : "false", x->from_ns / 1000,
		      x->to_ns / 1000);
	for (size_t i = 0; i < x->groups; i++) {
		(void)fputs(i != 0 ? ",\n" : "\n", w->out);
		put_group(w, &x->group[i]);
	}
	(void)fputs("],\n\"requests\":[", w->out);
	for (size_t i = 0; i < x->requests; i++) {
		(void)fputs(i != 0 ? ",\n" : "\n", w->out);
		if (x->request[i].is_unknown)
			(void)fputs("null", w->out);
		else
			put_request(w, &x->request[i], top[i]);
	}
	(void)fputs("],\n\"names\":[", w->out);
	for (uint32_t i = 0; i < w->name.n; i++) {
		(void)fputs(i != 0 ? ",\n" : "", w->out);
		sp_page_put_json(w->out, sp_strtab_get(&w->name, i, &(size_t){0}));
	}
	(void)fputs("]}\n", w->out);
}

int sp_slowest_print_data(FILE *out, const struct sp_slowest *x)
{
	struct writer w = {.out = out, .x = x};
	uint32_t *top = calloc(x->requests + 1, sizeof(*top));
	size_t most = 0;

	for (size_t i = 0; i < x->requests; i++)
		if (x->request[i].moments > most)
			most = x->request[i].moments;
	w.number = calloc(x->times.nodes, sizeof(*w.number));
	w.segment = calloc(sp_segments_max(most), sizeof(*w.segment));
	w.failed = top == NULL || w.number == NULL || w.segment == NULL ||
		   sp_strtab_init(&w.name) != 0;
	if (!w.failed) {
		find_tops(x, top);
		put_all(&w, top);
	}
	sp_strtab_fini(&w.name);
	free(w.segment);
	free(w.number);
	free(top);
	return w.failed ? -1 : 0;
}

static int put_data(FILE *out, const void *x)
{
	return sp_slowest_print_data(out, x);
}

void sp_slowest_title(char out[SP_SLOWEST_TITLE], const struct sp_slowest *x)
{
	const char *service = sp_report_roots_text(&x->roots, x->group[0].service);
	bool has_name = !x->several_services && service[0] != '\0';

	(void)snprintf(out, SP_SLOWEST_TITLE, "%s%sslow requests", has_name ? service : "",
		       has_name ? ": " : "");
}

int sp_slowest_print_page(FILE *out, const void *slowest)
{
	const struct sp_slowest *x = slowest;
	char title[SP_SLOWEST_TITLE];

	sp_slowest_title(title, x);
	return sp_page_print_slow(out, title, put_data, x);
}
