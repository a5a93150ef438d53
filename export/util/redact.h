/* SPDX-License-Identifier: Apache-2.0 */
/* Text without the secrets that addresses may hold. */
#ifndef SP_REDACT_H
#define SP_REDACT_H

#include <stddef.h>

/*
 * Removes the user information of each URL in the text, and what follows a "?" or "#". In place. A
 * URL ends at a blank; what looks like user information counts as such, even after a "/".
 */
void sp_redact(char *text);

/* The same for len bytes with room for one more; returns how many are left. NULs become blanks. */
size_t sp_redact_bytes(char *text, size_t len);

#endif
