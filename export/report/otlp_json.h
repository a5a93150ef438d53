/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents and fields of spans in OTLP's JSON, which anybody may have written. Any value may be
 * NULL, or of another type.
 */
#ifndef SP_REPORT_OTLP_JSON_H
#define SP_REPORT_OTLP_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/report/load.h"

#define SP_OTLP_JSON_TOO_LARGE "it takes too much memory"

/* A document, with jansson's flags; NULL with a reason in why. too_large: that is the reason. */
json_t *sp_otlp_json_load(const char *text, size_t len, size_t flags, char why[SP_REPORT_ERROR],
			  bool *too_large);

/*
 * OTLP writes integers of 64 bits as texts, and readers have to take numbers as well. False: it is
 * no such number.
 */
bool sp_otlp_json_number(const json_t *value, uint64_t *n);

/*
 * The value of an attribute, as any of its kinds ("intValue") says it; NULL if there is none of
 * that name and kind.
 */
const json_t *sp_otlp_json_attribute(const json_t *attributes, const char *key, const char *kind);

/*
 * An id of that many hexadecimal digits, in lower case and NUL-terminated. False: it is no such id.
 */
bool sp_otlp_json_id(const json_t *value, char *id, size_t digits);

#endif
