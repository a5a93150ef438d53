/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program many times, with and without an object preloaded, alternating, and prints the
 * median wall time of one run of each in microseconds and the difference.
 *
 *	execs OBJECT COUNT PROGRAM
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

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

int main(int argc, char **argv)
{
	char path[] = "PATH=/usr/bin:/bin";
	char preload[4096];
	char *plain[] = {path, NULL};
	char *with[] = {path, preload, NULL};
	int count = argc > 2 ? atoi(argv[2]) : 0;
	double *us[2];

	if (argc != 4 || count < 1)
		return 2;
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[1]);
	us[0] = calloc((size_t)count, sizeof(double));
	us[1] = calloc((size_t)count, sizeof(double));
	if (us[0] == NULL || us[1] == NULL)
		return 2;
	for (int i = 0; i < count; i++) {
		us[0][i] = once(argv[3], plain);
		us[1][i] = once(argv[3], with);
	}
	qsort(us[0], (size_t)count, sizeof(double), by_value);
	qsort(us[1], (size_t)count, sizeof(double), by_value);
	printf("%.0f %.0f %.0f\n", us[0][count / 2], us[1][count / 2],
	       us[1][count / 2] - us[0][count / 2]);
	return 0;
}
