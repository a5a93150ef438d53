/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the report: as tables; as folded stacks, one line for each, "root;caller;function nanoseconds"; and as JSON,
 * by jansson, whose keys are stable. Context: the report tool.
 */
#include "export/report/print.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "export/report/short_name.h"
#include "sampler/base/compiler.h"

/* With fewer samples, any difference of shares may be chance (page/page.js). */
#define SP_COMPARED_SAMPLES 10

/* Smaller changes are not shown: two shares whose tables show "0.0" may differ by this much. */
#define SP_CHANGE_SEEN 0.0005

static double amount(const struct sp_print *p, uint64_t n)
{
	return sp_report_amount(p->in_bytes, n);
}

static const char *unit(const struct sp_print *p)
{
	return sp_report_unit(p->in_bytes);
}

/* The unit of the counts. */
static const char *counted(const struct sp_print *p)
{
	return p->in_bytes ? "blocks" : "samples";
}

static double share(uint64_t part, uint64_t whole)
{
	return whole != 0 ? (double)part / (double)whole : 0.0;
}

static double percent(uint64_t part, uint64_t whole)
{
	return 100.0 * share(part, whole);
}

static const char *bold(const struct sp_print *p)
{
	return p->coloured ? "\x1b[1m" : "";
}

static const char *change(const struct sp_print *p, double difference)
{
	if (!p->coloured || (difference < SP_CHANGE_SEEN && difference > -SP_CHANGE_SEEN))
		return "";
	return difference > 0 ? "\x1b[31m" : "\x1b[34m";
}

static const char *plain(const struct sp_print *p)
{
	return p->coloured ? "\x1b[0m" : "";
}

static size_t at_most(size_t n, size_t top)
{
	return top != 0 && top < n ? top : n;
}

/*
 * The columns of a character, at most. Characters outside of western scripts may take two; if all
 * of them count as two, no line becomes too long.
 */
static unsigned columns_of(const char *c)
{
	return (unsigned char)c[0] >= 0xe1 ? 2 : 1;
}

static const char *after(const char *c)
{
	for (c++; ((unsigned char)*c & 0xc0) == 0x80; c++)
		;
	return c;
}

static unsigned width_of(const char *text)
{
	unsigned n = 0;

	for (; *text != '\0'; text = after(text))
		n += columns_of(text);
	return n;
}

/* How many bytes of the text fit into so many columns. */
static size_t fitting(const char *text, unsigned room)
{
	const char *c = text;

	for (; *c != '\0' && columns_of(c) <= room; c = after(c))
		room -= columns_of(c);
	return (size_t)(c - text);
}

/* How many columns are left in a line in which `taken` ones are used, at least 12. */
static unsigned room_of(const struct sp_print *p, unsigned taken)
{
	const unsigned least = 12;

	return p->width > taken + least ? p->width - taken : least;
}

/*
 * Prints a text at the end of a line, cut to the columns that the terminal has left: at the text's
 * end, or in its middle, because the end of a function's name says more.
 */
enum sp_cut { SP_CUT_END, SP_CUT_MIDDLE };
static void put_cut(FILE *out, const struct sp_print *p, unsigned taken, const char *text,
		    enum sp_cut where)
{
	static const char cut[] = "...";
	unsigned whole = width_of(text);
	unsigned room = room_of(p, taken);
	unsigned tail;

	if (p->width == 0 || whole <= room) {
		(void)fputs(text, out);
		return;
	}
	room -= (unsigned)strlen(cut);
	tail = where == SP_CUT_MIDDLE ? room / 2 : 0;
	(void)fwrite(text, 1, fitting(text, room - tail), out);
	(void)fputs(cut, out);
	while (width_of(text) > tail)
		text = after(text);
	(void)fputs(text, out);
}

