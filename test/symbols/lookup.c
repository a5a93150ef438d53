/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolizes ELF addresses of one file, read from stdin in hex, as the exporter would if the file
 * were loaded. For each: the address, then "system name TAB file TAB line TAB name" per function,
 * innermost first. lookup [--names] [--off] [--root DIR] FILE. Context: test. Callers: the scripts
 * of this folder.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/symbolize.h"
#include "image.h"

static uint64_t *read_addresses(size_t *n)
{
	uint64_t *all = NULL;
	size_t cap = 0;
	char text[64];

	for (*n = 0; fgets(text, sizeof(text), stdin) != NULL; (*n)++) {
		if (*n == cap) {
			cap = cap * 2 + 1024;
			all = realloc(all, cap * sizeof(*all));
		}
		if (all == NULL)
			exit(2);
		all[*n] = strtoull(text, NULL, 16);
	}
	return all;
}

static void print_frame(uint64_t vaddr, const struct sp_frame *f)
{
	printf("0x%016" PRIx64 "\n", vaddr);
	for (unsigned i = 0; i < f->lines; i++)
		printf("%s\t%s\t%u\t%s\n", f->line[i].system_name, f->line[i].file, f->line[i].line,
		       f->line[i].name);
}

int main(int argc, char **argv)
{
	struct sp_symbolizer_options options = sp_symbolizer_options_default;
	static const struct option longs[] = {{"names", no_argument, NULL, 'n'},
					      {"off", no_argument, NULL, 'o'},
					      {"root", required_argument, NULL, 'r'},
					      {NULL, 0, NULL, 0}};
	struct sp_modules *modules = sp_modules_new("/proc/self", -1);
	struct sp_symbolizer *s;
	uint64_t *vaddr, bias;
	size_t n;
	int c;

	while ((c = getopt_long(argc, argv, "nor:", longs, NULL)) != -1) {
		if (c == 'n')
			options.mode = SP_SYMBOLIZE_NAMES;
		else if (c == 'o')
			options.mode = SP_SYMBOLIZE_OFF;
		else if (c == 'r')
			options.debug_root = optarg;
		else
			return 2;
	}
	if (optind + 1 != argc)
		return 2;
	if (modules == NULL)
		return 2;
	bias = image_load(modules, argv[optind]);
	vaddr = read_addresses(&n);
	s = sp_symbolizer_new(modules, &options);
	if (s == NULL)
		return 2;
	sp_symbolizer_begin(s);
	for (size_t i = 0; i < n; i++)
		sp_symbolizer_want(s, bias + vaddr[i], 0);
	while (sp_symbolizer_step(s, 1000000000))
		;
	sp_symbolizer_end(s);
	for (size_t i = 0; i < n; i++) {
		struct sp_frame f;

		sp_symbolize(s, bias + vaddr[i], 0, &f);
		print_frame(vaddr[i], &f);
	}
	sp_symbolizer_free(s);
	sp_modules_free(modules);
	free(vaddr);
	return 0;
}
