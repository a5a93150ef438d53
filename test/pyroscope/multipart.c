/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a form; see multipart.h. Called by ingest.c.
 */
#include "test/pyroscope/multipart.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* The value of key=... or key="..." in a header, empty when absent. */
static bool parameter(struct pd_bytes header, const char *key, struct pd_bytes *out)
{
	size_t key_len = strlen(key);

	for (size_t i = 0; i + key_len + 2 <= header.len; i++) {
		const uint8_t *at = header.at + i + 1;
		size_t left = header.len - i - 1;
		uint8_t end = ';';
		size_t len = 0;

		/* Preceded by a separator, or filename="x" would be found as name="x". */
		if ((header.at[i] != ';' && header.at[i] != ' ') || at[key_len] != '=' ||
		    strncasecmp((const char *)at, key, key_len) != 0)
			continue;
		at += key_len + 1;
		left -= key_len + 1;
		if (left > 0 && *at == '"') {
			end = '"';
			at++;
			left--;
		}
		while (len < left && at[len] != end)
			len++;
		*out = (struct pd_bytes){at, len};
		return true;
	}
	return false;
}

struct pd_bytes pd_multipart_boundary(const char *content_type)
{
	struct pd_bytes boundary = {0};

	if (strncasecmp(content_type, "multipart/form-data", 19) == 0)
		parameter(pd_bytes_of(content_type), "boundary", &boundary);
	return pd_bytes_trim(boundary);
}

/* Moves in past the text, or returns false. before = what was in front of it. */
static bool past(struct pd_bytes *in, const void *text, size_t len, struct pd_bytes *before)
{
	const uint8_t *found = len <= in->len ? memmem(in->at, in->len, text, len) : NULL;

	if (found == NULL)
		return false;
	*before = (struct pd_bytes){in->at, (size_t)(found - in->at)};
	in->len -= before->len + len;
	in->at = found + len;
	return true;
}

static int read_header(struct pd_bytes line, struct pd_part *part)
{
	static const char disposition[] = "Content-Disposition:";
	struct pd_bytes file = {0};

	if (line.len < sizeof(disposition) - 1 ||
	    strncasecmp((const char *)line.at, disposition, sizeof(disposition) - 1) != 0)
		return 0;
	if (!parameter(line, "name", &part->name))
		return -EBADMSG;
	part->is_file = parameter(line, "filename", &file) && file.len > 0;
	return 0;
}

int pd_multipart_next(struct pd_bytes *in, struct pd_bytes boundary, struct pd_part *part)
{
	struct pd_text end = {0};
	struct pd_bytes line = {0};
	int rc = -EBADMSG;

	*part = (struct pd_part){0};
	if (boundary.len == 0 || boundary.len > 70)
		return -EBADMSG;
	pd_text_adds(&end, "\r\n--");
	pd_text_add(&end, boundary.at, boundary.len);
	/* The first delimiter has no line before it, the others end the part before. */
	if (!past(in, end.at + 2, end.len - 2, &line))
		goto out;
	if (in->len >= 2 && memcmp(in->at, "--", 2) == 0) {
		rc = 0;
		goto out;
	}
	if (!past(in, "\r\n", 2, &line))
		goto out;
	while (past(in, "\r\n", 2, &line) && line.len > 0)
		if (read_header(line, part) != 0)
			goto out;
	if (past(in, end.at, end.len, &part->data)) {
		/* The next call finds the same delimiter again. */
		in->at -= end.len - 2;
		in->len += end.len - 2;
		rc = part->name.len > 0 ? 1 : -EBADMSG;
	}
out:
	pd_text_fini(&end);
	return rc;
}
