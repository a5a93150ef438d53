/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CPU time of a thread is labelled with: its active span or the local root of that, as the
 * configuration says. Written for the handler; any context.
 */
#ifndef SP_ACTIVE_SPAN_H
#define SP_ACTIVE_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/config.h"
#include "sampler/span_stack.h"

/* All 0 = nothing. */
struct sp_span_label {
	uint64_t span_id;
	uint8_t trace_id[16];
	uint32_t name_id;
};

/* Written at activation before the first timer is armed. */
struct sp_active_span_scopes {
	enum sp_label_scope id;
	enum sp_label_scope name;
	bool trace_id;
};
extern struct sp_active_span_scopes sp_active_span_scopes;

/*
 * The stack's thread or its handler. What a sample taken now is labelled with; returns the table's
 * reference to the span whose id that is, 0 = no id, or unknown there.
 */
SP_SIGSAFE uint32_t sp_active_span_label(const struct sp_span_stack *s, struct sp_span_label *out);

/* Any context. The same for a span that is known. */
SP_SIGSAFE uint32_t sp_active_span_label_of(const struct sp_span_entry *e,
					    struct sp_span_label *out);

#endif
