/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the attributes that we set on spans the program has set itself. The program's own values
 * must stay. Hardly any span has one, so this is kept outside of the span table. APP context, any
 * number of threads, no locks.
 */
#ifndef SP_SPAN_KEYS_H
#define SP_SPAN_KEYS_H

#include <stdint.h>

#include "sampler/open_spans/span_table.h"

/* The program has set these attributes: one bit each, whose meaning the caller knows. */
void sp_span_keys_add(const struct sp_span_record *r, uint8_t keys);

/* All that were added for this span. */
uint8_t sp_span_keys(const struct sp_span_record *r);

#endif
