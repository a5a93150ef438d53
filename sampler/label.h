/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned span names. Ids are small, start at 1 and stay valid, with their text, until exit.
 * APP and BG contexts, lock-free; memory comes from one bounded mapping made at activation.
 */
#ifndef SP_LABEL_H
#define SP_LABEL_H

#include <stddef.h>
#include <stdint.h>

#define SP_LABEL_MAX_BYTES 2048U
#define SP_LABEL_MAX_NAMES 100000U /* a larger max_names counts as this */

/* Reserves the table for up to max_names names. Idempotent. 0 or -ENOMEM. */
int sp_label_init(uint32_t max_names);

/*
 * The id of a name. The text is cut at SP_LABEL_MAX_BYTES on a UTF-8 boundary and invalid UTF-8
 * becomes U+FFFD before it is stored. Past the limit every new name becomes "(other)" and is
 * counted. An empty name is "(unnamed)". Returns 0 only when the table could not be reserved.
 */
uint32_t sp_label_intern(const char *name, size_t len);

/* The text of an id (not NUL-terminated by contract, though it is); "" for an unknown id. */
const char *sp_label_text(uint32_t id, size_t *len);

#endif
