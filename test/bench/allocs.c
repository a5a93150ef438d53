/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates and frees blocks of one size, and prints the nanoseconds of CPU time of a pair: the least of several
 * rounds. Usage: allocs BYTES PAIRS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 15

static long long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	size_t bytes = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
	long pairs = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	double least = 0;

	if (bytes == 0 || pairs <= 0)
		return 2;
	for (int round = 0; round < ROUNDS; round++) {
		long long begin = cpu_ns();
		double ns;

		for (long i = 0; i < pairs; i++) {
			void *volatile block = malloc(bytes);

			free(block);
		}
		ns = (double)(cpu_ns() - begin) / (double)pairs;
		if (round == 0 || ns < least)
			least = ns;
	}
	printf("%.3f\n", least);
	return 0;
}
