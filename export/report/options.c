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

#include "export/report/load.h"
#include "export/report/status.h"
#include "sampler/base/compiler.h"

#define SP_REPORT_TOP 20U

static const char help[] =
	"usage: spanprof-report [option]... FOLDER|FILE...\n"
	"       spanprof-report --serve PORT [option]... FOLDER|FILE...\n"
	"       spanprof-report --status PID|FILE\n"
	"\n"
	"Shows which spans used the CPU time in profiles in pprof or OTLP, and in which\n"
	"functions. A folder stands for its *.pb.gz, *.pb, *.pprof, *.otlp.gz and *.otlp files.\n"
	"\n"
	"Select samples:\n"
	"  --type TYPE        Read CPU time (cpu, the default), waiting time (off_cpu, needs\n"
	"                     SPANPROF_OFF_CPU), both (wall, needs SPANPROF_WALL), or\n"
	"                     allocated memory (alloc_space, needs SPANPROF_ALLOC), or what is\n"
	"                     still there of it (inuse_space).\n"
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
	"                     baseline, its values are the first of two numbers.\n"
	"  --flamegraph FILE  Write a flame graph as an HTML page.\n"
	"  --serve PORT       Serve flame graphs and tables at http://127.0.0.1:PORT and show\n"
	"                     new profiles as they are written. PORT 0 takes any free port.\n"
	"                     Every user of this machine can read what is served.\n"
	"\n"
	"  --by span|function Put span names at the root of folded stacks or of the flame\n"
	"                     graph, or leave them out. The flame graph has them if there are\n"
	"                     several names.\n"
	"  --by KEY           Put the values of this attribute there (needs\n"
	"                     SPANPROF_SPAN_LABELS), and show a table of them.\n"
	"  --lines            Show lines instead of whole functions.\n"
	"  --top N            Show N spans and functions (default 20; JSON has all spans, and\n"
	"                     all functions unless N is given).\n"
	"  --threads          Also show the time by thread name (needs SPANPROF_THREAD_NAME).\n"
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
	"Exit status: 0 success; 1 wrong usage, or nothing to show; 2 a file is damaged, too\n"
	"large, or cannot be read or written, the port cannot be used, or the process of\n"
	"--status has no exporter.\n";

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

/* What takes an option: -1 = go on, else the exit status. at: where in the options, or which form. */
typedef int take_option(struct sp_report_options *o, const char *value, size_t at);

static int take_text(struct sp_report_options *o, const char *value, size_t at)
{
	memcpy((char *)o + at, &value, sizeof(value));
	return -1;
}

static int take_flag(struct sp_report_options *o, const char *value, size_t at)
{
	const bool is_set = value == NULL;

	memcpy((char *)o + at, &is_set, sizeof(is_set));
	return -1;
}

static int take_time(struct sp_report_options *o, const char *value, size_t at)
{
	uint64_t ns;

	if (!sp_time_point_read(value, time(NULL), &ns))
		return usage("not a time; examples: 2026-11-22T19:30, 19:30, -15m");
	memcpy((char *)o + at, &ns, sizeof(ns));
	return -1;
}

static int take_top(struct sp_report_options *o, const char *value, size_t at)
{
	unsigned long n;

	(void)at;
	if (!parse_number(value, SIZE_MAX, &n) || n == 0)
		return usage("--top needs a number");
	o->top = n;
	return -1;
}

/* The variable is SPANPROF_OFF_CPU, and people say off-CPU. */
static int take_type(struct sp_report_options *o, const char *value, size_t at)
{
	(void)at;
	o->type = strcasecmp(value, "offcpu") == 0 || strcasecmp(value, "off-cpu") == 0 ? "off_cpu"
											: value;
	return -1;
}

static int take_by(struct sp_report_options *o, const char *value, size_t at)
{
	(void)at;
	if (value[0] == '\0')
		return usage("--by needs \"span\", \"function\" or the name of a label");
	o->by = strcmp(value, "span") == 0       ? SP_BY_SPAN
		: strcmp(value, "function") == 0 ? SP_BY_FUNCTION
						 : SP_BY_LABEL;
	o->label = o->by == SP_BY_LABEL ? value : NULL;
	return -1;
}

