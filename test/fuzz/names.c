/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the names of functions, which the author of a library chooses: demangled or not, a name in a profile is
 * UTF-8, bounded, and not empty unless the symbol is.
 */
#include <sanitizer/lsan_interface.h>
#include <stdint.h>

#include "export/symbols/demangle.h"
#include "sampler/base/text.h"
#include "test/fuzz/fuzz.h"

#define CAP 61U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *symbol = fuzz_text(&data, &size);
	char out[SP_FUNCTION_NAME_MAX + 1];
	char *small = malloc(CAP);
	size_t n;

	/* demangle.c says when the demangler leaks memory. */
	__lsan_disable();
	n = sp_demangle(symbol, out);
	__lsan_enable();
	FUZZ_CHECK(small != NULL);
	FUZZ_CHECK(n <= SP_FUNCTION_NAME_MAX && out[n] == '\0');
	FUZZ_CHECK(sp_text_valid(out, n));
	FUZZ_CHECK((n == 0) == (symbol[0] == '\0'));
	/* And cut at any length. */
	n = sp_text_clean(small, CAP, symbol, strlen(symbol));
	FUZZ_CHECK(n <= CAP && sp_text_valid(small, n));
	free(small);
	free(symbol);
	return 0;
}