static void print_baseline(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	(void)fprintf(out, "baseline: %" PRIu64 " %s, %.2f %s %s ", t->base.samples, counted(p),
		      amount(p, t->base.ns), unit(p), p->time);
	if (p->base_files != 0)
		(void)fprintf(out, "in %zu %s\n", p->base_files,
			      p->base_files == 1 ? "profile" : "profiles");
	else if (p->base_latency != NULL)
		(void)fprintf(out, "of requests that are \"%s\"\n", p->base_latency);
	else
		(void)fprintf(out, "of %" PRIu32 " other spans of that name\n", t->base_spans);
	if (t->total.samples < SP_COMPARED_SAMPLES || t->base.samples < SP_COMPARED_SAMPLES)
		(void)fprintf(out, "too few samples to compare: differences may be chance\n");
}

static void print_totals(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	char clean[SP_REPORT_TEXT_MAX + 1];

	(void)fprintf(out,
		      "%s%zu %s, %" PRIu64 " %s, %.2f %s %s; in spans: %" PRIu64
		      " %s, %.2f %s %s (%.1f %%), %zu %s%s\n",
		      bold(p), p->files, p->files == 1 ? "profile" : "profiles", t->total.samples,
		      counted(p), amount(p, t->total.ns), unit(p), p->time, t->labelled.samples,
		      counted(p), amount(p, t->labelled.ns), unit(p), p->time,
		      percent(t->labelled.ns, t->total.ns), t->span.n,
		      t->span.n == 1 ? "span" : "spans", plain(p));
	if (p->unfiltered != NULL) {
		(void)sp_report_clean(p->filter, clean);
		(void)fprintf(out, "%s\n", clean);
	}
	if (p->passed != 0)
		(void)fprintf(out, "passed over: %zu %s\n", p->passed,
			      p->passed == 1 ? "file" : "files");
	if (t->unsampled.ns != 0)
		(void)fprintf(out, "%.2f s of it between samples, under %s\n",
			      amount(p, t->unsampled.ns), SP_REPORT_UNSAMPLED);
	if (t->diff)
		print_baseline(out, t, p);
	if (t->locks.ns != 0)
		(void)fprintf(out,
			      "%.2f s of it waiting for locks, most for one held by %s (span %s)\n",
			      amount(p, t->locks.ns), sp_tally_text(t, t->wait.row[0].owner),
			      sp_tally_text(t, t->wait.row[0].owner_id));
	if (p->blocked_ns != 0)
		(void)fprintf(out, "others waited %.2f s for locks that it held\n",
			      amount(p, p->blocked_ns));
	if (p->waiting_ns != 0)
		(void)fprintf(out, "%.2f s of waiting are in another profile: use --type off_cpu\n",
			      amount(p, p->waiting_ns));
	if (p->has_memory && !p->in_bytes)
		(void)fprintf(out, "allocations are in another profile: use --type alloc_space\n");
}

/* Prints the last column of a row, after its other columns. */
static void put_name(FILE *out, const struct sp_print *p, const char *name, enum sp_cut where,
		     int taken)
{
	put_cut(out, p, (unsigned)taken, name, where);
	(void)fputc('\n', out);
}

void sp_print_last(FILE *out, const struct sp_print *p, const char *text, int taken)
{
	put_name(out, p, text, SP_CUT_END, taken);
}

void sp_print_heading(FILE *out, const struct sp_print *p, const char *text)
{
	(void)fprintf(out, "%s%s%s\n", bold(p), text, plain(p));
}

/*
 * Prints the last column of a function's row. On a terminal, names are shortened as on the page:
 * with namespaces if they fit, otherwise without. Elsewhere names are whole.
 */
static void put_function(FILE *out, const struct sp_tally *t, const struct sp_print *p,
			 const struct sp_function_row *f, int taken)
{
	const char *name = sp_tally_text(t, f->key);
	struct sp_short_name shortened;

	if (p->width != 0 && (f->kind == SP_FRAME_OWN || f->kind == SP_FRAME_LIBRARY)) {
		sp_short_name(name, &shortened);
		name = width_of(shortened.with_namespaces) <= room_of(p, (unsigned)taken)
			       ? shortened.with_namespaces
			       : shortened.last_parts;
	}
	put_name(out, p, name, SP_CUT_MIDDLE, taken);
}

