/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of threads as labels: interned, as valid UTF-8, and bounded for the life of the process,
 * because each is a series of its own at the server.
 */
#ifndef SP_THREAD_NAMES_H
#define SP_THREAD_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/thread_name.h"

/* Different names; more of them are "(other)". */
#define SP_THREAD_NAMES_MAX 256U

struct sp_thread_names;

/* NULL when out of memory. */
struct sp_thread_names *sp_thread_names_new(void);
void sp_thread_names_free(struct sp_thread_names *n);

/*
 * The id of a name as the kernel gives it: 0, which is "(unknown)", for an empty one. *over is set
 * when it became "(other)".
 */
uint32_t sp_thread_names_put(struct sp_thread_names *n, const char raw[SP_THREAD_NAME_BYTES],
			     bool *over);

/* The label of an id; never empty. */
const char *sp_thread_names_text(const struct sp_thread_names *n, uint32_t id, size_t *len);

#endif
