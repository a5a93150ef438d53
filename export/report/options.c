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

#include "export/report/file.h"
#include "export/report/load.h"
#include "export/report/status.h"
#include "sampler/base/compiler.h"

#define SP_REPORT_TOP 20U
#define SP_REPORT_SLOWEST 10U
#define SP_REPORT_PAGE 1000U
#define SP_REPORT_TRACES 20U

static const char help[] =
	"usage: spanprof-report [option]... FOLDER|FILE...\n"
	"       spanprof-report --slowest[=N] [option]... FOLDER|FILE...\n"
	"       spanprof-report --traces FILE... [option]... FOLDER|FILE...\n"
	"       spanprof-report --serve PORT [option]... FOLDER|FILE...\n"
	"       spanprof-report --status PID|FILE\n"
	"\n"
	"Shows which spans used the CPU time in profiles in pprof or OTLP, and in which\n"
	"functions. A folder stands for its *.pb.gz, *.pb, *.pprof, *.otlp.gz and *.otlp files.\n"
	"\n"
	"Select samples:\n"
	"  --type TYPE        Read CPU time (cpu, the default), waiting time (off_cpu, needs\n"
	"                     SPANPROF_OFF_CPU), both (wall, needs SPANPROF_WALL), or\n"
	"                     allocated memory (alloc_space, needs SPANPROF_ALLOC), or the\n"
	"                     part of it that is in use (inuse_space).\n"
	"  --span ID          Read only the span with this id (16 hexadecimal digits).\n"
	"  --span-name NAME   Read only spans with this name.\n"
	"  --trace ID         Read only the trace with this id (32 hexadecimal digits).\n"
	"  --latency CLASS    Read only slow requests (slow, needs SPANPROF_SLOW), all others\n"
	"                     (rest), or with SPANPROF_SPAN_LATENCY also p50, p90 or p99.\n"
	"  --from TIME        Read only profiles from this time on.\n"
	"  --to TIME          Read only profiles before this time.\n"
	"  --focus RE         Read only stacks with a function whose name matches.\n"
	"  --ignore RE        Leave out stacks with a function whose name matches.\n"
	"  --hide RE          Leave out the functions themselves; their time is their callers'.\n"
	"\n"
	"Say what made requests slow (needs SPANPROF_SLOW, which writes *.otlp.jsonl files):\n"
	"  --slowest[=N]      Show the N requests that were slower than the median of their name\n"
	"                     by most (default 10; JSON has all unless N is given), what they did\n"
	"                     and waited for, and a sentence about the cause of each.\n"
	"  --page FILE        Write an HTML page of these requests (default 1000): what each did\n"
	"                     over time, on which thread, and what it waited for.\n"
	"  --slower-than D    Show only requests that took at least D: 200ms, 1.5s.\n"
	"\n"
	"Show whole traces, across services:\n"
	"  --traces FILE...   Read spans in OTLP JSON, as programs and collectors write them, and\n"
	"                     show the trace with the slowest of these requests as a waterfall:\n"
	"                     each span, and what the profiles know of its time. --slowest=N\n"
	"                     shows N traces, --trace ID that one, --json prints JSON, and\n"
	"                     --page FILE writes a page (default 20 traces).\n"
	"\n"
	"Compare the selected samples with others, the baseline:\n"
	"  --diff             Compare with all other spans of the same name. Needs --span or\n"
	"                     --trace.\n"
	"  --diff slow:rest   Compare slow requests with all others, or two other classes of\n"
	"                     --latency.\n"
	"  --baseline PATH    Compare with the profiles of this folder or file.\n"
	"  --baseline-from TIME, --baseline-to TIME\n"
	"                     Compare with the profiles of this time.\n"
	"\n"
	"Choose the output (tables, if none is chosen):\n"
	"  --json             Print JSON.\n"
	"  --folded           Print folded stacks, as flamegraph.pl reads them. With a\n"
	"                     baseline, each line has two numbers, the baseline's first.\n"
	"  --flamegraph FILE  Write a flame graph as an HTML page.\n"
	"  --serve PORT       Serve flame graphs and tables at http://127.0.0.1:PORT and show\n"
	"                     new profiles as they are written. PORT 0 takes any free port.\n"
	"                     Every user of this machine can read these pages.\n"
	"\n"
	"  --by span|function Put span names at the root of folded stacks or of the flame\n"
	"                     graph, or leave them out. The flame graph has them if there are\n"
	"                     several names.\n"
	"  --by KEY           Put the values of this attribute at the root (needs\n"
	"                     SPANPROF_SPAN_LABELS), and show a table of them.\n"
	"  --lines            Show lines instead of whole functions.\n"
	"  --top N            Show N spans and functions (default 20; JSON has all spans, and\n"
	"                     all functions unless N is given).\n"
	"  --threads          Also show the time by thread name (needs SPANPROF_THREAD_NAME).\n"
	"                     JSON always has it.\n"
	"\n"
	"  --status PID|FILE  Print what is sampled, sent, lost and wrong in a running process,\n"
	"                     or by a status file (SPANPROF_STATUS_FILE).\n"
	"  --help             Print this text.\n"
	"  --version          Print the version.\n"
	"\n"
	"TIME is 2026-11-22T19:30 or 2026-11-22T19:30:05 (with Z: UTC), 19:30 (today), or -15m\n"
	"(15 minutes ago; also s, h and d). A profile belongs to the time of its middle.\n"
	"RE is a regular expression as of \"grep -E\".\n"
	"\n"
	"On a terminal, tables are coloured, unless NO_COLOR is set, and names are short and cut\n"
	"to its width; \"| cat\" shows them whole.\n"
	"\n"
	"A file that is damaged, too large, or cannot be read is named, and the rest is shown.\n"
	"\n"
	"Exit status: 0 success; 1 wrong usage, or nothing to show; 2 a file was passed over, or\n"
	"cannot be written, the port cannot be used, or the process of --status has no exporter.\n";

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

		/* A time without a date is today's. */
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