/*
 * Prints the share of a row; for names of spans also two standard errors in percent, or a mark that
 * it has too few samples for that.
 */
static int print_share(FILE *out, const struct sp_tally *t, const struct sp_print *p,
		       const struct sp_rows *rows, const struct sp_sum *sum)
{
	const bool of_all = rows == &t->thread || rows == &t->by;
	const bool has_error = rows == &t->name && !p->in_bytes;
	const int width = of_all ? 8 : 10;
	int taken;

	if (!p->in_bytes && sp_tally_has_too_few(t, sum))
		return fprintf(out, "%*s  ", has_error ? width + 8 : width + 1,
			       has_error ? "too few samples" : "too few");
	taken = fprintf(out, "%*.1f%%  ", width,
			percent(sum->ns, of_all ? t->total.ns : t->labelled.ns));
	if (has_error)
		taken += fprintf(out, "%4.0f%%  ", 200 * sp_tally_error(t, sum));
	return taken;
}

static void print_row(FILE *out, const struct sp_tally *t, const struct sp_print *p,
		      const struct sp_rows *rows, const struct sp_row *r)
{
	const bool names = rows == &t->name;
	const char *name = sp_tally_text(t, rows == &t->span ? r->name : r->text);
	int taken = names ? fprintf(out, "%9" PRIu32, r->spans) : fprintf(out, "%9s", "");

	taken += fprintf(out, " %9" PRIu64 " %10.*f ", r->sum.samples, names ? 2 : 3,
			 amount(p, r->sum.ns));
	taken += print_share(out, t, p, rows, &r->sum);
	if (rows == &t->span)
		taken += fprintf(out, "%-16s  ", sp_tally_text(t, r->text));
	put_name(out, p, names && name[0] == '\0' ? "(no span_name)" : name, SP_CUT_END, taken);
}

/* Prints a table: all names of spans, the largest spans, names of threads, or waits for locks. */
static void print_rows(FILE *out, const struct sp_tally *t, const struct sp_print *p,
		       const struct sp_rows *rows, const char *heading)
{
	const bool names = rows == &t->name, threads = rows == &t->thread || rows == &t->by;
	size_t n = at_most(rows->n, names ? 0 : p->top);

	if (n == 0)
		return;
	(void)fprintf(out, "\n%s%9s %9s %*s %s %*s  %s%s%s\n", bold(p),
		      !names           ? ""
		      : t->left_behind ? "open"
				       : "spans",
		      counted(p), p->in_bytes ? 6 : 8, p->in_bytes ? "" : p->time, unit(p),
		      threads ? 9 : 11, threads ? "% of all" : "% of spans",
		      names && !p->in_bytes ? "  +/-  " : "", heading, plain(p));
	for (size_t i = 0; i < n; i++)
		print_row(out, t, p, rows, &rows->row[i]);
	if (n < rows->n)
		(void)fprintf(out, "%19s %zu %s more\n", "", rows->n - n,
			      rows == &t->span ? "spans"
			      : rows == &t->by ? "values"
					       : "names");
}

static void print_functions(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	(void)fprintf(out, "\n%s%10s %9s %10s %9s  %s%s\n", bold(p),
		      p->in_bytes ? "self MiB" : "self s", "% of all",
		      p->in_bytes ? "total MiB" : "total s", "% of all",
		      p->lines ? "function (file:line)" : "function", plain(p));
	for (size_t i = 0; i < at_most(t->functions, p->top); i++) {
		const struct sp_function_row *f = &t->function[i];

		put_function(out, t, p, f,
			     fprintf(out, "%10.2f %8.1f%% %10.2f %8.1f%%  ", amount(p, f->self.ns),
				     percent(f->self.ns, t->total.ns), amount(p, f->total.ns),
				     percent(f->total.ns, t->total.ns)));
	}
}

