/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text. Context: the report tool. Caller: report/main.c. */
#include <inttypes.h>

#include "export/report/print.h"
#include "sampler/compiler.h"

static double seconds(uint64_t ns)
{
	return (double)ns / (double)SP_NS_PER_S;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole != 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static void print_totals(FILE *out, const struct sp_tally *t, size_t files)
{
	(void)fprintf(out,
		      "%zu %s, %" PRIu64 " samples, %.2f s CPU; in spans: %" PRIu64
		      " samples, %.2f s CPU (%.1f %%), %zu spans\n",
		      files, files == 1 ? "profile" : "profiles", t->total.samples,
		      seconds(t->total.ns), t->labelled.samples, seconds(t->labelled.ns),
		      percent(t->labelled.ns, t->total.ns), t->spans);
}

static void print_names(FILE *out, const struct sp_tally *t)
{
	if (t->names == 0)
		return;
	(void)fprintf(out, "\n%9s %9s %10s %7s  %s\n", "spans", "samples", "CPU s", "share",
		      "span_name");
	for (size_t i = 0; i < t->names; i++) {
		const struct sp_name_row *n = &t->name[i];
		const char *name = sp_tally_text(t, n->name);

		(void)fprintf(out, "%9" PRIu32 " %9" PRIu64 " %10.2f %6.1f%%  %s\n", n->spans,
			      n->sum.samples, seconds(n->sum.ns),
			      percent(n->sum.ns, t->labelled.ns),
			      name[0] != '\0' ? name : "(no span_name)");
	}
}

static void print_functions(FILE *out, const struct sp_tally *t, size_t top)
{
	if (t->functions == 0 || top == 0)
		return;
	(void)fprintf(out, "\n%10s %7s %10s %7s  %s\n", "self s", "", "total s", "", "function");
	for (size_t i = 0; i < t->functions && i < top; i++) {
		const struct sp_function_row *f = &t->function[i];

		(void)fprintf(out, "%10.2f %6.1f%% %10.2f %6.1f%%  %s\n", seconds(f->self.ns),
			      percent(f->self.ns, t->total.ns), seconds(f->total.ns),
			      percent(f->total.ns, t->total.ns), sp_tally_text(t, f->name));
	}
}

void sp_report_print_table(FILE *out, const struct sp_tally *t, size_t files, size_t top)
{
	print_totals(out, t, files);
	print_names(out, t);
	print_functions(out, t, top);
}