static int take_form(struct sp_report_options *o, const char *value, size_t form)
{
	(void)value;
	if (o->form != SP_FORM_TABLE)
		return usage("choose one of --json, --folded, --flamegraph and --serve");
	o->form = (enum sp_report_form)form;
	return -1;
}

static int take_flamegraph(struct sp_report_options *o, const char *value, size_t form)
{
	size_t len = strlen(value);

	/* Browsers go by the name and would read HTML as a broken picture. */
	if (len > 4 && strcasecmp(value + len - 4, ".svg") == 0)
		return usage("--flamegraph writes an HTML page: name the file .html");
	o->flamegraph = value;
	return take_form(o, value, form);
}

static int take_port(struct sp_report_options *o, const char *value, size_t form)
{
	unsigned long port;

	if (!parse_number(value, UINT16_MAX, &port))
		return usage("--serve needs a port, 0 to 65535");
	o->port = (uint16_t)port;
	return take_form(o, value, form);
}

static int print_status(struct sp_report_options *o, const char *of, size_t at)
{
	char why[160] = "cannot write the status";
	struct timespec now;

	(void)o, (void)at;
	/* The times of files may be exact, and time() is up to a tick late: a second's first files
	 * would have been written in the future. */
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (sp_report_status(stdout, of, now.tv_sec, why) == 0 && fflush(stdout) == 0)
		return 0;
	sp_report_complain(of, why);
	return SP_EXIT_DAMAGED;
}

static int print_help(struct sp_report_options *o, const char *value, size_t at)
{
	(void)o, (void)value, (void)at;
	(void)fputs(help, stdout);
	return 0;
}

static int print_version(struct sp_report_options *o, const char *value, size_t at)
{
	(void)o, (void)value, (void)at;
	(void)puts("spanprof-report " SP_VERSION);
	return 0;
}

#define AT(field) offsetof(struct sp_report_options, field)

static const struct rule {
	const char *name;
	int has_value;
	take_option *take;
	size_t at;
} rules[] = {
	{"top", required_argument, take_top, 0},
	{"type", required_argument, take_type, 0},
	{"span", required_argument, take_text, AT(selection.span_id)},
	{"span-name", required_argument, take_text, AT(selection.span_name)},
	{"trace", required_argument, take_text, AT(selection.trace_id)},
	{"from", required_argument, take_time, AT(window.from_ns)},
	{"to", required_argument, take_time, AT(window.to_ns)},
	{"diff", no_argument, take_flag, AT(selection.diff)},
	{"baseline", required_argument, take_text, AT(baseline)},
	{"baseline-from", required_argument, take_time, AT(baseline_window.from_ns)},
	{"baseline-to", required_argument, take_time, AT(baseline_window.to_ns)},
	{"by", required_argument, take_by, 0},
	{"lines", no_argument, take_flag, AT(lines)},
	{"threads", no_argument, take_flag, AT(threads)},
	{"json", no_argument, take_form, SP_FORM_JSON},
	{"folded", no_argument, take_form, SP_FORM_FOLDED},
	{"flamegraph", required_argument, take_flamegraph, SP_FORM_FLAMEGRAPH},
	{"serve", required_argument, take_port, SP_FORM_SERVE},
	{"status", required_argument, print_status, 0},
	{"help", no_argument, print_help, 0},
	{"version", no_argument, print_version, 0},
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

static int read_all(int argc, char **argv, struct sp_report_options *o)
{
	struct option options[RULES + 1] = {{0}};
	int err = -1;
	int c;

	for (size_t i = 0; i < RULES; i++)
		options[i] = (struct option){rules[i].name, rules[i].has_value, NULL, (int)i};
	while (err < 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != '?') {
			err = rules[c].take(o, optarg, rules[c].at);
			continue;
		}
		(void)fputs("Try \"spanprof-report --help\".\n", stderr);
		return SP_EXIT_USAGE;
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
		return usage("--by span is for --folded, --flamegraph and --serve");
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
