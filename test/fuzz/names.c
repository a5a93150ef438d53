/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the names of functions, which are whoever's the library is: demangled or not, what reaches a
 * profile is UTF-8, bounded, and not empty unless the symbol is.
 */
#include <sanitizer/lsan_interface.h>
#include <stdint.h>

#include "export/symbols/symbolize.h"
#include "sampler/base/text.h"
#include "test/fuzz/fuzz.h"

#define CAP 61U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *symbol = fuzz_text(&data, &size);
	char out[SP_FUNCTION_NAME_MAX + 1];
	char *small = malloc(CAP);
	size_t n;

	/* demangle.c says when the demangler's memory is lost. */
	__lsan_disable();
	n = sp_demangle(symbol, out);
	__lsan_enable();
	FUZZ_CHECK(small != NULL);
	FUZZ_CHECK(n <= SP_FUNCTION_NAME_MAX && out[n] == '\0');
	FUZZ_CHECK(sp_text_valid(out, n));
	FUZZ_CHECK((n == 0) == (symbol[0] == '\0'));
	/* And cut anywhere. */
	n = sp_text_clean(small, CAP, symbol, strlen(symbol));
	FUZZ_CHECK(n <= CAP && sp_text_valid(small, n));
	free(small);
	free(symbol);
	return 0;
}