/*
 * Handles an option. -1 = success, otherwise the exit status. at: the offset of the member in the
 * options, or the form of output.
 */
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

/* The number is optional, and follows a "=". */
static int take_slowest(struct sp_report_options *o, const char *value, size_t at)
{
	unsigned long n = 0;

	(void)at;
	if (value != NULL && (!parse_number(value, SIZE_MAX, &n) || n == 0))
		return usage("--slowest takes a number of requests: --slowest=20");
	o->slowest = true;
	if (n != 0)
		o->top = n;
	return -1;
}

/* Reads "200ms" or "1.5s", with at most 15 digits, so that a double is exact. */
static bool read_duration(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}};
	size_t digits = strspn(text, "0123456789");
	size_t fraction = text[digits] == '.' ? strspn(text + digits + 1, "0123456789") : 0;
	const char *unit = text + digits + (fraction != 0 ? fraction + 1 : 0);
	double n = 0, part = 1;

	if (digits == 0 || digits + fraction > 15)
		return false;
	for (const char *c = text; c != unit; c++) {
		if (*c == '.')
			continue;
		n = n * 10 + (*c - '0');
		part *= c > text + digits ? 10 : 1;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(unit, units[i].name) == 0 && n / part * units[i].ns < 9e18) {
			*ns = (uint64_t)(n / part * units[i].ns);
			return true;
		}
	return false;
}

static int take_slower_than(struct sp_report_options *o, const char *value, size_t at)
{
	(void)at;
	if (!read_duration(value, &o->slower_than_ns) || o->slower_than_ns == 0)
		return usage("--slower-than needs a time: 200ms, 1.5s");
	o->slowest = true;
	return -1;
}

static const char *const latencies[] = {"p50", "p90", "p99", SP_REPORT_SLOW, SP_REPORT_REST};

static const char *find_latency(const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof(latencies) / sizeof(latencies[0]); i++)
		if (strlen(latencies[i]) == len && strncmp(text, latencies[i], len) == 0)
			return latencies[i];
	return NULL;
}

static int take_latency(struct sp_report_options *o, const char *value, size_t at)
{
	(void)at;
	o->selection.latency = find_latency(value, strlen(value));
	return o->selection.latency != NULL ? -1
					    : usage("--latency needs p50, p90, p99, slow or rest");
}

/* Parses "slow:rest". False: the value has another form. */
static bool read_latencies(const char *value, const char **one, const char **other)
{
	const char *colon = strchr(value, ':');

	*one = colon != NULL ? find_latency(value, (size_t)(colon - value)) : NULL;
	*other = colon != NULL ? find_latency(colon + 1, strlen(colon + 1)) : NULL;
	return *one != NULL && *other != NULL;
}

static int take_diff(struct sp_report_options *o, const char *value, size_t at)
{
	(void)at;
	if (value == NULL)
		o->selection.diff = true;
	else if (!read_latencies(value, &o->selection.latency, &o->selection.base_latency) ||
		 o->selection.latency == o->selection.base_latency)
		return usage("--diff takes two different classes of --latency: --diff slow:rest");
	return -1;
}

static int take_filter(struct sp_report_options *o, const char *value, size_t by)
{
	char why[SP_FILTER_WHY];
	char what[SP_FILTER_WHY + 32];

	if (sp_filter_set(&o->filter, (enum sp_filter_by)by, value, why) == 0)
		return -1;
	(void)snprintf(what, sizeof(what), "--%s: %s", sp_filter_word((enum sp_filter_by)by), why);
	return usage(what);
}

/* "off-cpu" means off_cpu, because people write off-CPU. */
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

	/* Browsers go by the file name, and would show HTML as a broken picture. */
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

/* Paths live as long as the program. */
static int take_traces(struct sp_report_options *o, const char *value, size_t at)
{
	(void)at;
	if (!SP_GROW(o->traces, o->traces_cap, o->traces_n + 1, SIZE_MAX / sizeof(*o->traces)))
		return usage(SP_REPORT_NO_MEMORY);
	o->traces[o->traces_n++] = (char *)(uintptr_t)value;
	return -1;
}

