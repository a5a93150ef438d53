/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options. Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "export/report/frame.h"
#include "export/report/status.h"
#include "sampler/base/compiler.h"

#define SP_REPORT_TOP 20U

enum {
	TOP,
	TYPE,
	SPAN,
	SPAN_NAME,
	TRACE,
	FROM,
	TO,
	DIFF,
	BASELINE,
	BASELINE_FROM,
	BASELINE_TO,
	BY,
	LINES,
	THREADS,
	JSON,
	FOLDED,
	FLAMEGRAPH,
	SERVE,
	STATUS,
	HELP,
	VERSION
};

static const struct option options[] = {
	{"top", required_argument, NULL, TOP},
	{"type", required_argument, NULL, TYPE},
	{"span", required_argument, NULL, SPAN},
	{"span-name", required_argument, NULL, SPAN_NAME},
	{"trace", required_argument, NULL, TRACE},
	{"from", required_argument, NULL, FROM},
	{"to", required_argument, NULL, TO},
	{"diff", no_argument, NULL, DIFF},
	{"baseline", required_argument, NULL, BASELINE},
	{"baseline-from", required_argument, NULL, BASELINE_FROM},
	{"baseline-to", required_argument, NULL, BASELINE_TO},
	{"by", required_argument, NULL, BY},
	{"lines", no_argument, NULL, LINES},
	{"threads", no_argument, NULL, THREADS},
	{"json", no_argument, NULL, JSON},
	{"folded", no_argument, NULL, FOLDED},
	{"flamegraph", required_argument, NULL, FLAMEGRAPH},
	{"serve", required_argument, NULL, SERVE},
	{"status", required_argument, NULL, STATUS},
	{"help", no_argument, NULL, HELP},
	{"version", no_argument, NULL, VERSION},
	{NULL, 0, NULL, 0},
};

static int usage(const char *what)
{
	(void)fprintf(stderr, "spanprof-report: %s\n", what);
	return SP_EXIT_USAGE;
}

static bool parse_number(const char *arg, unsigned long most, unsigned long *out)
{
	char *end;

	errno = 0;
	*out = strtoul(arg, &end, 10);
	return errno == 0 && *end == '\0' && arg[0] >= '0' && arg[0] <= '9' && *out <= most;
}

static int take_top(struct sp_report_options *o)
{
	unsigned long n;

	if (!parse_number(optarg, SIZE_MAX, &n) || n == 0)
		return usage("--top needs a number");
	o->top = n;
	return -1;
}

static int take_by(struct sp_report_options *o)
{
	if (strcmp(optarg, "span") == 0)
		o->by = SP_BY_SPAN;
	else if (strcmp(optarg, "function") == 0)
		o->by = SP_BY_FUNCTION;
	else
		return usage("--by needs \"span\" or \"function\"");
	return -1;
}

static int take_form(struct sp_report_options *o, enum sp_report_form form)
{
	if (o->form != SP_FORM_TABLE)
		return usage("choose one of --json, --folded, --flamegraph and --serve");
	o->form = form;
	return -1;
}

static int take_flamegraph(struct sp_report_options *o)
{
	size_t len = strlen(optarg);

	/* Browsers go by the name and would read HTML as a broken picture. */
	if (len > 4 && strcasecmp(optarg + len - 4, ".svg") == 0)
		return usage("--flamegraph writes an HTML page: name the file .html");
	o->flamegraph = optarg;
	return take_form(o, SP_FORM_FLAMEGRAPH);
}

static int take_port(struct sp_report_options *o)
{
	unsigned long n;

	if (!parse_number(optarg, UINT16_MAX, &n))
		return usage("--serve needs a port, 0 to 65535");
	o->port = (uint16_t)n;
	return take_form(o, SP_FORM_SERVE);
}

static int take_time(int c, struct sp_report_options *o)
{
	struct sp_time_window *w = c == FROM || c == TO ? &o->window : &o->baseline_window;
	uint64_t *at = c == FROM || c == BASELINE_FROM ? &w->from_ns : &w->to_ns;

	if (!sp_time_point_read(optarg, time(NULL), at))
		return usage("not a time; examples: 2026-11-22T19:30, 19:30, -15m");
	return -1;
}

