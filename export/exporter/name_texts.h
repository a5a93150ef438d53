/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of spans by their ids, as the host has told them (sampler/region/names.h). Text and id belong
 * together for the life of the process: the first text of an id stays, whatever comes later.
 */
#ifndef SP_NAME_TEXTS_H
#define SP_NAME_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/region/ring.h"

struct sp_name_texts;

/* NULL = out of memory. */
struct sp_name_texts *sp_name_texts_new(void);
void sp_name_texts_free(struct sp_name_texts *n);

/* Takes what is in the ring. It may say anything: what is no name counts as damaged there. */
void sp_name_texts_drain(struct sp_name_texts *n, struct sp_ring *ring);

/* Valid UTF-8, valid until sp_name_texts_free(). NULL for an unknown id, also if it was one too many. */
const char *sp_name_texts_get(const struct sp_name_texts *n, uint32_t id, size_t *len);

#endif
