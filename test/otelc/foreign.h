/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a library that is not the SDK; see foreign.c. */
#ifndef TEST_OTELC_FOREIGN_H
#define TEST_OTELC_FOREIGN_H

#include <stdint.h>

void *otel_tracer_start_span(const char *name);
int64_t otel_span_end(int16_t a, const char *b, int64_t c, uint8_t d, const char *e, int64_t f);
int otel_context_attach(int small);
int otel_context_scope_detach(int small);

#endif
