/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of naming: bench FILE prints the CPU time of the first name of the file, which reads its symbols, and the
 * median of later names. Context: test. Caller: test/bench/symbols.sh.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "export/symbols/symbolize.h"
#include "image.h"

#define ADDRESSES 20000U
#define ROUNDS 51U

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Addresses in turn, spread over the executable segment. */
static uint64_t address(const struct sp_module *mod, unsigned i)
{
	uint64_t size = mod->segment[0].end - mod->segment[0].start;

	return mod->segment[0].start + (uint64_t)i * 2654435761U % size;
}

int main(int argc, char **argv)
{
	struct sp_symbolizer_options options = sp_symbolizer_options_default;
	struct sp_modules *modules = sp_modules_new("/proc/self", -1);
	const struct sp_module *mod;
	uint64_t took[ROUNDS], first;
	struct sp_symbolizer *s;
	struct sp_frame f;

	if (argc != 2 || modules == NULL)
		return 2;
	(void)image_load(modules, argv[1]);
	options.mode = SP_SYMBOLIZE_NAMES;
	s = sp_symbolizer_new(modules, &options);
	if (s == NULL)
		return 2;
	mod = sp_modules_find(modules, image_code(), 0);
	if (mod == NULL)
		return 2;
	first = cpu_ns();
	sp_symbolize(s, address(mod, 0), 0, &f);
	first = cpu_ns() - first;
	/* The first round also finds and demangles the names, as the first upload does. */
	for (unsigned round = 0; round <= ROUNDS; round++) {
		uint64_t begin = cpu_ns();

		for (unsigned i = 0; i < ADDRESSES; i++)
			sp_symbolize(s, address(mod, i), 0, &f);
		if (round != 0)
			took[round - 1] = (cpu_ns() - begin) / ADDRESSES;
	}
	qsort(took, ROUNDS, sizeof(took[0]), by_value);
	printf("%s: first name %.1f ms, then %" PRIu64 " ns a name\n", argv[1], (double)first / 1e6,
	       took[ROUNDS / 2]);
	sp_symbolizer_free(s);
	sp_modules_free(modules);
	return 0;
}