static void print_change(FILE *out, const struct sp_print *p, double difference)
{
	(void)fprintf(out, " %s%+7.1f%s", change(p, difference), 100.0 * difference, plain(p));
}

static void print_changes(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	static const char head[] = "   self baseline    diff    total baseline    diff  ";

	(void)fprintf(out, "\n%s%s%s%s\n", bold(p), head,
		      p->lines ? "function (file:line)" : "function", plain(p));
	for (size_t i = 0; i < at_most(t->functions, p->top); i++) {
		const struct sp_function_row *f = &t->function[i];

		(void)fprintf(out, "%6.1f%% %7.1f%%", percent(f->self.ns, t->total.ns),
			      percent(f->base_self.ns, t->base.ns));
		print_change(out, p, sp_tally_self_change(t, f));
		(void)fprintf(out, "  %6.1f%% %7.1f%%", percent(f->total.ns, t->total.ns),
			      percent(f->base_total.ns, t->base.ns));
		print_change(out, p, sp_tally_total_change(t, f));
		(void)fputs("  ", out);
		put_function(out, t, p, f, (int)strlen(head));
	}
}

void sp_report_print_table(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	print_totals(out, t, p);
	if (p->label != NULL)
		print_rows(out, t, p, &t->by, p->label);
	print_rows(out, t, p, &t->name,
		   t->left_behind ? "span_name: allocated in the span and in use after its end"
				  : "span_name");
	print_rows(out, t, p, &t->span,
		   t->left_behind ? "span_id           span_name of an open span"
				  : "span_id           span_name");
	print_rows(out, t, p, &t->wait, "span_name: who holds the lock that it waited for");
	if (p->threads)
		print_rows(out, t, p, &t->thread, "thread_name");
	if (p->threads && t->thread.n == 0)
		(void)fputs("\nno sample has the name of its thread (SPANPROF_THREAD_NAME)\n", out);
	if (t->functions == 0)
		return;
	if (t->diff)
		print_changes(out, t, p);
	else
		print_functions(out, t, p);
	if (p->hint != NULL && p->hint[0] != '\0')
		(void)fprintf(out, "\n%s\n", p->hint);
}

/*
 * The last blank in a name that ends with a number; NULL = none. A reader would take the number
 * behind the blank for a value of the line.
 */
static const char *ambiguous_blank(const char *leaf)
{
	const char *blank = strrchr(leaf, ' ');

	return blank != NULL && blank[1 + strspn(blank + 1, "0123456789.")] == '\0' ? blank : NULL;
}

static void print_frame(FILE *out, const char *s, bool is_leaf)
{
	const char *blank = is_leaf ? ambiguous_blank(s) : NULL;

	for (; *s != '\0'; s++)
		(void)fputc(*s == ';' ? ':' : s == blank ? '_' : *s, out);
}

void sp_report_print_folded(FILE *out, const struct sp_tree *t, bool diff)
{
	uint32_t path[SP_TREE_DEPTH + 1];

	for (uint32_t i = sp_tree_after(t, 0, true); i != 0; i = sp_tree_after(t, i, true)) {
		const struct sp_tree_node *n = &t->node[i];

		path[n->depth] = i;
		if (n->self_ns == 0 && n->base_self_ns == 0)
			continue;
		for (uint32_t d = 1; d <= n->depth; d++) {
			if (d != 1)
				(void)fputc(';', out);
			print_frame(out, sp_tree_text(t, &t->node[path[d]]), d == n->depth);
		}
		if (diff)
			(void)fprintf(out, " %" PRIu64, n->base_self_ns);
		(void)fprintf(out, " %" PRIu64 "\n", n->self_ns);
	}
}

static json_t *number(uint64_t n)
{
	return json_integer(n <= INT64_MAX ? (json_int_t)n : INT64_MAX);
}

