/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-report: reads the profiles of folders and files, and shows which spans used the CPU
 * time, and where. Context: a program of its own, no host around it.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "export/report/load.h"
#include "export/report/options.h"
#include "export/report/page.h"
#include "export/report/print.h"
#include "export/report/reading.h"
#include "export/report/slowest.h"
#include "export/report/traces.h"

static int complain(const char *path, const char *why)
{
	sp_report_complain(path, why);
	return SP_EXIT_DAMAGED;
}

struct flame {
	const struct sp_reading *r;
	struct sp_flame_head head;
};

static int print_flame(FILE *out, const void *arg)
{
	const struct flame *flame = arg;

	return sp_flame_print(out, &flame->r->tree, &flame->head);
}

static int draw(const struct sp_reading *r)
{
	struct flame flame = {.r = r};
	char clean[SP_REPORT_TEXT_MAX + 1];
	int err;

	sp_flame_head_of(r, &flame.head);
	err = sp_page_write(r->o->flamegraph, print_flame, &flame);
	if (err != 0)
		return err;
	(void)sp_report_clean(flame.head.title, clean);
	(void)printf("%s; ", clean);
	(void)sp_report_clean(flame.head.sums, clean);
	(void)printf("%s\n", clean);
	return 0;
}

static bool coloured(void)
{
	const char *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return (no == NULL || no[0] == '\0') && isatty(STDOUT_FILENO) && term != NULL &&
	       strcmp(term, "dumb") != 0;
}

/* The terminal's width in columns; tables whose lines wrap are unreadable. */
static unsigned terminal_width(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col
										     : 0;
}

static int print(const struct sp_reading *r)
{
	char hint[SP_DESCRIBE_TEXT];
	char filter[SP_DESCRIBE_TEXT];
	const struct sp_print p = {
		.files = r->files,
		.base_files = r->base_files,
		.base_latency = r->selection.base_latency,
		.passed = r->passed,
		.top = r->o->top,
		.width = terminal_width(),
		.coloured = coloured(),
		.lines = r->o->lines,
		.threads = r->o->threads,
		.label = r->o->label,
		.time = sp_reading_time_of(r),
		.in_bytes = r->in_bytes,
		.waiting_ns = r->waiting_ns,
		.has_memory = r->has_memory,
		.blocked_ns = r->blocked_ns,
		.unfiltered = sp_filter_is_set(&r->o->filter) ? &r->unfiltered : NULL,
		.filter = filter,
		.hint = hint,
	};
	int err = 0;

	sp_describe_hint(r, hint);
	sp_describe_filter(r, filter);
	if (r->o->form == SP_FORM_FLAMEGRAPH)
		err = draw(r);
	else if (r->o->form == SP_FORM_JSON)
		err = sp_report_print_json(stdout, &r->tally, &p);
	else if (r->o->form == SP_FORM_FOLDED)
		sp_report_print_folded(stdout, &r->tree, r->tally.diff);
	else
		sp_report_print_table(stdout, &r->tally, &p);
	if (err > 0)
		return err;
	return sp_report_flush(err);
}

/*
 * Warns of an expression that matches nothing, because it may be misspelt. --focus needs no
 * warning: if it matches nothing, the report fails.
 */
static void complain_about_filter(const struct sp_reading *r)
{
	const struct sp_filter *f = &r->o->filter;
	char why[SP_REPORT_TEXT_MAX];
	char option[32];

	for (size_t i = SP_FILTER_IGNORE; i < SP_FILTER_N; i++) {
		if (f->text[i] == NULL || r->filter.matched[i])
			continue;
		(void)snprintf(option, sizeof(option), "--%s",
			       sp_filter_word((enum sp_filter_by)i));
		(void)snprintf(why, sizeof(why), "no function matches \"%.200s\"", f->text[i]);
		sp_report_complain(option, why);
	}
}

static int report(const struct sp_report_options *o, char *const *path)
{
	struct sp_strtab told = {.n = 0};
	struct sp_reading r;
	int err = sp_reading_init(&r, o, &told);

	r.wants_tree = o->form == SP_FORM_FLAMEGRAPH || o->form == SP_FORM_FOLDED;
	/* A flame graph always has the spans, because its page can hide them. */
	r.tree.by_span =
		o->form == SP_FORM_FLAMEGRAPH || o->by == SP_BY_SPAN || o->by == SP_BY_LABEL;
	if (err == 0)
		err = sp_reading_run(&r, path);
	if (err == 0)
		complain_about_filter(&r);
	if (err == 0)
		err = print(&r);
	else if (!r.is_told)
		(void)complain("", r.why);
	if (err == 0 && r.passed != 0)
		err = SP_EXIT_DAMAGED;
	sp_reading_fini(&r);
	sp_strtab_fini(&told);
	return err;
}

static int explain(const struct sp_report_options *o, char *const *path)
{
	struct sp_print p = {.width = terminal_width(), .coloured = coloured()};

	return sp_slowest(o, path, &p);
}

static int follow(const struct sp_report_options *o, char *const *path)
{
	struct sp_print p = {.width = terminal_width(), .coloured = coloured()};

	return sp_traces(o, path, &p);
}

int main(int argc, char **argv)
{
	struct sp_report_options o = {.top = 0};
	int err = sp_report_options_read(argc, argv, &o);

	if (err < 0 && o.traces_n != 0)
		err = follow(&o, argv + optind);
	else if (err < 0 && o.slowest)
		err = explain(&o, argv + optind);
	else if (err < 0)
		err = o.form == SP_FORM_SERVE ? sp_serve(&o, argv + optind)
					      : report(&o, argv + optind);
	sp_report_options_fini(&o);
	return err;
}