static int print_status(struct sp_report_options *o, const char *of, size_t at)
{
	char why[160] = "cannot write the status";
	struct timespec now;

	(void)o, (void)at;
	/*
	 * time() is up to a tick late, but times of files may be exact: a file that was just
	 * written would be from the future.
	 */
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
	{"focus", required_argument, take_filter, SP_FILTER_FOCUS},
	{"ignore", required_argument, take_filter, SP_FILTER_IGNORE},
	{"hide", required_argument, take_filter, SP_FILTER_HIDE},
	{"slowest", optional_argument, take_slowest, 0},
	{"page", required_argument, take_text, AT(page)},
	{"slower-than", required_argument, take_slower_than, 0},
	{"traces", required_argument, take_traces, 0},
	{"latency", required_argument, take_latency, 0},
	{"diff", optional_argument, take_diff, 0},
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

/*
 * What follows --traces FILE are more files of spans, up to the first option, folder or profile.
 * The last path is what is reported of.
 */
static int take_more_traces(int argc, char **argv, struct sp_report_options *o)
{
	int err = -1;

	while (err < 0 && optind + 1 < argc && argv[optind][0] != '-' &&
	       sp_report_is_of_spans(argv[optind]))
		err = take_traces(o, argv[optind++], 0);
	return err;
}

static int read_all(int argc, char **argv, struct sp_report_options *o)
{
	struct option options[RULES + 1] = {{0}};
	int err = -1;
	int c;

	for (size_t i = 0; i < RULES; i++)
		options[i] = (struct option){rules[i].name, rules[i].has_value, NULL, (int)i};
	while (err < 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		const char *one, *other;

		/*
		 * The next argument is the classes of --diff only if it has their form; otherwise
		 * it is a path.
		 */
		if (c != '?' && rules[c].take == take_diff && optarg == NULL && optind < argc &&
		    read_latencies(argv[optind], &one, &other))
			optarg = argv[optind++];
		if (c != '?') {
			err = rules[c].take(o, optarg, rules[c].at);
			if (err < 0 && rules[c].take == take_traces)
				err = take_more_traces(argc, argv, o);
			continue;
		}
		(void)fputs("Try \"spanprof-report --help\".\n", stderr);
		return SP_EXIT_USAGE;
	}
	return err;
}

bool sp_report_options_compare(const struct sp_report_options *o)
{
	return o->selection.diff || o->selection.base_latency != NULL || o->baseline != NULL ||
	       sp_time_window_is_set(&o->baseline_window);
}

static int check_form(const struct sp_report_options *o)
{
	if (o->page != NULL && o->form != SP_FORM_TABLE)
		return usage("choose one of --page and --json");
	if (o->form != SP_FORM_TABLE && o->form != SP_FORM_JSON)
		return usage("--slowest and --traces print tables, or JSON with --json");
	return -1;
}

static int check_slowest(const struct sp_report_options *o)
{
	int err = check_form(o);

	if (err >= 0)
		return err;
	if (o->type != NULL || sp_filter_is_set(&o->filter) || sp_report_options_compare(o) ||
	    o->by != SP_BY_DEFAULT || o->lines || o->threads || o->selection.latency != NULL)
		return usage(
			"--slowest goes with --page, --json, --span, --span-name, --trace, --from, "
			"--to and --slower-than");
	return -1;
}

static int check_traces(const struct sp_report_options *o)
{
	int err = check_form(o);

	if (err >= 0)
		return err;
	if (o->type != NULL || sp_filter_is_set(&o->filter) || sp_report_options_compare(o) ||
	    o->by != SP_BY_DEFAULT || o->lines || o->threads || o->selection.latency != NULL ||
	    o->selection.span_id != NULL || o->selection.span_name != NULL ||
	    o->slower_than_ns != 0)
		return usage(
			"--traces goes with --page, --json, --trace, --slowest, --from and --to");
	return -1;
}

static int check(const struct sp_report_options *o)
{
	bool others = o->baseline != NULL || sp_time_window_is_set(&o->baseline_window);

	if (o->traces_n != 0)
		return check_traces(o);
	if (o->page != NULL && !o->slowest)
		return usage("--page needs --slowest or --traces");
	if (o->slowest)
		return check_slowest(o);
	if (o->selection.diff && o->selection.span_id == NULL && o->selection.trace_id == NULL)
		return usage("--diff needs --span or --trace: what to compare with the others; or "
			     "slow:rest");
	if ((o->selection.diff || o->selection.base_latency != NULL) && others)
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
	if (o->top == 0 && o->traces_n != 0)
		o->top = o->page != NULL ? SP_REPORT_TRACES : 1;
	if (o->top == 0 && o->form == SP_FORM_TABLE && o->page == NULL)
		o->top = o->slowest ? SP_REPORT_SLOWEST : SP_REPORT_TOP;
	if (o->top == 0 && o->page != NULL)
		o->top = SP_REPORT_PAGE;
	o->filter.lines = o->lines;
	return err;
}

void sp_report_options_fini(struct sp_report_options *o)
{
	sp_filter_fini(&o->filter);
	free(o->traces);
}

int sp_report_flush(int err)
{
	if (err == 0 && fflush(stdout) == 0)
		return 0;
	sp_report_complain("", "cannot write the report");
	return SP_EXIT_DAMAGED;
}