/* True if c was an option without a rule for its value. */
static bool take_any(int c, struct sp_report_options *o)
{
	switch (c) {
	case TYPE:
		/* The variable is SPANPROF_OFF_CPU, and people say off-CPU. */
		o->type = strcasecmp(optarg, "offcpu") == 0 || strcasecmp(optarg, "off-cpu") == 0
				  ? "off_cpu"
				  : optarg;
		return true;
	case SPAN:
		o->selection.span_id = optarg;
		return true;
	case SPAN_NAME:
		o->selection.span_name = optarg;
		return true;
	case TRACE:
		o->selection.trace_id = optarg;
		return true;
	case DIFF:
		o->selection.diff = true;
		return true;
	case BASELINE:
		o->baseline = optarg;
		return true;
	case LINES:
		o->lines = true;
		return true;
	case THREADS:
		o->threads = true;
		return true;
	default:
		return false;
	}
}

/* -1, or the exit status if the value is wrong. */
static int take(int c, struct sp_report_options *o)
{
	switch (c) {
	case TOP:
		return take_top(o);
	case BY:
		return take_by(o);
	case JSON:
		return take_form(o, SP_FORM_JSON);
	case FOLDED:
		return take_form(o, SP_FORM_FOLDED);
	case FLAMEGRAPH:
		return take_flamegraph(o);
	case SERVE:
		return take_port(o);
	default:
		return take_time(c, o);
	}
}

static int print_version(void)
{
	(void)puts("spanprof-report " SP_VERSION);
	return 0;
}

static int explain(const char *path)
{
	char why[160];
	struct timespec now;

	/* The times of files may be exact, and time() is up to a tick late: a second's first files
	 * would have been written in the future. */
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (sp_report_status(stdout, path, now.tv_sec, why) == 0 && fflush(stdout) == 0)
		return 0;
	sp_report_complain(path, why);
	return SP_EXIT_DAMAGED;
}

/* What is not about a report. -1 = c is about one. */
static int do_at_once(int c)
{
	switch (c) {
	case STATUS:
		return explain(optarg);
	case HELP:
		(void)fputs(sp_report_help, stdout);
		return 0;
	case VERSION:
		return print_version();
	case '?':
		(void)fputs("Try \"spanprof-report --help\".\n", stderr);
		return SP_EXIT_USAGE;
	default:
		return -1;
	}
}

static int read_all(int argc, char **argv, struct sp_report_options *o)
{
	int err = -1;
	int c;

	while (err < 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		err = do_at_once(c);
		if (err < 0 && !take_any(c, o))
			err = take(c, o);
	}
	return err;
}

bool sp_report_options_compare(const struct sp_report_options *o)
{
	return o->selection.diff || o->baseline != NULL ||
	       sp_time_window_is_set(&o->baseline_window);
}

static int check(const struct sp_report_options *o)
{
	bool others = o->baseline != NULL || sp_time_window_is_set(&o->baseline_window);

	if (o->selection.diff && o->selection.span_id == NULL && o->selection.trace_id == NULL)
		return usage("--diff needs --span or --trace: what to compare with the others");
	if (o->selection.diff && others)
		return usage("--diff compares with spans, --baseline with profiles: choose one");
	if (o->by == SP_BY_SPAN && (o->form == SP_FORM_TABLE || o->form == SP_FORM_JSON))
		return usage("--by is for --folded, --flamegraph and --serve");
	return -1;
}

int sp_report_options_read(int argc, char **argv, struct sp_report_options *o)
{
	int err = read_all(argc, argv, o);

	if (err >= 0)
		return err;
	if (optind >= argc)
		return usage("name a folder or a file; --help says more");
	err = check(o);
	if (o->top == 0 && o->form == SP_FORM_TABLE)
		o->top = SP_REPORT_TOP;
	return err;
}
