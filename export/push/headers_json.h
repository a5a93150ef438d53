/* SPDX-License-Identifier: Apache-2.0 */
/* Extra HTTP headers, given as a JSON object of strings. */
#ifndef SP_HEADERS_JSON_H
#define SP_HEADERS_JSON_H

#include <stddef.h>

/*
 * Calls each once per header of the JSON object, with a header that is safe to send ("Name: value",
 * no control characters). Refused ones are counted in *refused. 0, or -EINVAL when the text is not
 * a JSON object. The text is a secret: nothing of it is logged.
 */
int sp_headers_parse(const char *json, void (*each)(void *arg, const char *header), void *arg,
		     unsigned *refused);

#endif
