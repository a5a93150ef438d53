/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options and prints the help. Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
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
	DIFF,
	LINES,
	THREADS,
	JSON,
	FOLDED,
	FLAMEGRAPH,
	STATUS,
	HELP,
	VERSION
};

static const char help[] =
	"usage: spanprof-report [options] FOLDER|FILE...\n"
	"       spanprof-report --status FILE\n"
	"\n"
	"Sums the CPU time of pprof profiles per span. A folder stands for its *.pb.gz,\n"
	"*.pb and *.pprof files.\n"
	"\n"
	"Which samples:\n"
	"  --type TYPE        of profiles of this type: cpu (default), off_cpu (where spans\n"
	"                     wait, SPANPROF_OFF_CPU) or wall (both, SPANPROF_WALL)\n"
	"  --span ID          only those of the span with this id (16 hex digits)\n"
	"  --span-name NAME   only those of spans with this name\n"
	"  --trace ID         only those of the trace with this id (32 hex digits)\n"
	"  --diff             compare them with all other spans of the same name\n"
	"\n"
	"What to print:\n"
	"  --top N            print N spans and functions (default 20; with --json: all\n"
	"                     spans, and N functions if given)\n"
	"  --lines            tell the lines of a function apart\n"
	"  --threads          CPU time by the name of the thread, too, if the samples have\n"
	"                     it (SPANPROF_THREAD_NAME); JSON has it always\n"
	"  --json             JSON, instead of tables\n"
	"  --folded           folded stacks (flamegraph.pl and others), instead of tables:\n"
	"                     nanoseconds; with --diff the baseline's before them\n"
	"  --flamegraph FILE  a flame graph as an SVG file besides\n"
	"\n"
	"  --status FILE      say in words what a file of SPANPROF_STATUS_FILE tells\n"
	"  --help             print this text\n"
	"  --version          print the version\n"
	"\n"
	"Tables are coloured on a terminal, unless NO_COLOR is set.\n"
	"\n"
	"Exit status: 0 done, 1 wrong usage or nothing to read, 2 a file is damaged or could\n"
	"not be read or written.\n";

static const struct option options[] = {
	{"top", required_argument, NULL, TOP},
	{"type", required_argument, NULL, TYPE},
	{"span", required_argument, NULL, SPAN},
	{"span-name", required_argument, NULL, SPAN_NAME},
	{"trace", required_argument, NULL, TRACE},
	{"diff", no_argument, NULL, DIFF},
	{"lines", no_argument, NULL, LINES},
	{"threads", no_argument, NULL, THREADS},
	{"json", no_argument, NULL, JSON},
	{"folded", no_argument, NULL, FOLDED},
	{"flamegraph", required_argument, NULL, FLAMEGRAPH},
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

static bool parse_top(const char *arg, size_t *top)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(arg, &end, 10);
	*top = n;
	return errno == 0 && *end == '\0' && arg[0] >= '0' && arg[0] <= '9' && n != 0;
}

/* True if c was an option that takes or changes a value of *o. */
static bool take(int c, struct sp_report_options *o)
{
	switch (c) {
	case TYPE:
		o->type = optarg;
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
	case LINES:
		o->lines = true;
		return true;
	case THREADS:
		o->threads = true;
		return true;
	case FLAMEGRAPH:
		o->flamegraph = optarg;
		return true;
	default:
		return false;
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

static int read_all(int argc, char **argv, struct sp_report_options *o)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (take(c, o))
			continue;
		switch (c) {
		case TOP:
			if (!parse_top(optarg, &o->top))
				return usage("--top needs a number");
			break;
		case JSON:
		case FOLDED:
			if (o->form != SP_FORM_TABLE)
				return usage("only one of --json and --folded, once");
			o->form = c == JSON ? SP_FORM_JSON : SP_FORM_FOLDED;
			break;
		case STATUS:
			return explain(optarg);
		case HELP:
			(void)fputs(help, stdout);
			return 0;
		case VERSION:
			return print_version();
		default:
			(void)fputs("Try \"spanprof-report --help\".\n", stderr);
			return SP_EXIT_USAGE;
		}
	}
	return -1;
}

int sp_report_options_read(int argc, char **argv, struct sp_report_options *o)
{
	int err = read_all(argc, argv, o);

	if (err >= 0)
		return err;
	if (optind >= argc)
		return usage("name a folder or a file; --help says more");
	if (o->selection.diff && o->selection.span_id == NULL && o->selection.trace_id == NULL)
		return usage("--diff needs --span or --trace: what to compare with the others");
	if (o->top == 0 && o->form == SP_FORM_TABLE)
		o->top = SP_REPORT_TOP;
	return -1;
}
