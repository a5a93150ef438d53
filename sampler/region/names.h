/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of spans, interned. A sample can then carry a small id instead of a text of any length.
 * Ids start at 1 and stay valid, with their text, until the process ends. APP context, lock-free,
 * in memory that is given once, at activation. The exporter reads it with sp_names_read(), which
 * trusts nothing there.
 */
#ifndef SP_NAMES_H
#define SP_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define SP_NAMES_MAX_BYTES 2048U
#define SP_NAMES_MAX 100000U /* a larger max_names counts as this */

/* How much memory a table for up to max_names names takes; little of it is touched. */
size_t sp_names_bytes(uint32_t max_names);

/*
 * Makes the table in memory that is all zero, aligned to 8 and at least sp_names_bytes(). One thread. 0,
 * -EINVAL for too little memory, -EEXIST if there is a table, -ENOMEM.
 */
int sp_names_init_at(void *memory, size_t bytes, uint32_t max_names);

/*
 * Forked child, its only thread: moves the names to other memory of at least that size; ids stay
 * the same. The old memory may be unmapped then. 0, also without a table, or -EINVAL if it is too
 * small.
 */
int sp_names_move(void *memory, size_t bytes);

/*
 * APP, one thread at a time, while others intern: the same. The old memory has to stay mapped, and
 * new names that are interned while this runs may become "(other)" once. 0, also without a table,
 * -EINVAL if it is too small, or -ENOMEM.
 */
int sp_names_move_live(void *memory, size_t bytes);

/*
 * The id of a name. The text is cut at SP_NAMES_MAX_BYTES on a UTF-8 boundary and invalid UTF-8
 * becomes U+FFFD before it is stored. Past the limit every new name becomes "(other)" and is
 * counted. An empty name is "(unnamed)". Returns 0 only when the table could not be reserved.
 */
uint32_t sp_names_intern(const char *name, size_t len);

/*
 * Any process that has mapped that memory. Copies the text of an id to out, as valid UTF-8 without
 * a NUL, at most cap bytes of it, whatever the table contains and whoever changes it meanwhile.
 * Returns its length; 0 for an unknown id.
 */
size_t sp_names_read(const void *memory, uint64_t bytes, uint32_t id, char *out, size_t cap);

/* The calling thread forgets where the texts that it used last are, because their memory goes. */
void sp_names_forget_recent(void);

/* The text of an id (not NUL-terminated by contract, though it is); "" for an unknown id. */
const char *sp_names_text(uint32_t id, size_t *len);

#endif
