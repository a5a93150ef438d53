/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8, hex, base64, gzip and JSON text; see codec.h. Input is hostile by assumption: everything
 * is bounded by the caller's limit.
 */
#define ZLIB_CONST
#include "test/pyroscope/codec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/*
 * Length of the valid character at the beginning of b; 0 = it is invalid. By table 3-7 of the
 * Unicode standard.
 */
static size_t utf8_char(struct pd_bytes b)
{
	uint8_t c = b.at[0];
	uint8_t low = 0x80;
	uint8_t high = 0xbf;
	size_t n = 0;

	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		n = 2;
	else if (c >= 0xe0 && c <= 0xef)
		n = 3;
	else if (c >= 0xf0 && c <= 0xf4)
		n = 4;
	if (n == 0 || b.len < n)
		return 0;
	if (c == 0xe0)
		low = 0xa0;
	else if (c == 0xed)
		high = 0x9f;
	else if (c == 0xf0)
		low = 0x90;
	else if (c == 0xf4)
		high = 0x8f;
	if (b.at[1] < low || b.at[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((b.at[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

bool pd_utf8_valid(struct pd_bytes b)
{
	while (b.len > 0) {
		size_t n = utf8_char(b);

		if (n == 0)
			return false;
		b.at += n;
		b.len -= n;
	}
	return true;
}

static int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool pd_hex_decode(struct pd_bytes text, uint8_t *out, size_t len)
{
	if (text.len != 2 * len)
		return false;
	for (size_t i = 0; i < len; i++) {
		int high = hex_digit(text.at[2 * i]);
		int low = hex_digit(text.at[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static int base64_digit(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	if (c == '/' || c == '_')
		return 63;
	return -1;
}

int pd_base64_decode(struct pd_bytes text, struct pd_text *out)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (unsigned pad = 0; pad < 2 && text.len > 0 && text.at[text.len - 1] == '='; pad++)
		text.len--;
	if (text.len % 4 == 1)
		return -EBADMSG;
	for (size_t i = 0; i < text.len; i++) {
		int digit = base64_digit(text.at[i]);

		if (digit < 0)
			return -EBADMSG;
		bits = bits << 6 | (uint32_t)digit;
		have += 6;
		if (have >= 8) {
			uint8_t byte = (uint8_t)(bits >> (have - 8));

			pd_text_add(out, &byte, 1);
			have -= 8;
		}
	}
	return 0;
}

bool pd_gzip_is(struct pd_bytes b)
{
	return b.len >= 3 && b.at[0] == 0x1f && b.at[1] == 0x8b && b.at[2] == 8;
}

/* Unpacks one buffer. Z_OK: call it again. */
static int inflate_some(z_stream *z, size_t max, struct pd_text *out)
{
	uint8_t buffer[16384];
	int rc = Z_OK;

	z->next_out = buffer;
	z->avail_out = sizeof(buffer);
	rc = inflate(z, Z_NO_FLUSH);
	if (rc != Z_OK && rc != Z_STREAM_END)
		return Z_DATA_ERROR;
	pd_text_add(out, buffer, sizeof(buffer) - z->avail_out);
	if (out->len > max)
		return Z_BUF_ERROR;
	return rc;
}

int pd_gunzip(struct pd_bytes in, size_t max, struct pd_text *out)
{
	z_stream z = {0};
	int rc = Z_OK;

	if (in.len > UINT_MAX)
		return -EFBIG;
	/* 16 = only gzip's format, because the header does not promise zlib's. */
	if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
		return -ENOMEM;
	z.next_in = in.at;
	z.avail_in = (unsigned)in.len;
	for (;;) {
		rc = inflate_some(&z, max, out);
		if (rc == Z_STREAM_END && z.avail_in > 0)
			rc = inflateReset(&z);
		if (rc != Z_OK)
			break;
	}
	inflateEnd(&z);
	if (rc == Z_BUF_ERROR)
		return -EFBIG;
	return rc == Z_STREAM_END ? 0 : -EBADMSG;
}

json_t *pd_json_bytes(struct pd_bytes b)
{
	struct pd_text t = {0};
	json_t *j = NULL;

	pd_text_adds(&t, "");
	while (b.len > 0) {
		size_t n = utf8_char(b);

		if (n > 0)
			pd_text_add(&t, b.at, n);
		else
			pd_text_adds(&t, "\xef\xbf\xbd");
		b.at += n > 0 ? n : 1;
		b.len -= n > 0 ? n : 1;
	}
	j = json_stringn(t.at, t.len);
	pd_text_fini(&t);
	return j;
}

void pd_json_add(struct pd_text *out, const json_t *j)
{
	char *s = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

	if (s == NULL)
		abort();
	pd_text_adds(out, s);
	free(s);
}
