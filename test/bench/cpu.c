/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one command in several environments, taking turns, and compares the CPU time (user and
 * system) that the kernel says it took. Whoever goes first changes from round to round.
 *
 *	cpu ROUNDS COMMAND [ARGUMENT ...] <environments
 *
 * An environment is a line "label|NAME=VALUE NAME=VALUE"; the first one is what the others are
 * compared with. Prints for each "label|median ms|difference ms|percent|percent from|percent to":
 * medians over rounds, of the difference to the first one of the same round, and where the true
 * median of that is with 95 % confidence.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAYS_MAX 8
#define ROUNDS_MAX 1001

static struct way {
	char label[64];
	char assignments[4096];
	double ms[ROUNDS_MAX];
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

/* The ranks between which a median lies in 95 of 100 cases: how many of n fall below it is binomial,
 * whatever the times are distributed like. */
static void report(const struct way *w, int n)
{
	double half = 0.98 * sqrt(n);
	double median, more;

	memcpy(scratch, w->ms, sizeof(scratch));
	sort_scratch(n);
	median = scratch[n / 2];
	for (int i = 0; i < n; i++)
		scratch[i] = w->ms[i] - ways[0].ms[i];
	sort_scratch(n);
	more = scratch[n / 2];
	for (int i = 0; i < n; i++)
		scratch[i] = (w->ms[i] / ways[0].ms[i] - 1) * 100;
	sort_scratch(n);
	printf("%s|%.1f|%.1f|%.2f|%.2f|%.2f\n", w->label, median, more, scratch[n / 2],
	       ranked(n, floor(n / 2.0 - half)), ranked(n, ceil(n / 2.0 + half)));
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : 0;
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
	for (int r = 0; r < rounds; r++)
		for (int i = 0; i < n; i++)
			ways[(i + r) % n].ms[r] = run(&ways[(i + r) % n], argv + 2);
	for (int i = 0; i < n; i++)
		report(&ways[i], rounds);
	return 0;
}
