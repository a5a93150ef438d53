/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of spans by their ids, copied out of the region when they are first used. The region
 * may change at any time, and a text must not change while a profile is encoded from it.
 */
#ifndef SP_NAME_TEXTS_H
#define SP_NAME_TEXTS_H

#include <stddef.h>
#include <stdint.h>

struct sp_name_texts;

/* memory is the host's table (names.h), of that many bytes. NULL = out of memory. */
struct sp_name_texts *sp_name_texts_new(const void *memory, uint64_t bytes);
void sp_name_texts_free(struct sp_name_texts *n);

/*
 * Valid until sp_name_texts_free(). "" for an unknown id, "(other)" for one too many or without
 * memory.
 */
const char *sp_name_texts_get(struct sp_name_texts *n, uint32_t id, size_t *len);

#endif