static json_t *json_text(const struct sp_tally *t, uint32_t id)
{
	return json_string(sp_tally_text(t, id));
}

/* The keys of a sum in JSON. */
struct keys {
	const char *samples, *ns, *self_samples, *self_ns, *total_samples, *total_ns;
};
static const struct keys of_time = {"samples",       "ns",      "self_samples", "self_ns",
				    "total_samples", "total_ns"};
static const struct keys of_memory = {"blocks",     "bytes",        "self_blocks",
				      "self_bytes", "total_blocks", "total_bytes"};
static const struct keys *called = &of_time;

static json_t *json_sum(const struct sp_sum *s)
{
	return json_pack("{s:o, s:o}", called->samples, number(s->samples), called->ns,
			 number(s->ns));
}

static json_t *span_name(const struct sp_tally *t, size_t i)
{
	const struct sp_row *n = &t->name.row[i];
	json_t *row =
		json_pack("{s:o, s:o, s:o, s:o, s:f}", "span_name", json_text(t, n->text), "spans",
			  number(n->spans), called->samples, number(n->sum.samples), called->ns,
			  number(n->sum.ns), "share", share(n->sum.ns, t->labelled.ns));

	if (called == &of_time &&
	    json_object_set_new(
		    row, "standard_error_ns",
		    number((uint64_t)((double)n->sum.ns * sp_tally_error(t, &n->sum)))) != 0) {
		json_decref(row);
		return NULL;
	}
	return row;
}

static json_t *span(const struct sp_tally *t, size_t i)
{
	const struct sp_row *s = &t->span.row[i];

	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "span_id", json_text(t, s->text), "span_name",
			 json_text(t, s->name), "trace_id", json_text(t, s->trace), called->samples,
			 number(s->sum.samples), called->ns, number(s->sum.ns));
}

static json_t *thread(const struct sp_tally *t, size_t i)
{
	const struct sp_row *r = &t->thread.row[i];

	return json_pack("{s:o, s:o, s:o, s:f}", "thread_name", json_text(t, r->text),
			 called->samples, number(r->sum.samples), called->ns, number(r->sum.ns),
			 "share", share(r->sum.ns, t->total.ns));
}

static json_t *value(const struct sp_tally *t, size_t i)
{
	const struct sp_row *r = &t->by.row[i];

	return json_pack("{s:o, s:o, s:o, s:f}", "value", json_text(t, r->text), called->samples,
			 number(r->sum.samples), called->ns, number(r->sum.ns), "share",
			 share(r->sum.ns, t->total.ns));
}

static json_t *wait(const struct sp_tally *t, size_t i)
{
	const struct sp_row *r = &t->wait.row[i];

	return json_pack("{s:o, s:o, s:o, s:o}", "span_name", json_text(t, r->name), "held_by",
			 json_text(t, r->owner), called->samples, number(r->sum.samples),
			 called->ns, number(r->sum.ns));
}

static json_t *sums(const struct sp_sum *self, const struct sp_sum *total)
{
	return json_pack("{s:o, s:o, s:o, s:o}", called->self_samples, number(self->samples),
			 called->self_ns, number(self->ns), called->total_samples,
			 number(total->samples), called->total_ns, number(total->ns));
}

static json_t *function(const struct sp_tally *t, size_t i)
{
	const struct sp_function_row *f = &t->function[i];
	json_t *row = json_pack("{s:o, s:o}", "function", json_text(t, f->name), "file",
				json_text(t, f->file));
	json_t *now = sums(&f->self, &f->total);
	json_t *base;

	if (t->lines)
		json_object_set_new(row, "line", number(f->line));
	json_object_update(row, now);
	json_decref(now);
	if (!t->diff)
		return row;
	base = sums(&f->base_self, &f->base_total);
	json_object_set_new(base, "self_change", json_real(sp_tally_self_change(t, f)));
	json_object_set_new(base, "total_change", json_real(sp_tally_total_change(t, f)));
	json_object_set_new(row, "baseline", base);
	return row;
}

