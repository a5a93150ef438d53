/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks by liblzma, which only this file uses and libdw needs anyway. Memory is bounded on both
 * sides: that of the output, and the dictionary that the data asks for. Context: the exporter.
 */
#include "export/symbols/xz.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "export/util/grow.h"

#define SP_XZ_DICTIONARY_MAX ((uint64_t)32 << 20)

static int grow(lzma_stream *z, uint8_t **buf, size_t *cap, size_t max)
{
	size_t used = *cap - z->avail_out;

	if (*cap == max)
		return -EFBIG;
	if (!sp_grow(buf, cap, *cap + 1, max, 1))
		return -ENOMEM;
	z->next_out = *buf + used;
	z->avail_out = *cap - used;
	return 0;
}

static int unpack(lzma_stream *z, size_t max, uint8_t **buf, size_t *len)
{
	size_t cap = 0;

	for (;;) {
		lzma_ret ret;
		int err = z->avail_out == 0 ? grow(z, buf, &cap, max) : 0;

		if (err != 0)
			return err;
		ret = lzma_code(z, LZMA_FINISH);
		if (ret == LZMA_STREAM_END) {
			*len = cap - z->avail_out;
			return 0;
		}
		if (ret == LZMA_MEM_ERROR || ret == LZMA_MEMLIMIT_ERROR)
			return -ENOMEM;
		if (ret != LZMA_OK)
			return -EINVAL;
	}
}

int sp_xz_unpack(const void *packed, size_t packed_len, size_t max, uint8_t **out, size_t *len)
{
	lzma_stream z = LZMA_STREAM_INIT;
	uint8_t *buf = NULL;
	int err;

	*out = NULL;
	*len = 0;
	if (lzma_stream_decoder(&z, SP_XZ_DICTIONARY_MAX, 0) != LZMA_OK)
		return -ENOMEM;
	z.next_in = packed;
	z.avail_in = packed_len;
	err = unpack(&z, max, &buf, len);
	lzma_end(&z);
	if (err != 0) {
		free(buf);
		return err;
	}
	*out = buf;
	return 0;
}
