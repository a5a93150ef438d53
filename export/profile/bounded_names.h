/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that a host chooses: of its threads, which become labels, and of what they wait in and for, which become
 * frames. They are interned, as valid UTF-8, and bounded: those of threads for the life of the process, because each is
 * a series of its own at the server, and the others, which tell of files and addresses, within a profile. A server that
 * is called from a thousand addresses would have no others any more.
 */
#ifndef SP_BOUNDED_NAMES_H
#define SP_BOUNDED_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "sampler/region/record.h"

/* Different names; more of them are "(other)", or "CALL (other)" of what is waited for, and counted. */
#define SP_THREAD_NAMES_MAX 256U
#define SP_WAIT_NAMES_MAX 1024U
/* Longer ones are cut. */
#define SP_WAIT_NAME_BYTES 256U

struct sp_bounded_names;

/* NULL when out of memory. */
struct sp_bounded_names *sp_thread_names_new(const struct sp_core_ops *ops);
struct sp_bounded_names *sp_wait_names_new(const struct sp_core_ops *ops);
void sp_bounded_names_free(struct sp_bounded_names *n);

/*
 * The id of a thread's name as the kernel gives it: 0, which is "(unknown)", for an empty one, and where n is NULL.
 */
uint32_t sp_thread_names_put(struct sp_bounded_names *n, const char raw[SP_THREAD_NAME_BYTES]);

/* The label of an id; never empty. */
const char *sp_thread_names_text(const struct sp_bounded_names *n, uint32_t id, size_t *len);

/* Another profile has begun: ids of before mean nothing any more. Without memory nothing changes. */
void sp_wait_names_clear(struct sp_bounded_names *n);

/* The id of what is waited in, which may be any bytes; never 0, which stands for no wait. */
uint32_t sp_wait_names_put(struct sp_bounded_names *n, const char *raw);

const char *sp_wait_names_text(const struct sp_bounded_names *n, uint32_t id);

#endif
