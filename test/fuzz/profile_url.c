/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes URL templates: a link is within its bound and has only the template and percent-encoded values. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "preload/sdk/profile_url.h"
#include "test/fuzz/fuzz.h"

#define TEXTS 6U

/* Characters that a value must not put into a URL. */
static const char forbidden[] = " \"<>\\^`";

static bool harmless(const char *form)
{
	return strpbrk(form, forbidden) == NULL;
}

static void check(const struct sp_profile_url *l, const char *url, size_t len)
{
	FUZZ_CHECK(len < SP_PROFILE_URL_MAX);
	FUZZ_CHECK(len == 0 || strlen(url) == len);
	if (len == 0 || !harmless(l->form) || (l->base != NULL && !harmless(l->base)))
		return;
	FUZZ_CHECK(strpbrk(url, forbidden) == NULL);
	for (const char *s = url; *s != '\0'; s++)
		FUZZ_CHECK(((unsigned char)*s > ' ' && (unsigned char)*s < 0x7f) ||
			   strchr(l->form, *s) != NULL ||
			   (l->base != NULL && strchr(l->base, *s) != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t flags = size != 0 ? data[0] : 0;
	struct sp_profile_url l = {
		.kind = flags % 3, .name_is_label = (flags & 4) != 0, .from_ns = 1, .end_ns = 2};
	/* Exactly the promised size. */
	char *url = malloc(SP_PROFILE_URL_MAX);
	char *text[TEXTS];

	FUZZ_CHECK(url != NULL);
	data += size != 0;
	size -= size != 0;
	for (unsigned i = 0; i < TEXTS; i++)
		text[i] = fuzz_text(&data, &size);
	l.form = text[0];
	l.base = (flags & 8) != 0 ? text[1] : NULL;
	l.service = (flags & 16) != 0 ? text[2] : NULL;
	l.span_name = text[3];
	l.span_name_len = strlen(text[3]);
	l.baseline_labels = (flags & 32) != 0 ? text[4] : NULL;
	/* One flag for both, because there are no more flags. */
	l.datasource = (flags & 32) != 0 ? text[5] : NULL;
	l.profile_type = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
	l.until_ns = (flags & 64) != 0 ? UINT64_MAX : 3;
	l.start_ns = (flags & 128) != 0 ? UINT64_MAX : 0;
	(void)snprintf(l.span_id, sizeof(l.span_id), "0123456789abcdef");
	(void)snprintf(l.trace_id, sizeof(l.trace_id), "0123456789abcdef0123456789abcdef");
	check(&l, url, sp_profile_url_format(&l, url));
	free(url);
	for (unsigned i = 0; i < TEXTS; i++)
		free(text[i]);
	return 0;
}
