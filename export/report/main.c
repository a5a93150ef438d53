/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-report: reads the profiles of a folder or the files named and says where the CPU time
 * of which span went. Context: a program of its own, no host around it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/report/file.h"
#include "export/report/flame.h"
#include "export/report/frame.h"
#include "export/report/load.h"
#include "export/report/options.h"
#include "export/report/print.h"
#include "export/report/tally.h"
#include "export/report/tree.h"

/* The memory for tally and tree, which can grow with every file that differs from the others. */
#define SP_REPORT_SUMS_MAX ((size_t)1 << 30)

struct report {
	struct sp_report_options o;
	struct sp_report_sink sink;
	struct sp_tally tally;
	struct sp_tree tree;
	size_t files;
	bool is_shown;       /* the profile that is being read is of the type that is shown */
	uint64_t waiting_ns; /* in profiles of waits, if those are not asked for */
	bool too_large;
};

static int complain(const char *path, const char *why)
{
	sp_report_complain(path, why);
	return SP_EXIT_DAMAGED;
}

static bool wants_tree(const struct report *r)
{
	return r->o.flamegraph != NULL || r->o.form == SP_FORM_FOLDED;
}

/* For sp_report_sink. Unasked, waits are not added to CPU time. */
static bool begin(void *arg, const char *type)
{
	struct report *r = arg;
	bool is_waits = strcmp(type, "off_cpu") == 0;

	r->is_shown = r->o.type != NULL || (!is_waits && strcmp(type, "wall") != 0);
	return r->is_shown || is_waits;
}

static void learn(void *arg, const struct sp_report_sample *s)
{
	struct report *r = arg;

	if (r->is_shown)
		sp_selection_learn(&r->o.selection, s);
}

static void add_sample(void *arg, const struct sp_report_sample *s)
{
	struct report *r = arg;
	enum sp_side side;

	if (r->too_large)
		return;
	if (!r->is_shown) {
		if (sp_selection_side(&r->o.selection, s) == SP_SIDE_SELECTED)
			r->waiting_ns += s->ns;
		return;
	}
	side = sp_selection_side(&r->o.selection, s);
	sp_tally_add(&r->tally, s, side);
	if (wants_tree(r))
		sp_tree_add(&r->tree, s, side);
	r->too_large = sp_tally_bytes(&r->tally) + sp_tree_bytes(&r->tree) > SP_REPORT_SUMS_MAX;
}

/* For sp_report_each(). */
static int add_file(void *arg, const char *path)
{
	struct report *r = arg;
	char why[SP_REPORT_ERROR] = "";
	struct sp_bytes bytes;
	int err = sp_report_read(path, &bytes, why);

	r->is_shown = false;
	if (err == 0)
		err = sp_report_load(&bytes, SP_REPORT_MEMORY_MAX, &r->sink, why);
	free(bytes.data);
	if (err != 0)
		return complain(path, why);
	if (r->too_large)
		return complain(path, "the report takes too much memory with this file; name fewer "
				      "files, or select spans");
	if (r->o.selection.too_many)
		return complain(path, "the selected spans have too many names");
	if (r->o.selection.nomem || r->tally.nomem || r->tree.nomem)
		return complain("", "out of memory");
	r->files += r->is_shown;
	return 0;
}

/* Hands every sample of every path to that. */
static int read_paths(struct report *r, char **path,
		      void (*sample)(void *arg, const struct sp_report_sample *s))
{
	char why[SP_REPORT_ERROR] = "";
	int err = 0;

	r->sink = (struct sp_report_sink){
		.sample = sample, .arg = r, .type = r->o.type, .begin = begin};
	r->files = 0;
	while (err == 0 && *path != NULL) {
		err = sp_report_each(*path, add_file, r, why);
		if (err < 0)
			err = complain(*path, why);
		path++;
	}
	if (err != 0 || r->files != 0)
		return err;
	(void)complain("", r->o.type == NULL && r->waiting_ns != 0
				   ? "no profiles of CPU time found, but waits: --type off_cpu"
				   : "no profiles found");
	return SP_EXIT_USAGE;
}

