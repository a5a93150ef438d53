/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interns names that a host chooses: thread names, which become labels, and names of waits, which become frames. The
 * table stores them as valid UTF-8, and is bounded. Thread names are bounded for the life of the process, because
 * each makes a new series at the server. Names of waits contain files and addresses, so they are bounded within a
 * profile: a server with a thousand client addresses would otherwise soon have only "(other)".
 */
#ifndef SP_BOUNDED_NAMES_H
#define SP_BOUNDED_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "sampler/region/record.h"

/* Different names. Further thread names become "(other)", further names of waits "CALL (other)", and are counted. */
#define SP_THREAD_NAMES_MAX 256U
#define SP_WAIT_NAMES_MAX 1024U
/* A longer name is cut. */
#define SP_WAIT_NAME_BYTES 256U

struct sp_bounded_names;

/* NULL when out of memory. */
struct sp_bounded_names *sp_thread_names_new(const struct sp_core_ops *ops);
struct sp_bounded_names *sp_wait_names_new(const struct sp_core_ops *ops);
void sp_bounded_names_free(struct sp_bounded_names *n);

/* The id of a thread's name in the kernel's form. The id is 0, "(unknown)", for an empty name, and if n is NULL. */
uint32_t sp_thread_names_put(struct sp_bounded_names *n, const char raw[SP_THREAD_NAME_BYTES]);

/* The label for an id; never empty. */
const char *sp_thread_names_text(const struct sp_bounded_names *n, uint32_t id, size_t *len);

/* A new profile has begun: earlier ids are invalid. When out of memory nothing changes. */
void sp_wait_names_clear(struct sp_bounded_names *n);

/* The id of a name of a wait, which may have any bytes; never 0, which means no wait. */
uint32_t sp_wait_names_put(struct sp_bounded_names *n, const char *raw);

const char *sp_wait_names_text(const struct sp_bounded_names *n, uint32_t id);

#endif
