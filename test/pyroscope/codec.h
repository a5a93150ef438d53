/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small encodings around a profile: UTF-8, hexadecimal ids, base64 (protobuf's JSON form of
 * bytes), bounded gzip, and JSON strings made of bytes nobody has checked.
 */
#ifndef PD_CODEC_H
#define PD_CODEC_H

#include <jansson.h>

#include "test/pyroscope/base.h"

bool pd_utf8_valid(struct pd_bytes b);

/* Exactly 2 * len hexadecimal digits of any case. */
bool pd_hex_decode(struct pd_bytes text, uint8_t *out, size_t len);

/* The standard or the URL-safe alphabet, padding optional. 0 or -EBADMSG. */
int pd_base64_decode(struct pd_bytes text, struct pd_text *out);

bool pd_gzip_is(struct pd_bytes b); /* has gzip's magic */

/* All members; at most max bytes. 0, -EBADMSG, or -EFBIG when there is more than max. */
int pd_gunzip(struct pd_bytes in, size_t max, struct pd_text *out);

/* New reference. Each invalid byte becomes U+FFFD, as in Go's encoding/json. */
json_t *pd_json_bytes(struct pd_bytes b);

/* Compact, keys sorted, so that scripts can look for literal text. */
void pd_json_add(struct pd_text *out, const json_t *j);

#endif
