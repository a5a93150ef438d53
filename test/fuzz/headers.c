/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes SPANPROF_HTTP_HEADERS, and OpenTelemetry's list of headers: each resulting header is one line with a name.
 */
#include <stdint.h>

#include "export/push/credentials.h"
#include "test/fuzz/fuzz.h"

static void check(void *arg, const char *header)
{
	(void)arg;
	FUZZ_CHECK(strpbrk(header, "\r\n") == NULL);
	FUZZ_CHECK(strcspn(header, ":;") != 0 && header[strcspn(header, ":;")] != '\0');
	FUZZ_CHECK(strcspn(header, " \t") > strcspn(header, ":;"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *json = fuzz_text(&data, &size);
	unsigned refused = 0;

	(void)sp_headers_parse(json, check, NULL, &refused);
	(void)sp_headers_parse_list(json, check, NULL, &refused);
	free(json);
	return 0;
}
