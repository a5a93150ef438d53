/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libopentelemetry_c_api.so as the adapter for otap-labs/opentelemetry-c uses it: the copy whose spans
 * are labelled, and what is asked of it. APP context.
 */
#ifndef SP_ADAPTER_OTELC_H
#define SP_ADAPTER_OTELC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/elf/resolve.h"

/*
 * What a call of a hook goes on to, by the return address in its caller; NULL if no object defines it.
 * labelled says whether the call is of the copy whose spans are labelled. If not, it is only handed on.
 */
void *sp_otelc_next(enum sp_next which, const void *caller, bool *labelled);

/* That function of the copy whose spans are labelled; NULL if it has none. */
void *sp_otelc_fn(enum sp_next which);

/* Whether it is a function of that copy. */
bool sp_otelc_is_labelled(enum sp_next which, const void *function);

/* Inside the reentrancy guard, in a call of the copy whose spans are labelled: */

struct sp_otelc_ids {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t flags;
};

/* A thread's last error; longer texts are cut. */
struct sp_otelc_error {
	char text[256];
	size_t len;
	bool is_set;
};

/* False, without a last error, for spans that do nothing: no SDK installed, or one shut down. */
bool sp_otelc_span_ids(const void *span, struct sp_otelc_ids *out);

/* The id of the span of an attached or attachable context; false if it has none. */
bool sp_otelc_context_span(const void *context, uint8_t id[8]);

/* The id of the calling thread's current span; untouched if it has none. */
void sp_otelc_ambient_span(uint8_t id[8]);

void sp_otelc_error_save(struct sp_otelc_error *error);
void sp_otelc_error_restore(const struct sp_otelc_error *error);

#endif
