/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads wait in and for, as frames: interned, as valid UTF-8, and bounded for the life of the process,
 * because they may tell of files and addresses.
 */
#ifndef SP_WAIT_NAMES_H
#define SP_WAIT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Different names; more of them are "(other)". */
#define SP_WAIT_NAMES_MAX 1024U
#define SP_WAIT_NAME_BYTES 256U

struct sp_wait_names;

/* NULL when out of memory. */
struct sp_wait_names *sp_wait_names_new(void);
void sp_wait_names_free(struct sp_wait_names *n);

/* The id of a name, which may be any bytes; never 0, which stands for none. */
uint32_t sp_wait_names_put(struct sp_wait_names *n, const char *raw);

const char *sp_wait_names_text(const struct sp_wait_names *n, uint32_t id);

#endif