/* A sum with another number. */
static json_t *sum_with(const struct sp_sum *s, const char *key, uint64_t n)
{
	json_t *sum = json_sum(s);

	json_object_set_new(sum, key, number(n));
	return sum;
}

struct writer {
	FILE *out;
	const char *before; /* text before the next key */
	int err;
};

static void put_value(struct writer *w, json_t *value)
{
	if (value == NULL || json_dumpf(value, w->out, JSON_PRESERVE_ORDER | JSON_ENCODE_ANY) != 0)
		w->err = -1;
	json_decref(value);
}

static void put_key(struct writer *w, const char *key)
{
	(void)fprintf(w->out, "%s \"%s\": ", w->before, key);
	w->before = ",\n";
}

static void put(struct writer *w, const char *key, json_t *value)
{
	put_key(w, key);
	put_value(w, value);
}

/*
 * Writes the rows one by one: all rows as objects of jansson would take many times the memory of
 * the tally.
 */
static void put_rows(struct writer *w, const char *key, const struct sp_tally *t, size_t n,
		     json_t *(*row)(const struct sp_tally *t, size_t i))
{
	put_key(w, key);
	(void)fputc('[', w->out);
	for (size_t i = 0; i < n; i++) {
		(void)fputs(i != 0 ? ",\n  " : "\n  ", w->out);
		put_value(w, row(t, i));
	}
	(void)fputc(']', w->out);
}

int sp_report_print_json(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	struct writer w = {.out = out, .before = "{\n"};

	called = p->in_bytes ? &of_memory : &of_time;
	put(&w, "profiles", number(p->files));
	put(&w, "passed_over", number(p->passed));
	put(&w, "total", json_sum(&t->total));
	put(&w, "labelled", sum_with(&t->labelled, "spans", t->span.n));
	put(&w, "residual", json_sum(&t->unsampled));
	if (p->unfiltered != NULL)
		put(&w, "unfiltered", json_sum(p->unfiltered));
	if (t->diff)
		put(&w, "baseline", sum_with(&t->base, "spans", t->base_spans));
	if (p->label != NULL)
		put_rows(&w, "values", t, t->by.n, value);
	put_rows(&w, "span_names", t, t->name.n, span_name);
	put_rows(&w, "spans", t, t->span.n, span);
	put_rows(&w, "threads", t, t->thread.n, thread);
	put_rows(&w, "waited_for", t, t->wait.n, wait);
	put_rows(&w, "functions", t, p->top != 0 && p->top < t->functions ? p->top : t->functions,
		 function);
	(void)fputs("\n}\n", out);
	return w.err != 0 || ferror(out) != 0 ? -1 : 0;
}

/* The page lists at most this many spans and names of spans; a profile may have a million. */
#define SP_JSON_LISTED 200U
#define SP_JSON_NAMES_LISTED 1000U

void sp_report_print_lists(FILE *out, const struct sp_tally *t, const char *name)
{
	struct writer w = {.out = out, .before = ","};
	const char *before = "";
	unsigned listed = 0;
	uint64_t found = 0;

	put(&w, "labelled", sum_with(&t->labelled, "spans", t->span.n));
	put(&w, "all_span_names", number(t->name.n));
	put_rows(&w, "span_names", t,
		 t->name.n < SP_JSON_NAMES_LISTED ? t->name.n : SP_JSON_NAMES_LISTED, span_name);
	put_key(&w, "spans");
	(void)fputc('[', out);
	for (size_t i = 0; i < t->span.n; i++) {
		if (name != NULL && strcmp(sp_tally_text(t, t->span.row[i].name), name) != 0)
			continue;
		found++;
		if (listed == SP_JSON_LISTED)
			continue;
		(void)fputs(before, out);
		put_value(&w, span(t, i));
		before = ",\n  ";
		listed++;
	}
	(void)fputc(']', out);
	put(&w, "all_spans", number(found));
}
