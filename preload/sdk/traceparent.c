/* SPDX-License-Identifier: Apache-2.0 */
/* Parses traceparent (https://www.w3.org/TR/trace-context/, version 00). Any context. */
#include "preload/sdk/traceparent.h"

#include <stddef.h>

#include "sampler/base/text.h"

/* The header has digits of lower case alone. */
static int nibble(char c)
{
	return c >= 'A' && c <= 'F' ? -1 : sp_text_digit(c);
}

/* n bytes of lower-case hex; false on anything else, or when all are zero. */
static bool read_id(const char *text, uint8_t *out, size_t n)
{
	unsigned any = 0;

	for (size_t i = 0; i < n; i++) {
		int hi = nibble(text[2 * i]);
		int lo = hi < 0 ? -1 : nibble(text[2 * i + 1]);

		if (lo < 0)
			return false;
		out[i] = (uint8_t)(hi << 4 | lo);
		any |= out[i];
	}
	return any != 0;
}

bool sp_traceparent_parse(const char *text, struct sp_traceparent *out)
{
	int hi;
	int lo;

	if (text[0] != '0' || text[1] != '0' || text[2] != '-')
		return false;
	if (!read_id(text + 3, out->trace_id, sizeof(out->trace_id)) || text[35] != '-' ||
	    !read_id(text + 36, out->span_id, sizeof(out->span_id)) || text[52] != '-')
		return false;
	hi = nibble(text[53]);
	lo = hi < 0 ? -1 : nibble(text[54]);
	out->sampled = (lo & 1) != 0;
	return lo >= 0;
}
