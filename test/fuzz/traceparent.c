/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the traceparent header, in which contexts come from other processes: what is accepted is
 * what its bytes say. */
#include <stdint.h>
#include <stdio.h>

#include "preload/sdk/traceparent.h"
#include "test/fuzz/fuzz.h"

static void put_hex(char *out, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)sprintf(out + 2 * i, "%02x", bytes[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(&data, &size);
	struct sp_traceparent t;

	if (sp_traceparent_parse(text, &t)) {
		char trace[33];
		char span[17];
		char again[64];

		put_hex(trace, t.trace_id, sizeof(t.trace_id));
		put_hex(span, t.span_id, sizeof(t.span_id));
		(void)sprintf(again, "00-%s-%s-", trace, span);
		FUZZ_CHECK(strncmp(text, again, strlen(again)) == 0);
		FUZZ_CHECK(strspn(text + 53, "0123456789abcdef") >= 2);
		FUZZ_CHECK(t.sampled == (strchr("13579bdf", text[54]) != NULL));
		FUZZ_CHECK(strspn(trace, "0") < 32 && strspn(span, "0") < 16);
	}
	free(text);
	return 0;
}
