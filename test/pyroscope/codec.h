/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodings around a profile: UTF-8, hexadecimal ids, base64 (protobuf's JSON form of bytes), gzip
 * with a limit, and JSON strings from unchecked bytes.
 */
#ifndef PD_CODEC_H
#define PD_CODEC_H

#include <jansson.h>

#include "test/pyroscope/base.h"

bool pd_utf8_valid(struct pd_bytes b);

/* Decodes exactly 2 * len hexadecimal digits, in upper or lower case. */
bool pd_hex_decode(struct pd_bytes text, uint8_t *out, size_t len);

/* The standard or the URL-safe alphabet, padding optional. 0 or -EBADMSG. */
int pd_base64_decode(struct pd_bytes text, struct pd_text *out);

bool pd_gzip_is(struct pd_bytes b); /* has gzip's magic */

/* Unpacks all members, up to max bytes. 0, -EBADMSG, or -EFBIG if there is more than max. */
int pd_gunzip(struct pd_bytes in, size_t max, struct pd_text *out);

/*
 * Makes a JSON string (a new reference). Each invalid byte becomes U+FFFD, as in Go's
 * encoding/json.
 */
json_t *pd_json_bytes(struct pd_bytes b);

/* Writes compact JSON with sorted keys, so that scripts can search it for literal text. */
void pd_json_add(struct pd_text *out, const json_t *j);

#endif
