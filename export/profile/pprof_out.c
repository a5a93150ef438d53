/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a profile part by part: packed protobuf messages of one type, one after the other, are one
 * message. So a sample is packed once, when it comes, and needs no memory except its bytes.
 * Context: the exporter.
 */
#include "export/profile/pprof_out.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "export/util/containers.h"

#define SP_VARINT_MAX 10U   /* bytes of the longest number */
#define SP_SAMPLE_TAG 0x12U /* field 2, with a length */

size_t sp_pprof_out_framed(size_t n)
{
	size_t digits = 1;

	for (size_t v = n; v >= 128; v >>= 7)
		digits++;
	return 1 + digits + n;
}

/* Makes room for n more bytes. */
static bool reserve(struct sp_pprof_out *out, size_t n)
{
	return SP_GROW(out->data, out->cap, out->len + n, SIZE_MAX);
}

int sp_pprof_out_part(struct sp_pprof_out *out, const Spanprof__Pprof__Profile *part)
{
	if (!reserve(out, spanprof__pprof__profile__get_packed_size(part)))
		return -ENOMEM;
	out->len += spanprof__pprof__profile__pack(part, out->data + out->len);
	return 0;
}

/*
 * The length comes before the sample and is known only after it, so room for two digits is left.
 * Two digits are right for 128 bytes to 16 KiB.
 */
int sp_pprof_out_sample(struct sp_pprof_out *out, const Spanprof__Pprof__Sample *sample)
{
	/* Every number at its longest: locations, values, three tags and lengths, and of each label
	 * key and text with their tags, its own tag and its length. */
	size_t most = sample->n_location_id + sample->n_value + 6 + sample->n_label * 6;
	size_t len, digits;
	uint8_t *at;

	if (!reserve(out, most * SP_VARINT_MAX))
		return -ENOMEM;
	at = out->data + out->len;
	len = spanprof__pprof__sample__pack(sample, at + 3);
	digits = sp_pprof_out_framed(len) - len - 1;
	if (digits != 2)
		memmove(at + 1 + digits, at + 3, len);
	*at++ = SP_SAMPLE_TAG;
	for (size_t v = len; digits-- != 0; v >>= 7)
		*at++ = (uint8_t)((v & 127) | (digits != 0 ? 128 : 0));
	out->len += sp_pprof_out_framed(len);
	return 0;
}
