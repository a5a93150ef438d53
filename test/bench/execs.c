/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program many times, in turn without and with each of the objects preloaded. Prints a line for each: the
 * median wall time of a run in microseconds, the difference to a run without an object, and the ratio.
 *
 *	execs COUNT PROGRAM OBJECT...
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { VARIANTS_MAX = 8 };

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static double once(char *program, char *const *env)
{
	char *argv[] = {program, NULL};
	double begin = now_us();
	pid_t pid;
	int status;

	if (posix_spawn(&pid, program, NULL, NULL, argv, env) != 0 ||
	    waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "execs: cannot run %s\n", program);
		exit(2);
	}
	return now_us() - begin;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Variant 0 preloads nothing. */
static double *times_of(char *program, const char *object, int count, int round, double *us)
{
	char path[] = "PATH=/usr/bin:/bin";
	char preload[4096];
	char *env[] = {path, object != NULL ? preload : NULL, NULL};

	if (us == NULL)
		us = calloc((size_t)count, sizeof(double));
	if (us == NULL)
		exit(2);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", object != NULL ? object : "");
	us[round] = once(program, env);
	return us;
}

int main(int argc, char **argv)
{
	double *us[VARIANTS_MAX] = {NULL};
	int count = argc > 1 ? atoi(argv[1]) : 0;
	int variants = argc - 2;

	if (variants < 1 || variants > VARIANTS_MAX || count < 1)
		return 2;
	for (int i = 0; i < count; i++) {
		for (int v = 0; v < variants; v++)
			us[v] = times_of(argv[2], v != 0 ? argv[v + 2] : NULL, count, i, us[v]);
	}
	for (int v = 0; v < variants; v++) {
		qsort(us[v], (size_t)count, sizeof(double), by_value);
		double median = us[v][count / 2];
		double plain = us[0][count / 2];

		printf("%.0f %.0f %.2f\n", median, median - plain, median / plain);
	}
	return 0;
}
