/* SPDX-License-Identifier: Apache-2.0 */
/* Finds spans, names and traces that were perhaps meant (suggest.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/suggest.h"

#include <ctype.h>
#include <string.h>

#include "export/report/frame.h"
#include "export/util/text_out.h"

#define SP_SUGGEST_BYTES ((size_t)64)
#define SP_SUGGEST_ROWS ((size_t)5)

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned n = a < b ? a : b;

	return n < c ? n : c;
}

static bool equal(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

unsigned sp_suggest_distance(const char *a, const char *b)
{
	size_t a_len = strnlen(a, SP_SUGGEST_BYTES);
	size_t b_len = strnlen(b, SP_SUGGEST_BYTES);
	size_t shorter = a_len < b_len ? a_len : b_len;
	unsigned row[SP_SUGGEST_BYTES + 1];

	if (shorter != 0 && strncasecmp(a, b, shorter) == 0)
		return 0;
	for (size_t k = 0; k <= b_len; k++)
		row[k] = (unsigned)k;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t k = 1; k <= b_len; k++) {
			unsigned change = diagonal + !equal(a[i - 1], b[k - 1]);

			diagonal = row[k];
			row[k] = least(change, row[k] + 1, row[k - 1] + 1);
		}
	}
	return row[b_len];
}

struct near {
	uint32_t text;
	uint32_t name; /* of a span; 0 = none */
	uint64_t ns;
	unsigned distance;
};

struct nearest {
	const struct sp_tally *t;
	const char *wanted;
	int (*compare)(const char *a, const char *b); /* ids without regard to case */
	struct near row
		[SP_SUGGEST_ROWS]; /* nearest first; of those that are equally near the largest */
	size_t rows;
	bool is_there;
	bool are_spans;
};

static bool is_nearer(const struct near *a, const struct near *b)
{
	return a->distance != b->distance ? a->distance < b->distance : a->ns > b->ns;
}

static bool is_listed(const struct nearest *n, uint32_t text)
{
	for (size_t i = 0; i < n->rows; i++)
		if (n->row[i].text == text)
			return true;
	return false;
}

static void offer(struct nearest *n, uint32_t text, uint32_t name, uint64_t ns)
{
	const char *s = sp_tally_text(n->t, text);
	struct near new = {text, name, ns, sp_suggest_distance(n->wanted, s)};
	size_t at;

	n->is_there = n->is_there || n->compare(s, n->wanted) == 0;
	/* Spans of a trace offer it again and again. */
	if (s[0] == '\0' || is_listed(n, text))
		return;
	for (at = n->rows; at > 0 && is_nearer(&new, &n->row[at - 1]); at--)
		if (at < SP_SUGGEST_ROWS)
			n->row[at] = n->row[at - 1];
	if (at == SP_SUGGEST_ROWS)
		return;
	n->row[at] = new;
	if (n->rows < SP_SUGGEST_ROWS)
		n->rows++;
}

static void put_nearest(struct sp_text_out *s, const struct nearest *n, const char *what)
{
	char wanted[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(n->wanted, wanted);
	sp_text_out_put(s, "there is no %s \"%.200s\"", what, wanted);
	if (n->rows == 0) {
		sp_text_out_put(s, "; no sample has a %s at all", what);
		return;
	}
	sp_text_out_put(s, "; the nearest: ");
	for (size_t i = 0; i < n->rows; i++) {
		const struct near *r = &n->row[i];

		sp_text_out_put(s, "%s%.100s", i != 0 ? ", " : "", sp_tally_text(n->t, r->text));
		if (r->name != 0)
			sp_text_out_put(s, " (%.100s)", sp_tally_text(n->t, r->name));
	}
	/* Whoever knows the spans of a program looks for each of them, and by default finds the roots only. */
	if (n->are_spans)
		sp_text_out_put(s, " (child spans count for their local root, unless the program "
				   "runs with SPANPROF_SPAN_ID_SCOPE=all)");
}

/* True if it is unknown, and the sentence says so. */
static bool is_unknown(const struct nearest *n, const char *what, struct sp_text_out *s)
{
	if (n->wanted == NULL || n->is_there)
		return false;
	put_nearest(s, n, what);
	return true;
}

static bool span_is_unknown(const struct sp_tally *t, const struct sp_selection *x,
			    struct sp_text_out *s)
{
	struct nearest n = {.t = t, .wanted = x->span_id, .compare = strcasecmp, .are_spans = true};

	for (size_t i = 0; n.wanted != NULL && i < t->spans; i++)
		offer(&n, t->span[i].id, t->span[i].name, t->span[i].sum.ns);
	return is_unknown(&n, "span", s);
}

static bool trace_is_unknown(const struct sp_tally *t, const struct sp_selection *x,
			     struct sp_text_out *s)
{
	struct nearest n = {.t = t, .wanted = x->trace_id, .compare = strcasecmp};

	for (size_t i = 0; n.wanted != NULL && i < t->spans; i++)
		offer(&n, t->span[i].trace, t->span[i].name, t->span[i].sum.ns);
	return is_unknown(&n, "trace", s);
}

static bool name_is_unknown(const struct sp_tally *t, const struct sp_selection *x,
			    struct sp_text_out *s)
{
	struct nearest n = {.t = t, .wanted = x->span_name, .compare = strcmp, .are_spans = true};

	for (size_t i = 0; n.wanted != NULL && i < t->names; i++)
		offer(&n, t->name[i].name, 0, t->name[i].sum.ns);
	return is_unknown(&n, "span name", s);
}

/* why is written through the sentence. */
void sp_suggest(const struct sp_tally *all, const struct sp_selection *x,
		char *why, // NOLINT(readability-non-const-parameter)
		size_t cap)
{
	struct sp_text_out s = {why, cap, 0};

	if (!span_is_unknown(all, x, &s) && !trace_is_unknown(all, x, &s) &&
	    !name_is_unknown(all, x, &s))
		sp_text_out_put(&s, "what is selected has samples, but not of this type, in this "
				    "time, or under "
				    "all of these conditions at once");
}
