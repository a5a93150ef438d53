/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes spanprof-report with a file, packed or not: sums, comparison, every view. */
#include <stdint.h>
#include <stdio.h>

#include "export/profile/cut.h"
#include "export/profile/gzip.h"
#include "export/report/load.h"
#include "export/report/page.h"
#include "export/report/print.h"
#include "test/fuzz/fuzz.h"

#define PLAIN_MAX ((size_t)1 << 20)
/* Small enough to be reached. */
#define MEMORY_MAX ((size_t)256 << 10)

struct report {
	struct sp_selection selection;
	struct sp_tally tally;
	struct sp_tree tree;
	unsigned samples;
};

static void add(void *arg, const struct sp_report_sample *s)
{
	struct report *r = arg;
	/* As if every other sample belonged to the baseline. */
	enum sp_side side = r->samples++ % 2 == 0 ? SP_SIDE_SELECTED : SP_SIDE_BASELINE;

	sp_selection_learn(&r->selection, s);
	FUZZ_CHECK(sp_selection_side(&r->selection, s) == SP_SIDE_SELECTED);
	sp_tally_add(&r->tally, s, side);
	sp_tree_add(&r->tree, s, side);
}

static void print(struct report *r)
{
	static const struct sp_flame_head head = {"t",          "s",   "h",  "CPU",
						  "http.route", false, true, true};
	const struct sp_print p = {.files = 1,
				   .width = 80,
				   .top = 20,
				   .coloured = true,
				   .lines = true,
				   .threads = true,
				   .time = "CPU"};
	FILE *out = fopen("/dev/null", "we");

	FUZZ_CHECK(out != NULL);
	sp_tally_sort(&r->tally);
	FUZZ_CHECK(sp_tree_sort(&r->tree) == 0);
	sp_report_print_table(out, &r->tally, &p);
	FUZZ_CHECK(sp_report_print_json(out, &r->tally, &p) == 0);
	sp_report_print_folded(out, &r->tree, true);
	sp_flame_print(out, &r->tree, &head);
	(void)fclose(out);
}

static void report(const struct sp_bytes *profile)
{
	struct report r = {.samples = 0};
	const struct sp_report_sink sink = {.sample = add, .arg = &r};
	char why[SP_REPORT_ERROR] = "";

	FUZZ_CHECK(sp_tally_init(&r.tally) == 0 && sp_tree_init(&r.tree) == 0);
	r.tally.lines = r.tree.lines = true;
	r.tally.diff = r.tree.by_span = true;
	if (sp_report_load(profile, MEMORY_MAX, &sink, why) == 0)
		print(&r);
	else
		FUZZ_CHECK(why[0] != '\0' && strchr(why, '\n') == NULL);
	sp_tally_fini(&r.tally);
	sp_tree_fini(&r.tree);
	sp_selection_fini(&r.selection);
}

/* A part of what could be cut can be cut again. */
static void cut(const struct sp_bytes *profile)
{
	struct sp_bytes part, again;

	if (sp_cut(profile, 1, 3, &part) != 0)
		return;
	FUZZ_CHECK(sp_cut(&part, 0, 2, &again) == 0 && again.len == part.len);
	free(part.data);
	free(again.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_bytes plain = {NULL, size};

	if (sp_gzip_is(data, size)) {
		if (sp_gzip_unpack(data, size, PLAIN_MAX, &plain) != 0)
			return 0;
	} else {
		plain.data = malloc(size != 0 ? size : 1);
		FUZZ_CHECK(plain.data != NULL);
		memcpy(plain.data, data, size);
	}
	report(&plain);
	cut(&plain);
	free(plain.data);
	return 0;
}
