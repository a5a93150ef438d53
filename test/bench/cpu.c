/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one command in several environments in turn, and compares the CPU time (user and system) that the kernel
 * counts. Another environment goes first in each round.
 *
 *	[BENCH_INSIDE=FILE] cpu ROUNDS COMMAND [ARGUMENT ...] <environments
 *
 * An environment is a line "label|NAME=VALUE NAME=VALUE"; the others are compared with the first one. Prints for each
 * a line of fields with "|" between them: the label, the CPU time in ms, and its difference to the first one's in the
 * same round in ms and in percent. If inside.c was preloaded, its figures in FILE follow: the number of signals, the
 * microseconds of a signal in the profiler's handler and for its delivery, the share of both in the command's own CPU
 * time, the ms of the other threads, and the share of all. All are medians over rounds; percents have two more
 * fields, the 95 % confidence interval of the median.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAYS_MAX 8
#define ROUNDS_MAX 1001

enum figure {
	MS,
	SIGNALS,
	HANDLER_US,
	DELIVERY_US,
	SAMPLING_PERCENT,
	OTHERS_MS,
	ALL_PERCENT,
	FIGURES
};

static struct way {
	char label[64];
	char assignments[4096];
	double figure[FIGURES][ROUNDS_MAX];
} ways[WAYS_MAX];

static double scratch[ROUNDS_MAX];

static double run(const struct way *w, char **argv)
{
	struct rusage used;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		char copy[sizeof(w->assignments)];

		memcpy(copy, w->assignments, sizeof(copy));
		for (char *a = strtok(copy, " "); a != NULL; a = strtok(NULL, " "))
			putenv(strdup(a));
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &used) != pid || status != 0) {
		fprintf(stderr, "cpu: %s: %s failed\n", w->label, argv[0]);
		exit(2);
	}
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

/* Adds inside.c's figures of a run that took ms, if it was preloaded. */
static void account(struct way *w, int round, const char *inside, double ms)
{
	double signals, handler, delivery, others, sampling;
	FILE *f = inside != NULL ? fopen(inside, "r") : NULL;

	w->figure[MS][round] = ms;
	if (f == NULL)
		return;
	if (fscanf(f, "%lf %lf %lf %lf", &signals, &handler, &delivery, &others) == 4 &&
	    signals > 0) {
		sampling = (handler + signals * delivery) / 1e6;
		others /= 1e6;
		ms -= sampling + others;
		w->figure[SIGNALS][round] = signals;
		w->figure[HANDLER_US][round] = handler / signals / 1e3;
		w->figure[DELIVERY_US][round] = delivery / 1e3;
		w->figure[SAMPLING_PERCENT][round] = sampling / ms * 100;
		w->figure[OTHERS_MS][round] = others;
		w->figure[ALL_PERCENT][round] = (sampling + others) / ms * 100;
	}
	fclose(f);
	unlink(inside);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double ranked(int n, double rank)
{
	int i = (int)rank;

	return scratch[i < 0 ? 0 : i >= n ? n - 1 : i];
}

static void sort_scratch(int n)
{
	qsort(scratch, (size_t)n, sizeof(scratch[0]), by_value);
}

/*
 * Sorts scratch[], and prints the median and, if asked for, its 95 % confidence interval by ranks: the number of n
 * values below the true median is binomial, whatever their distribution.
 */
static void print_median(int n, int digits, bool range)
{
	double half = 0.98 * sqrt(n);

	sort_scratch(n);
	printf("|%.*f", digits, scratch[n / 2]);
	if (range)
		printf("|%.3f|%.3f", ranked(n, floor(n / 2.0 - half)),
		       ranked(n, ceil(n / 2.0 + half)));
}

static void print_figure(const struct way *w, enum figure figure, int n, int digits, bool range)
{
	memcpy(scratch, w->figure[figure], sizeof(scratch));
	print_median(n, digits, range);
}

static void report(const struct way *w, int n)
{
	const double *ms = w->figure[MS];
	const double *base = ways[0].figure[MS];

	printf("%s", w->label);
	print_figure(w, MS, n, 1, false);
	for (int i = 0; i < n; i++)
		scratch[i] = ms[i] - base[i];
	print_median(n, 1, false);
	for (int i = 0; i < n; i++)
		scratch[i] = (ms[i] / base[i] - 1) * 100;
	print_median(n, 3, true);
	print_figure(w, SIGNALS, n, 0, false);
	print_figure(w, HANDLER_US, n, 1, false);
	print_figure(w, DELIVERY_US, n, 1, false);
	print_figure(w, SAMPLING_PERCENT, n, 3, true);
	print_figure(w, OTHERS_MS, n, 1, false);
	print_figure(w, ALL_PERCENT, n, 3, true);
	putchar('\n');
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : 0;
	const char *inside = getenv("BENCH_INSIDE");
	char line[sizeof(ways[0].assignments)];
	int n = 0;

	if (rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	while (n < WAYS_MAX && fgets(line, sizeof(line), stdin) != NULL) {
		char *bar = strchr(line, '|');

		if (bar == NULL)
			return 2;
		line[strcspn(line, "\n")] = '\0';
		*bar = '\0';
		snprintf(ways[n].label, sizeof(ways[n].label), "%.60s", line);
		snprintf(ways[n++].assignments, sizeof(ways[0].assignments), "%s", bar + 1);
	}
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < n; i++) {
			struct way *w = &ways[(i + r) % n];

			account(w, r, inside, run(w, argv + 2));
		}
	}
	for (int i = 0; i < n; i++)
		report(&ways[i], rounds);
	return 0;
}
