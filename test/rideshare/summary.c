/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a profile of the ride-sharing server with the server's own measurements and with the spans that it
 * exported. Caller: demo.sh, in three steps, because the functions of the slowest span come from a second report that
 * is limited to that span:
 *
 *   summary table   --report R --truth T --spans S [--all A --in-spans I]
 *                   prints the table and the checks; exit 1 if one fails. A and I are folded stacks
 *   summary names   --report R --spans S            prints the names of spans with samples
 *   summary slowest --report R --spans S            prints the id of the slowest span with samples,
 *                                                   without the time that it waited
 *   summary span    --report R --spans S --id ID    prints that span; R is the report of this span
 *   summary slow    --report R --spans S            prints the id of the slowest span that hardly computed
 *   summary waits   --report R --spans S --id ID    prints where its time went; R is the report of this span
 *   summary holders --report R --spans S            prints which orders waited for which; R is the
 *                   report of waits
 *   summary sentences --slowest L --printed P --spans S
 *                   compares the sentences about the slowest orders in P, which L has as JSON;
 *                   exit 1 if a figure of them is not what the server measured
 */
#include <err.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/rideshare/input.h"
#include "test/rideshare/outside.h"
#include "test/rideshare/sentences.h"
#include "test/rideshare/waits.h"

#define MAX_SHARE_DIFFERENCE 3.0
#define MIN_LABELLED_PERCENT 95.0
#define FUNCTIONS_SHOWN 10
/*
 * A look at waits comes every 20 ms, and a wait has two ends. On a busy machine looks come late, by up to a share of
 * the span. A larger difference is a real fault.
 */
#define MAX_WAIT_DIFFERENCE_MS 40.0
#define MAX_WAIT_DIFFERENCE_PERCENT 20.0
/* From 150 orders, which the load generator sends at least, a share is known well enough. */
#define FEW_SAMPLES 300

struct shares {
	double profile_ns; /* of all spans in the truth */
	double truth_ns;
};

static int failures;

static void __attribute__((format(printf, 2, 3))) check(int passed, const char *format, ...)
{
	va_list args;

	printf("  %-4s ", passed ? "ok" : "FAIL");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	failures += !passed;
}

