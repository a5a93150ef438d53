/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link from a span to its profile. A template with {placeholders} or the name of a preset is
 * filled in, every value percent-encoded. APP context: no heap, bounded.
 */
#ifndef SP_LINK_H
#define SP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_LINK_MAX 2048U

struct sp_link {
	const char *form;    /* SPANPROF_PROFILE_URL: template or preset name */
	const char *base;    /* SPANPROF_PROFILE_BASE_URL, NULL = the preset's usual one */
	const char *service; /* may be NULL */
	const char *span_name;
	size_t span_name_len;
	char span_id[17];  /* 16 hex digits */
	char trace_id[33]; /* 32 hex digits */
	uint64_t from_ns;  /* CLOCK_REALTIME; already padded */
	uint64_t until_ns;
};

/*
 * Writes the URL, NUL-terminated, and returns its length; 0 when it would not fit in SP_LINK_MAX
 * (then the span gets no link rather than a broken one). Unknown placeholders are kept as written.
 */
size_t sp_link_format(const struct sp_link *l, char out[SP_LINK_MAX]);

/* Lower-case hex of n bytes, NUL-terminated. */
void sp_link_hex(const uint8_t *bytes, size_t n, char *out);

#endif
