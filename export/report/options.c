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

static const char help[] =
	"usage: spanprof-report [option]... FOLDER|FILE...\n"
	"       spanprof-report --serve PORT [option]... FOLDER|FILE...\n"
	"       spanprof-report --status PID|FILE\n"
	"\n"
	"Shows which spans used the CPU time in pprof profiles, and in which functions. A\n"
	"folder stands for its *.pb.gz, *.pb and *.pprof files.\n"
	"\n"
	"Select samples:\n"
	"  --type TYPE        Read CPU time (cpu, the default), waiting time (off_cpu, needs\n"
	"                     SPANPROF_OFF_CPU) or both (wall, needs SPANPROF_WALL).\n"
	"  --span ID          Read only the span with this id (16 hexadecimal digits).\n"
	"  --span-name NAME   Read only spans with this name.\n"
	"  --trace ID         Read only the trace with this id (32 hexadecimal digits).\n"
	"  --from TIME        Read only profiles from this time on.\n"
	"  --to TIME          Read only profiles before this time.\n"
	"\n"
	"Compare the selected samples with others, the baseline:\n"
	"  --diff             Compare with all other spans of the same name. Needs --span or\n"
	"                     --trace.\n"
	"  --baseline PATH    Compare with the profiles of this folder or file.\n"
	"  --baseline-from TIME, --baseline-to TIME\n"
	"                     Compare with the profiles of this time.\n"
	"\n"
	"Choose the output (tables, if none is chosen):\n"
	"  --json             Print JSON.\n"
	"  --folded           Print folded stacks, as flamegraph.pl reads them. With a\n"
	"                     baseline, its nanoseconds are the first of two numbers.\n"
	"  --flamegraph FILE  Write a flame graph as an HTML page.\n"
	"  --serve PORT       Serve flame graphs and tables at http://127.0.0.1:PORT and show\n"
	"                     new profiles as they are written. PORT 0 takes any free port.\n"
	"                     Every user of this machine can read what is served.\n"
	"\n"
	"  --by span|function Put span names at the root of folded stacks or of the flame\n"
	"                     graph, or leave them out. The flame graph has them if there are\n"
	"                     several names.\n"
	"  --lines            Show lines instead of whole functions.\n"
	"  --top N            Show N spans and functions (default 20; JSON has all spans, and\n"
	"                     all functions unless N is given).\n"
	"  --threads          Also show CPU time by thread name (needs SPANPROF_THREAD_NAME).\n"
	"                     JSON always has it.\n"
	"\n"
	"  --status PID|FILE  What is sampled, sent, lost and wrong in a running process, or\n"
	"                     by a status file (SPANPROF_STATUS_FILE).\n"
	"  --help             Print this text.\n"
	"  --version          Print the version.\n"
	"\n"
	"TIME is 2026-11-22T19:30 or 2026-11-22T19:30:05 (with Z: UTC), 19:30 (today), or -15m\n"
	"(15 minutes ago; also s, h and d). A profile belongs to the time of its middle.\n"
	"\n"
	"On a terminal, tables are coloured, unless NO_COLOR is set, and names are cut to its\n"
	"width; \"| cat\" shows them whole.\n"
	"\n"
	"Exit status: 0 success; 1 wrong usage, or nothing to show; 2 a file is damaged or\n"
	"cannot be read or written.\n";

static uint64_t unit_s(char c)
{
	switch (c) {
	case 's':
		return 1;
	case 'm':
		return 60;
	case 'h':
		return 3600;
	case 'd':
		return 86400;
	default:
		return 0;
	}
}

/* "-15m" */
static bool read_ago(const char *text, time_t now, uint64_t *ns)
{
	char *end;
	unsigned long n;
	uint64_t s;

	if (text[0] != '-' || text[1] < '0' || text[1] > '9')
		return false;
	n = strtoul(text + 1, &end, 10);
	s = unit_s(*end);
	if (s == 0 || end[1] != '\0' || n > (uint64_t)now / s)
		return false;
	*ns = ((uint64_t)now - n * s) * SP_NS_PER_S;
	return true;
}

static bool read_clock(const char *text, time_t now, uint64_t *ns)
{
	static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					      "%Y-%m-%dT%H:%M",    "%Y-%m-%d %H:%M",
					      "%H:%M:%S",          "%H:%M"};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm tm;
		const char *rest;
		bool utc;
		time_t t;

		/* A time alone is one of today. */
		if (localtime_r(&now, &tm) == NULL)
			return false;
		tm.tm_sec = 0;
		tm.tm_isdst = -1;
		rest = strptime(text, formats[i], &tm);
		utc = rest != NULL && strcmp(rest, "Z") == 0;
		if (rest == NULL || (rest[0] != '\0' && !utc))
			continue;
		t = utc ? timegm(&tm) : mktime(&tm);
		if (t <= 0)
			return false;
		*ns = (uint64_t)t * SP_NS_PER_S;
		return true;
	}
	return false;
}

bool sp_time_point_read(const char *text, time_t now, uint64_t *ns)
{
	return read_ago(text, now, ns) || read_clock(text, now, ns);
}

bool sp_time_window_has(const struct sp_time_window *w, uint64_t time_ns, uint64_t duration_ns)
{
	uint64_t middle = time_ns + duration_ns / 2;

	if (!sp_time_window_is_set(w))
		return true;
	return time_ns != 0 && middle >= w->from_ns && (w->to_ns == 0 || middle < w->to_ns);
}

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
		(void)fputs(help, stdout);
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
