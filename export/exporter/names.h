/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of spans by their ids, copied out of the region when they are first asked for: what is handed
 * out must not change any more, as a profile is encoded from it.
 */
#ifndef SP_NAMES_H
#define SP_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct sp_names;

/* memory is the host's table (label.h), of that many bytes. NULL = out of memory. */
struct sp_names *sp_names_new(const void *memory, uint64_t bytes);
void sp_names_free(struct sp_names *n);

/*
 * Valid until sp_names_free(). "" for an id that the table does not know, "(other)" for one too many or
 * out of memory.
 */
const char *sp_names_text(struct sp_names *n, uint32_t id, size_t *len);

#endif