/* Below a failed check: possible reasons, and advice. */
static void __attribute__((format(printf, 2, 3))) explain(int passed, const char *format, ...)
{
	va_list args;

	if (passed)
		return;
	printf("       ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

/* The profile's figures about a span name; NULL if the profile does not have it. */
static const json_t *profiled(const struct input *in, const json_t *vehicle)
{
	return input_find(json_object_get(in->report, "span_names"), "span_name",
			  input_text(vehicle, "span_name"));
}

static struct shares add_up(const struct input *in)
{
	struct shares sum = {0, 0};
	const json_t *vehicle;
	size_t i;

	json_array_foreach(json_object_get(in->truth, "vehicles"), i, vehicle)
	{
		sum.profile_ns += input_number(profiled(in, vehicle), "ns");
		sum.truth_ns += input_number(vehicle, "cpu_ns");
	}
	return sum;
}

/* Difference in points between the profile's share of a vehicle and the true one. */
static double difference(const struct input *in, const json_t *vehicle, const struct shares *sum)
{
	return percent(input_number(profiled(in, vehicle), "ns"), sum->profile_ns) -
	       percent(input_number(vehicle, "cpu_ns"), sum->truth_ns);
}

static void print_vehicle(const struct input *in, const json_t *vehicle, const struct shares *sum)
{
	const json_t *row = profiled(in, vehicle);

	printf("%-24s %7.0f %7.0f %8.0f %8.2f %7.1f%% %7.1f%% %+7.1f\n",
	       input_text(vehicle, "span_name"), input_number(vehicle, "orders"),
	       input_number(row, "spans"), input_number(row, "samples"),
	       input_number(row, "ns") / 1e9, percent(input_number(row, "ns"), sum->profile_ns),
	       percent(input_number(vehicle, "cpu_ns"), sum->truth_ns),
	       difference(in, vehicle, sum));
}

static void print_table(const struct input *in, const char *all, const char *in_spans)
{
	const json_t *vehicles = json_object_get(in->truth, "vehicles");
	struct shares sum = add_up(in);
	const json_t *element;
	size_t i;

	printf("%-24s %7s %7s %8s %8s %8s %8s %7s\n", "span_name", "orders", "spans", "samples",
	       "CPU s", "share", "truth", "diff");
	json_array_foreach(vehicles, i, element) print_vehicle(in, element, &sum);
	/* A name that the server gives to no local root is a wrong label, so it is shown. */
	json_array_foreach(json_object_get(in->report, "span_names"), i,
			   element) if (input_find(vehicles, "span_name",
						   input_text(element, "span_name")) == NULL)
		printf("%-24s %7s %7.0f %8.0f %8.2f\n", input_text(element, "span_name"), "-",
		       input_number(element, "spans"), input_number(element, "samples"),
		       input_number(element, "ns") / 1e9);
	printf("%-24s %7s %7s %8.0f %8.2f\n", "(outside any span)", "", "",
	       input_nested(in->report, "total", "samples") -
		       input_nested(in->report, "labelled", "samples"),
	       (input_nested(in->report, "total", "ns") -
		input_nested(in->report, "labelled", "ns")) /
		       1e9);
	if (all != NULL && in_spans != NULL)
		outside_print(all, in_spans);
	printf("%-24s %7s %7s %8.0f %8.2f   (the process used %.2f s from its start to its "
	       "end)\n\n",
	       "total", "", "", input_nested(in->report, "total", "samples"),
	       input_nested(in->report, "total", "ns") / 1e9,
	       input_number(in->truth, "process_cpu_ns") / 1e9);
}

static void check_shares(const struct input *in)
{
	const json_t *vehicles = json_object_get(in->truth, "vehicles");
	struct shares sum = add_up(in);
	const json_t *vehicle;
	double largest = 0;
	const char *which = "none";
	int passed;
	size_t i;

	json_array_foreach(vehicles, i, vehicle)
	{
		double d = difference(in, vehicle, &sum);

		if (fabs(d) >= fabs(largest)) {
			largest = d;
			which = input_text(vehicle, "span_name");
		}
	}
	passed = sum.profile_ns > 0 && sum.truth_ns > 0 && fabs(largest) <= MAX_SHARE_DIFFERENCE;
	check(passed,
	      "every span name's share of CPU is within %.0f points of the truth (largest: %+.1f, "
	      "%s)",
	      MAX_SHARE_DIFFERENCE, largest, which);
	if (input_nested(in->report, "total", "samples") < FEW_SAMPLES)
		explain(passed,
			"%.0f samples are too few to know a share that well: the machine is slow "
			"or "
			"busy; try SPANPROF_DEMO_SECONDS=120 make demo",
			input_nested(in->report, "total", "samples"));
	else
		explain(passed, "there are enough samples: server.log tells if some were lost, and "
				"if it does "
				"not, please report this with server.log and report.json");
}

static void check_labelled(const struct input *in)
{
	double labelled = percent(input_nested(in->report, "labelled", "ns"),
				  input_nested(in->report, "total", "ns"));
	int passed = labelled >= MIN_LABELLED_PERCENT;

	check(passed, "at least %.0f %% of the sampled CPU time carries a span id (%.1f %%)",
	      MIN_LABELLED_PERCENT, labelled);
	explain(passed,
		"whose the rest is stands in the table under \"(outside any span)\"; under a "
		"CPU quota there is more of it than there should be, see test/rideshare/README.md: "
		"try without one");
}

static void check_spans(const struct input *in)
{
	const json_t *labelled = json_object_get(in->report, "spans");
	const json_t *element;
	const char *bad = "none";
	size_t unknown = 0;
	size_t unlike = 0;
	size_t i;

	json_array_foreach(labelled, i, element)
	{
		const char *id = input_text(element, "span_id");
		const json_t *span = json_object_get(in->spans, id);
		const json_t *attributes = json_object_get(span, "attributes");

		if (span != NULL && strcmp(input_text(attributes, "pyroscope.profile.id"), id) == 0)
			continue;
		unknown += span == NULL;
		unlike += span != NULL;
		bad = id;
	}
	check(json_array_size(labelled) > 0 && unknown == 0,
	      "every labelled span id is an exported span (%zu ids, %zu unknown, last bad: %s)",
	      json_array_size(labelled), unknown, bad);
	explain(json_array_size(labelled) > 0 && unknown == 0,
		json_array_size(labelled) > 0
			? "a label is wrong, or the SDK dropped spans: compare report.json and "
			  "spans.json"
			: "no sample has a span: server.log says whether the SDK was recognized");
	check(json_array_size(labelled) > 0 && unlike == 0,
	      "... whose pyroscope.profile.id is that id (%zu are not, last bad: %s)", unlike, bad);
}

static int print_names(const struct input *in)
{
	const json_t *element;
	size_t i;

	json_array_foreach(json_object_get(in->report, "span_names"), i, element)
		printf("%s\n", input_text(element, "span_name"));
	return 0;
}

static double duration_ms(const json_t *span)
{
	return (input_number(span, "end_ns") - input_number(span, "start_ns")) / 1e6;
}

/* The part that a profile of CPU time can show: waits are in another table. */
static double computing_ms(const json_t *span)
{
	return duration_ms(span) -
	       input_nested(span, "attributes", "spanprof.off_cpu_time_ns") / 1e6;
}

static int print_slowest(const struct input *in)
{
	const char *slowest = NULL;
	double longest = -1;
	const json_t *element;
	size_t i;

	json_array_foreach(json_object_get(in->report, "spans"), i, element)
	{
		const char *id = input_text(element, "span_id");
		const json_t *span = json_object_get(in->spans, id);

		if (span != NULL && computing_ms(span) > longest) {
			longest = computing_ms(span);
			slowest = id;
		}
	}
	if (slowest == NULL)
		errx(1, "no span has both samples and an exported record");
	printf("%s\n", slowest);
	return 0;
}

static int by_flat_time(const void *left, const void *right)
{
	double l = input_number(*(json_t *const *)left, "self_ns");
	double r = input_number(*(json_t *const *)right, "self_ns");

	return (l < r) - (l > r);
}

static void print_functions(const json_t *functions)
{
	size_t count = json_array_size(functions);
	json_t **sorted = calloc(count + 1, sizeof(*sorted));

	if (sorted == NULL)
		err(1, "functions");
	for (size_t i = 0; i < count; i++)
		sorted[i] = json_array_get(functions, i);
	qsort(sorted, count, sizeof(*sorted), by_flat_time);
	printf("  %8s %8s  %s\n", "flat ms", "cum ms", "function");
	for (size_t i = 0; i < count && i < FUNCTIONS_SHOWN; i++)
		printf("  %8.1f %8.1f  %s\n", input_number(sorted[i], "self_ns") / 1e6,
		       input_number(sorted[i], "total_ns") / 1e6,
		       input_text(sorted[i], "function"));
	free(sorted);
}

static int print_span(const struct input *in, const char *id)
{
	const json_t *span = json_object_get(in->spans, id);
	const json_t *attributes = json_object_get(span, "attributes");

	if (span == NULL)
		errx(1, "%s: not among the exported spans", id);
	printf("Slowest span, not counting waits: %s (%s, %s), %.1f ms, of which %.1f ms on the "
	       "CPU\n",
	       id, input_text(span, "name"), input_text(attributes, "region"), duration_ms(span),
	       input_nested(in->report, "total", "ns") / 1e6);
	print_functions(json_object_get(in->report, "functions"));
	printf("  pyroscope.profile.url: %s\n", input_text(attributes, "pyroscope.profile.url"));
	check(json_array_size(json_object_get(in->report, "functions")) > 0,
	      "the span's samples have functions");
	check(input_text(attributes, "pyroscope.profile.url")[0] != '\0',
	      "the span links to its profile");
	return failures != 0;
}

static int print_slow(const struct input *in)
{
	const json_t *span = waits_slowest(in->spans);

	if (span == NULL)
		errx(1, "no order that hardly computed knows where its time went");
	printf("%s\n", input_text(span, "span_id"));
	return 0;
}

static int print_waits(const struct input *in, const char *id)
{
	const json_t *span = json_object_get(in->spans, id);
	struct waits_errors off;
	double most_ms;
	int passed;

	if (span == NULL)
		errx(1, "%s: not among the exported spans", id);
	waits_print(span, &off);
	passed = off.duration_percent <= 1;
	check(passed, "CPU and off-CPU time are the span's duration (%.2f %% off)",
	      off.duration_percent);
	explain(passed, "the span was not active on its thread from its start to its end");
	most_ms =
		fmax(MAX_WAIT_DIFFERENCE_MS, duration_ms(span) * MAX_WAIT_DIFFERENCE_PERCENT / 100);
	passed = off.off_cpu_ms <= most_ms;
	check(passed, "it was off the CPU as long as the server says (%.1f ms off)",
	      off.off_cpu_ms);
	explain(passed, "on a busy machine it also waits for a CPU: try again");
	return failures != 0;
}

/* Within a tenth, and the error by chance of that number of looks: two standard errors. */
static int print_holders(const struct input *in)
{
	struct waits_holders h;
	double off;
	double most;
	int passed;

	waits_print_holders(in->spans, in->report, &h);
	off = h.truth_ns > 0 ? fabs(h.profile_ns / h.truth_ns - 1) * 100 : 0;
	most = 10 + (h.samples > 0 ? 283 / sqrt(h.samples) : 0);
	passed = h.samples > 0 && off <= most;
	check(passed, "orders waited for each other as long as the server says (%.1f %% off)", off);
	explain(passed, "on a busy machine a lock may be free while who waits for it gets no CPU");
	check(h.wrong_ns < 1, "and for nobody else (%.1f ms)", fabs(h.wrong_ns) / 1e6);
	return failures != 0;
}

static int print_sentences(const struct input *in, const char *printed)
{
	struct sentences_result r;

	sentences_print(in->slowest, in->spans, printed, &r);
	check(r.sentences == SENTENCES && r.missing == 0,
	      "there are %d sentences, each with its cause, about spans of the server (%u, %u "
	      "without)",
	      SENTENCES, r.sentences, r.missing);
	explain(r.sentences == SENTENCES && r.missing == 0,
		"slow.txt and slow.json tell what the report says; SPANPROF_SLOW must not be off");
	check(r.figures > 0 && r.wrong == 0,
	      "their %u figures are the server's (%u are not; largest difference: %.1f of at most "
	      "%.1f ms)",
	      r.figures, r.wrong, r.off_ms, r.most_ms);
	explain(r.figures > 0 && r.wrong == 0,
		"a figure has to be within 40 ms or a fifth of the order, and the chance of that "
		"many looks at it; a duration within 10 ms or a fiftieth");
	check(r.wrong_holders == 0, "and so is who held the lock (%u are not)", r.wrong_holders);
	return failures != 0;
}

static int table(const struct input *in, const char *all, const char *in_spans)
{
	print_table(in, all, in_spans);
	check_shares(in);
	check_labelled(in);
	check_spans(in);
	printf("\n");
	return failures != 0;
}

static void usage(void)
{
	errx(2, "usage: summary table|names|slowest|span|slow|waits|holders --report FILE --spans "
		"FILE "
		"[--truth FILE] "
		"[--all FILE --in-spans FILE] [--id ID]\n"
		"       summary sentences --slowest FILE --printed FILE --spans FILE");
}

int main(int argc, char **argv)
{
	static const struct option LONG[] = {
		{"report", required_argument, NULL, 'r'},
		{"truth", required_argument, NULL, 't'},
		{"spans", required_argument, NULL, 's'},
		{"id", required_argument, NULL, 'i'},
		{"all", required_argument, NULL, 'a'},
		{"in-spans", required_argument, NULL, 'n'},
		{"slowest", required_argument, NULL, 'l'},
		{"printed", required_argument, NULL, 'p'},
		{NULL, 0, NULL, 0},
	};
	const char *value[128] = {NULL};
	struct input in;
	int c;

	while ((c = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
		if (c == '?')
			usage();
		value[c] = optarg;
	}
	if (optind + 1 != argc || value['s'] == NULL)
		usage();
	input_read(&in, value['r'], value['t'], value['s']);
	if (strcmp(argv[optind], "sentences") == 0 && value['l'] != NULL && value['p'] != NULL) {
		input_read_slowest(&in, value['l']);
		return print_sentences(&in, value['p']);
	}
	if (in.report == NULL)
		usage();
	if (strcmp(argv[optind], "table") == 0 && in.truth != NULL)
		return table(&in, value['a'], value['n']);
	if (strcmp(argv[optind], "names") == 0)
		return print_names(&in);
	if (strcmp(argv[optind], "slowest") == 0)
		return print_slowest(&in);
	if (strcmp(argv[optind], "span") == 0 && value['i'] != NULL)
		return print_span(&in, value['i']);
	if (strcmp(argv[optind], "slow") == 0)
		return print_slow(&in);
	if (strcmp(argv[optind], "holders") == 0)
		return print_holders(&in);
	if (strcmp(argv[optind], "waits") == 0 && value['i'] != NULL)
		return print_waits(&in, value['i']);
	usage();
}
