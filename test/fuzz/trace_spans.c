/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes files of spans, which any program or collector may have written (spanprof-report
 * --traces).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/trace_spans.h"
#include "test/fuzz/fuzz.h"

static void check(const struct sp_trace_spans *s)
{
	for (uint32_t i = 0; i < s->text.n; i++)
		for (const char *c = sp_trace_spans_text(s, i); *c != '\0'; c++) {
			FUZZ_CHECK((unsigned char)*c >= ' ' && *c != '\x7f');
			FUZZ_CHECK(*c != '\xc2' || (unsigned char)c[1] >= 0xa0);
		}
	for (size_t i = 0; i < s->n; i++) {
		const struct sp_trace_span *span = &s->span[i];

		FUZZ_CHECK(span->id != 0 && (span->trace.high | span->trace.low) != 0);
		FUZZ_CHECK(span->start_ns <= span->end_ns && span->end_ns <= INT64_MAX);
		FUZZ_CHECK(span->name < s->text.n && span->service < s->text.n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_bytes file = {malloc(size != 0 ? size : 1), size};
	struct sp_trace_spans s = {.n = 0};
	char why[SP_REPORT_ERROR] = "";
	size_t had = 0, twice = 0;

	FUZZ_CHECK(file.data != NULL);
	memcpy(file.data, data, size);
	/* The same file once more has the same spans, or nothing again. */
	for (unsigned i = 0; i < 2; i++) {
		int err = sp_trace_spans_read(&s, &file, why);

		FUZZ_CHECK(strchr(why, '\n') == NULL);
		FUZZ_CHECK(err == 0 || (why[0] != '\0' && s.n == 0));
		FUZZ_CHECK(i == 0 || (s.n == had && s.twice == 2 * twice + had));
		had = s.n;
		twice = s.twice;
		check(&s);
	}
	sp_trace_spans_fini(&s);
	free(file.data);
	return 0;
}
