/* SPDX-License-Identifier: Apache-2.0 */
/* Compression by zlib. Only this file uses zlib. Context: the exporter, and the report tool. */
#include "export/profile/gzip.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "export/util/containers.h"

#define SP_GZIP_WINDOW (15 + 16) /* largest window, gzip header */
#define SP_GZIP_LEVEL                                                                              \
	3 /* takes the first good match instead of looking for a better one after it */
/*
 * Differs from zlib's level 3 in three ways: every byte of a match may begin another match, the search goes on until
 * the longest possible match, and only few candidates are tried. Stacks share long runs of frames that begin
 * anywhere, so profiles get 2 to 15 % smaller than with level 3, in less time; level 6 saves another 6 % and takes
 * 1.7 times as long.
 */
#define SP_GZIP_GOOD 8 /* unused at this level */
#define SP_GZIP_INSERT 258
#define SP_GZIP_NICE 258
#define SP_GZIP_CHAIN 8

/*
 * The parts of a file that sp_gzip_pack() has made: a header of fixed length, blocks that end at a byte, an empty
 * last block, and checksum and length of the content. So the blocks of several files can follow each other, and one
 * empty block ends them all.
 */
#define SP_GZIP_HEAD 10
#define SP_GZIP_LAST 2
#define SP_GZIP_TAIL 8
static const uint8_t last_block[SP_GZIP_LAST] = {3, 0};

int sp_gzip_pack(const struct sp_bytes *in, struct sp_bytes *out)
{
	z_stream z = {0};
	uLong bound;
	int rc;

	out->data = NULL;
	if (in->len > UINT_MAX / 2 || deflateInit2(&z, SP_GZIP_LEVEL, Z_DEFLATED, SP_GZIP_WINDOW, 8,
						   Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	(void)deflateTune(&z, SP_GZIP_GOOD, SP_GZIP_INSERT, SP_GZIP_NICE, SP_GZIP_CHAIN);
	/* 16 more bytes for the ends of the blocks before the last one. */
	bound = deflateBound(&z, in->len) + 16;
	out->data = malloc(bound);
	if (out->data != NULL) {
		z.next_in = in->data;
		z.avail_in = (uInt)in->len;
		z.next_out = out->data;
		z.avail_out = (uInt)bound;
		rc = deflate(&z, Z_SYNC_FLUSH);
		if (rc == Z_OK)
			rc = deflate(&z, Z_FINISH);
		out->len = z.total_out;
		if (rc != Z_STREAM_END) {
			free(out->data);
			out->data = NULL;
		}
	}
	deflateEnd(&z);
	return out->data != NULL ? 0 : -ENOMEM;
}

static uint32_t read_number(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void write_number(uint8_t *at, uint32_t number)
{
	for (unsigned i = 0; i < 4; i++)
		at[i] = (uint8_t)(number >> (8 * i));
}

int sp_gzip_join(const struct sp_bytes *const part[], size_t n, struct sp_bytes *out)
{
	const size_t frame = SP_GZIP_HEAD + SP_GZIP_LAST + SP_GZIP_TAIL;
	size_t bytes = frame;
	uint32_t sum = 0;
	uint32_t len = 0;
	uint8_t *at;

	out->data = NULL;
	out->len = 0;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *end = part[i]->data + part[i]->len;

		if (part[i]->len < frame || !sp_gzip_is(part[i]->data, part[i]->len) ||
		    part[i]->data[3] != 0 ||
		    memcmp(end - SP_GZIP_TAIL - SP_GZIP_LAST, last_block, SP_GZIP_LAST) != 0)
			return -EINVAL;
		bytes += part[i]->len - frame;
	}
	at = malloc(bytes);
	if (at == NULL || n == 0) {
		free(at);
		return n == 0 ? -EINVAL : -ENOMEM;
	}
	out->data = at;
	out->len = bytes;
	memcpy(at, part[0]->data, SP_GZIP_HEAD);
	at += SP_GZIP_HEAD;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *tail = part[i]->data + part[i]->len - SP_GZIP_TAIL;
		uint32_t plain = read_number(tail + 4);

		memcpy(at, part[i]->data + SP_GZIP_HEAD, part[i]->len - frame);
		at += part[i]->len - frame;
		sum = (uint32_t)crc32_combine(sum, read_number(tail), plain);
		len += plain;
	}
	memcpy(at, last_block, SP_GZIP_LAST);
	write_number(at + SP_GZIP_LAST, sum);
	write_number(at + SP_GZIP_LAST + 4, len);
	return 0;
}

bool sp_gzip_is(const uint8_t *data, size_t len)
{
	return len >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

/* Makes room for more output, up to max bytes. */
static int more_room(struct sp_bytes *out, size_t *cap, size_t max)
{
	if (*cap >= max)
		return -E2BIG;
	return sp_grow(&out->data, cap, *cap + 1, max, 1) ? 0 : -ENOMEM;
}

/* Whether another member follows: 0 yes, Z_STREAM_END no, or a negative errno. */
static int next_member(z_stream *z)
{
	if (z->avail_in == 0)
		return Z_STREAM_END;
	if (!sp_gzip_is(z->next_in, z->avail_in))
		return -EBADMSG;
	return inflateReset(z) == Z_OK ? 0 : -EINVAL;
}

static int unpack(z_stream *z, size_t max, struct sp_bytes *out)
{
	size_t cap = 0;
	int err = 0;

	while (err == 0) {
		int rc;

		if (out->len == cap) {
			/* Room for one byte more than allowed shows whether the content is too long. */
			err = more_room(out, &cap, max + 1);
			continue;
		}
		z->next_out = out->data + out->len;
		z->avail_out = (uInt)(cap - out->len);
		rc = inflate(z, Z_NO_FLUSH);
		out->len = cap - z->avail_out;
		if (rc == Z_STREAM_END)
			err = next_member(z);
		else if (rc != Z_OK)
			err = rc == Z_MEM_ERROR ? -ENOMEM : -EINVAL;
	}
	if (err < 0)
		return err;
	return out->len <= max ? 0 : -E2BIG;
}

int sp_gzip_unpack(const uint8_t *data, size_t len, size_t max, struct sp_bytes *out)
{
	z_stream z = {0};
	int err;

	out->data = NULL;
	out->len = 0;
	if (len > UINT_MAX / 2 || max > UINT_MAX / 2)
		return -E2BIG;
	if (inflateInit2(&z, SP_GZIP_WINDOW) != Z_OK)
		return -ENOMEM;
	/* zlib does not write to the input, though its type says so. */
	memcpy(&z.next_in, &data, sizeof(data));
	z.avail_in = (uInt)len;
	err = unpack(&z, max, out);
	inflateEnd(&z);
	if (err != 0) {
		free(out->data);
		out->data = NULL;
	}
	return err;
}
