/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the attributes that we would set the program has set itself, of open spans. Hardly any
 * span has one, so this is kept beside the table. APP context, any number of threads, no locks.
 */
#ifndef SP_SPAN_KEYS_H
#define SP_SPAN_KEYS_H

#include <stdint.h>

#include "sampler/span_table.h"

/* The program has set these, one bit each, of which the caller knows the meaning. */
void sp_span_keys_add(const struct sp_span_record *r, uint8_t keys);

/* All that were added for this span. */
uint8_t sp_span_keys(const struct sp_span_record *r);

#endif
