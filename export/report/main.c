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
#include <sys/ioctl.h>
#include <unistd.h>

#include "export/report/load.h"
#include "export/report/options.h"
#include "export/report/page.h"
#include "export/report/print.h"
#include "export/report/reading.h"

static int complain(const char *path, const char *why)
{
	sp_report_complain(path, why);
	return SP_EXIT_DAMAGED;
}

static int draw(const struct sp_reading *r)
{
	const char *path = r->o->flamegraph;
	char clean[SP_REPORT_TEXT_MAX + 1];
	struct sp_flame_head head;
	FILE *out = fopen(path, "we");
	bool failed;

	if (out == NULL)
		return complain(path, strerror(errno));
	sp_flame_head_of(r, &head);
	failed = sp_flame_print(out, &r->tree, &head) != 0 || ferror(out) != 0;
	if (fclose(out) != 0 || failed)
		return complain(path, "cannot be written");
	(void)sp_report_clean(path, clean);
	(void)printf("wrote %s: ", clean);
	(void)sp_report_clean(head.title, clean);
	(void)printf("%s; ", clean);
	(void)sp_report_clean(head.sums, clean);
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

/* Where lines of a table wrap, nobody finds a column any more. */
static unsigned terminal_width(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col
										     : 0;
}

static int print(const struct sp_reading *r)
{
	char hint[SP_DESCRIBE_TEXT];
	const struct sp_print p = {
		.files = r->files,
		.base_files = r->base_files,
		.top = r->o->top,
		.width = terminal_width(),
		.coloured = coloured(),
		.lines = r->o->lines,
		.threads = r->o->threads,
		.label = r->o->label,
		.time = sp_reading_time_of(r),
		.in_bytes = r->in_bytes,
		.by_looks = r->o->type != NULL && strcmp(r->o->type, "off_cpu") == 0,
		.waiting_ns = r->waiting_ns,
		.has_memory = r->has_memory,
		.blocked_ns = r->blocked_ns,
		.hint = hint,
	};
	int err = 0;

	sp_describe_hint(r, hint);
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
	if (err < 0 || fflush(stdout) != 0)
		return complain("", "cannot write the report");
	return 0;
}

static int report(const struct sp_report_options *o, char *const *path)
{
	struct sp_reading r;
	int err = sp_reading_init(&r, o);

	r.wants_tree = o->form == SP_FORM_FLAMEGRAPH || o->form == SP_FORM_FOLDED;
	/* A flame graph can leave the spans out when it is looked at. */
	r.tree.by_span =
		o->form == SP_FORM_FLAMEGRAPH || o->by == SP_BY_SPAN || o->by == SP_BY_LABEL;
	if (err == 0)
		err = sp_reading_run(&r, path);
	if (err != 0)
		(void)complain("", r.why);
	else
		err = print(&r);
	sp_reading_fini(&r);
	return err;
}

int main(int argc, char **argv)
{
	struct sp_report_options o = {.top = 0};
	int err = sp_report_options_read(argc, argv, &o);

	if (err >= 0)
		return err;
	return o.form == SP_FORM_SERVE ? sp_serve(&o, argv + optind) : report(&o, argv + optind);
}
