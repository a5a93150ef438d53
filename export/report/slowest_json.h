/* SPDX-License-Identifier: Apache-2.0 */
/* What profiles know of a request, as JSON. */
#ifndef SP_REPORT_SLOWEST_JSON_H
#define SP_REPORT_SLOWEST_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "export/report/slowest.h"

/* null for SP_ROOT_VALUE_UNKNOWN. The caller owns it. */
json_t *sp_json_number(uint64_t n);
/* null for "". The caller owns it. */
json_t *sp_json_text(const char *text);

/*
 * Prints the separator and the value, and frees the value. 0, or -1 if the value is NULL or cannot
 * be written. A long list is printed value by value, because all of it would take much memory.
 */
int sp_json_print(FILE *out, const char *separator, json_t *value);

/*
 * The times, waits and bytes of a request: an object, which the caller owns; NULL without memory.
 */
json_t *sp_slowest_json_profile(const struct sp_slowest *x, const struct sp_slowest_request *q);

#endif