static int read_profiles(struct report *r, char **path)
{
	int err = 0;

	/* The names of the selected spans are known only after all samples were read. */
	if (r->o.selection.diff)
		err = read_paths(r, path, learn);
	if (err == 0)
		err = read_paths(r, path, add_sample);
	if (err != 0 || !r->o.selection.diff)
		return err;
	if (r->tally.total.ns == 0)
		(void)complain("", "--diff: no sample is selected");
	else if (r->tally.base.ns == 0)
		(void)complain("", "--diff: there is no other span of that name");
	else
		return 0;
	return SP_EXIT_USAGE;
}

static const char *time_of(const struct report *r)
{
	const char *type = r->o.type != NULL ? r->o.type : "cpu";

	if (strcmp(type, "cpu") == 0)
		return "CPU";
	return strcmp(type, "off_cpu") == 0 ? "off-CPU" : type;
}

/* The title and subtitle of the picture. */
static void describe(const struct report *r, char title[512], char subtitle[512])
{
	const struct sp_selection *x = &r->o.selection;
	const struct sp_tally *t = &r->tally;
	int len = snprintf(
		title, 512, "%s time%s%s%s%s%s%s", time_of(r),
		x->trace_id != NULL ? " of trace " : "", x->trace_id != NULL ? x->trace_id : "",
		x->span_id != NULL ? " of span " : "", x->span_id != NULL ? x->span_id : "",
		x->span_name != NULL ? " of spans named " : "",
		x->span_name != NULL ? x->span_name : "");

	if (x->span_name == NULL && t->names == 1 && t->labelled.ns == t->total.ns && len > 0 &&
	    len < 512)
		(void)snprintf(title + len, 512 - (size_t)len, " (%s)",
			       sp_tally_text(t, t->name[0].name));
	len = snprintf(subtitle, 512, "%.3f s, %llu samples", (double)t->total.ns / 1e9,
		       (unsigned long long)t->total.samples);
	if (x->diff && len > 0)
		(void)snprintf(subtitle + len, 512 - (size_t)len,
			       "; baseline: %.3f s of %u other spans of that name",
			       (double)t->base.ns / 1e9, t->base_spans);
}

static int draw(const struct report *r)
{
	const char *path = r->o.flamegraph;
	char title[512];
	char subtitle[512];
	const struct sp_flame_head head = {title, subtitle, r->o.selection.diff};
	FILE *out = fopen(path, "we");
	bool failed;

	if (out == NULL)
		return complain(path, strerror(errno));
	describe(r, title, subtitle);
	sp_flame_print(out, &r->tree, &head);
	failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed)
		return complain(path, "cannot be written");
	return 0;
}

static bool coloured(void)
{
	const char *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return (no == NULL || no[0] == '\0') && isatty(STDOUT_FILENO) && term != NULL &&
	       strcmp(term, "dumb") != 0;
}

static int print(struct report *r)
{
	const struct sp_print p = {
		.files = r->files,
		.top = r->o.top,
		.coloured = coloured(),
		.lines = r->o.lines,
		.threads = r->o.threads,
		.time = time_of(r),
		.waiting_ns = r->waiting_ns,
	};
	int err = 0;

	sp_tally_sort(&r->tally);
	if (wants_tree(r) && sp_tree_sort(&r->tree) != 0)
		return complain("", "out of memory");
	if (r->o.flamegraph != NULL)
		err = draw(r);
	if (err != 0)
		return err;
	if (r->o.form == SP_FORM_JSON)
		err = sp_report_print_json(stdout, &r->tally, &p);
	else if (r->o.form == SP_FORM_FOLDED)
		sp_report_print_folded(stdout, &r->tree, r->o.selection.diff);
	else
		sp_report_print_table(stdout, &r->tally, &p);
	if (err != 0 || fflush(stdout) != 0)
		return complain("", "cannot write the report");
	return 0;
}

int main(int argc, char **argv)
{
	struct report r = {.files = 0};
	int err = sp_report_options_read(argc, argv, &r.o);

	if (err >= 0)
		return err;
	if (sp_tally_init(&r.tally) != 0 || sp_tree_init(&r.tree) != 0)
		err = complain("", "out of memory");
	else
		err = 0;
	r.tally.lines = r.tree.lines = r.o.lines;
	r.tally.diff = r.o.selection.diff;
	if (err == 0)
		err = read_profiles(&r, argv + optind);
	if (err == 0)
		err = print(&r);
	sp_tree_fini(&r.tree);
	sp_tally_fini(&r.tally);
	sp_selection_fini(&r.o.selection);
	return err;
}
