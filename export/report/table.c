/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report as tables, and as folded stacks: one line for each, "root;caller;function nanoseconds". */
#include <inttypes.h>
#include <string.h>

#include "export/report/print.h"
#include "sampler/base/compiler.h"

/* With fewer samples no difference of shares could be told from chance (page/change.js). */
#define SP_COMPARED_SAMPLES 10

/* Smaller changes are not shown: two tables that show "0.0" could differ by as much. */
#define SP_CHANGE_SEEN 0.0005

static double seconds(uint64_t ns)
{
	return (double)ns / (double)SP_NS_PER_S;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole != 0 ? 100.0 * (double)part / (double)whole : 0.0;
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

/* Characters outside of the scripts of the west may take two columns; counted so, a line is never too long. */
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

/* How many bytes of the text fit. */
static size_t fitting(const char *text, unsigned room)
{
	const char *c = text;

	for (; *c != '\0' && columns_of(c) <= room; c = after(c))
		room -= columns_of(c);
	return (size_t)(c - text);
}

/*
 * A text at the end of a line of which so many columns are taken, cut to what the terminal has left: at
 * its end, or in the middle, as the ends of functions' names tell more than what is between.
 */
enum sp_cut { SP_CUT_END, SP_CUT_MIDDLE };
static void put_cut(FILE *out, const struct sp_print *p, unsigned taken, const char *text,
		    enum sp_cut where)
{
	static const char cut[] = "...";
	const unsigned least = 12;
	unsigned whole = width_of(text);
	unsigned room = p->width > taken + least ? p->width - taken : least;
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
	(void)fprintf(out, "baseline: %" PRIu64 " samples, %.2f s %s ", t->base.samples,
		      seconds(t->base.ns), p->time);
	if (p->base_files != 0)
		(void)fprintf(out, "in %zu %s\n", p->base_files,
			      p->base_files == 1 ? "profile" : "profiles");
	else
		(void)fprintf(out, "of %" PRIu32 " other spans of that name\n", t->base_spans);
	if (t->total.samples < SP_COMPARED_SAMPLES || t->base.samples < SP_COMPARED_SAMPLES)
		(void)fprintf(out, "too few samples to compare: differences may be chance\n");
}

static void print_totals(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	(void)fprintf(out,
		      "%s%zu %s, %" PRIu64 " samples, %.2f s %s; in spans: %" PRIu64
		      " samples, %.2f s %s (%.1f %%), %zu %s%s\n",
		      bold(p), p->files, p->files == 1 ? "profile" : "profiles", t->total.samples,
		      seconds(t->total.ns), p->time, t->labelled.samples, seconds(t->labelled.ns),
		      p->time, percent(t->labelled.ns, t->total.ns), t->spans,
		      t->spans == 1 ? "span" : "spans", plain(p));
	if (t->unsampled.ns != 0)
		(void)fprintf(out, "%.2f s of it between samples, under %s\n",
			      seconds(t->unsampled.ns), SP_REPORT_UNSAMPLED);
	if (t->diff)
		print_baseline(out, t, p);
	if (p->waiting_ns != 0)
		(void)fprintf(out, "%.2f s of waiting are in another profile: use --type off_cpu\n",
			      seconds(p->waiting_ns));
}

/* The last column of a row, whose other columns have been printed. */
static void put_name(FILE *out, const struct sp_print *p, const char *name, enum sp_cut where,
		     int taken)
{
	put_cut(out, p, (unsigned)taken, name, where);
	(void)fputc('\n', out);
}

static void print_names(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	if (t->names == 0)
		return;
	(void)fprintf(out, "\n%s%9s %9s %8s s %11s  %s%s\n", bold(p), "spans", "samples", p->time,
		      "% of spans", "span_name", plain(p));
	for (size_t i = 0; i < t->names; i++) {
		const struct sp_name_row *n = &t->name[i];
		const char *name = sp_tally_text(t, n->name);

		put_name(out, p, name[0] != '\0' ? name : "(no span_name)", SP_CUT_END,
			 fprintf(out, "%9" PRIu32 " %9" PRIu64 " %10.2f %10.1f%%  ", n->spans,
				 n->sum.samples, seconds(n->sum.ns),
				 percent(n->sum.ns, t->labelled.ns)));
	}
}

static void print_spans(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	size_t n = at_most(t->spans, p->top);

	if (n == 0)
		return;
	(void)fprintf(out, "\n%s%19s %8s s %11s  %-16s  %s%s\n", bold(p), "samples", p->time,
		      "% of spans", "span_id", "span_name", plain(p));
	for (size_t i = 0; i < n; i++) {
		const struct sp_span_row *s = &t->span[i];

		put_name(out, p, sp_tally_text(t, s->name), SP_CUT_END,
			 fprintf(out, "%19" PRIu64 " %10.3f %10.1f%%  %-16s  ", s->sum.samples,
				 seconds(s->sum.ns), percent(s->sum.ns, t->labelled.ns),
				 sp_tally_text(t, s->id)));
	}
	if (n < t->spans)
		(void)fprintf(out, "%19s %zu spans more\n", "", t->spans - n);
}

static void print_threads(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	if (t->threads == 0) {
		(void)fputs("\nno sample has the name of its thread (SPANPROF_THREAD_NAME)\n", out);
		return;
	}
	(void)fprintf(out, "\n%s%19s %8s s %9s  %s%s\n", bold(p), "samples", p->time, "% of all",
		      "thread_name", plain(p));
	for (size_t i = 0; i < at_most(t->threads, p->top); i++) {
		const struct sp_thread_row *r = &t->thread[i];

		put_name(out, p, sp_tally_text(t, r->name), SP_CUT_END,
			 fprintf(out, "%19" PRIu64 " %10.3f %8.1f%%  ", r->sum.samples,
				 seconds(r->sum.ns), percent(r->sum.ns, t->total.ns)));
	}
	if (p->top != 0 && p->top < t->threads)
		(void)fprintf(out, "%19s %zu names more\n", "", t->threads - p->top);
}

static void print_functions(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	(void)fprintf(out, "\n%s%10s %9s %10s %9s  %s%s\n", bold(p), "self s", "% of all",
		      "total s", "% of all", p->lines ? "function (file:line)" : "function",
		      plain(p));
	for (size_t i = 0; i < at_most(t->functions, p->top); i++) {
		const struct sp_function_row *f = &t->function[i];

		put_name(out, p, sp_tally_text(t, f->key), SP_CUT_MIDDLE,
			 fprintf(out, "%10.2f %8.1f%% %10.2f %8.1f%%  ", seconds(f->self.ns),
				 percent(f->self.ns, t->total.ns), seconds(f->total.ns),
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
		put_name(out, p, sp_tally_text(t, f->key), SP_CUT_MIDDLE, (int)strlen(head));
	}
}

void sp_report_print_table(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	print_totals(out, t, p);
	print_names(out, t, p);
	print_spans(out, t, p);
	if (p->threads)
		print_threads(out, t, p);
	if (t->functions == 0)
		return;
	if (t->diff)
		print_changes(out, t, p);
	else
		print_functions(out, t, p);
	if (p->hint != NULL && p->hint[0] != '\0')
		(void)fprintf(out, "\n%s\n", p->hint);
}

static void print_text(FILE *out, const char *s)
{
	for (; *s != '\0'; s++)
		(void)fputc(*s == ';' ? ':' : *s, out);
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
			print_text(out, sp_tree_text(t, &t->node[path[d]]));
		}
		if (diff)
			(void)fprintf(out, " %" PRIu64, n->base_self_ns);
		(void)fprintf(out, " %" PRIu64 "\n", n->self_ns);
	}
}
