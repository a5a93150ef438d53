/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes files of slow roots, which anybody may have put into a folder (spanprof-report --slowest). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/roots.h"
#include "test/fuzz/fuzz.h"

static void check(const struct sp_report_roots *s)
{
	for (uint32_t i = 0; i < s->text.n; i++)
		for (const char *c = sp_report_roots_text(s, i); *c != '\0'; c++) {
			FUZZ_CHECK((unsigned char)*c >= ' ' && *c != '\x7f');
			FUZZ_CHECK(*c != '\xc2' || (unsigned char)c[1] >= 0xa0);
		}
	for (size_t i = 0; i < s->n; i++) {
		const struct sp_report_root *root = &s->root[i];
		uint64_t id;

		FUZZ_CHECK(sp_report_id_read(root->span_id, &id) && id == root->id);
		FUZZ_CHECK(strlen(root->trace_id) == 32);
		FUZZ_CHECK(root->start_ns <= root->end_ns && root->end_ns <= INT64_MAX);
		FUZZ_CHECK(root->count <= INT64_MAX || root->count == SP_ROOT_VALUE_UNKNOWN);
		FUZZ_CHECK(root->name < s->text.n && root->service < s->text.n &&
			   root->process < s->text.n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_bytes file = {malloc(size != 0 ? size : 1), size};
	struct sp_report_roots s = {.n = 0};
	char why[SP_REPORT_ERROR] = "";
	size_t had = 0;

	FUZZ_CHECK(file.data != NULL);
	memcpy(file.data, data, size);
	/* The same file once more adds as much, or nothing again. */
	for (unsigned i = 0; i < 2; i++) {
		int err = sp_report_roots_read(&s, &file, why);

		FUZZ_CHECK((err != 0) == (why[0] != '\0') && strchr(why, '\n') == NULL);
		FUZZ_CHECK(err == 0 ? i == 0 || s.n == 2 * had : s.n == 0);
		had = s.n;
		check(&s);
	}
	sp_report_roots_fini(&s);
	free(file.data);
	return 0;
}
