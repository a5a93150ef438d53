/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the stories talk: each call to the SDK prints what it returned, errno after it and the
 * thread's last error; each piece of work prints the CPU time it used and for which span.
 *
 *   call <name> <result> errno <n> error <text>
 *   span <name> <local root's name>         a span that will be exported
 *   cpu <name> <root's name> <nanoseconds>  work while that span is active; "-" for none
 */
#ifndef TEST_OTELC_TELL_H
#define TEST_OTELC_TELL_H

#include "test/common/story.h"
#include "test/otelc/otelc.h"

/* Set before a story begins. */
extern otel_tracer_t *tell_tracer;

otel_string_view_t tell_view(const char *text);

/* After any call that returns nothing or a pointer. */
void tell_result(const char *call, const char *result);
void tell_status(const char *call, otel_status_t status);

/* A new span; root NULL means that it will not be exported. */
otel_span_t *tell_start(const char *name, const char *root, const otel_span_t *parent);
otel_span_t *tell_start_from(const char *name, const char *root, const otel_span_context_t *parent);
otel_span_t *tell_start_ex(const char *name, const char *root,
			   const otel_span_start_options_ex_t *options);
/* A started span's final name: start it with root NULL. */
void tell_rename(otel_span_t *span, const char *name, const char *root);
void tell_end(otel_span_t *span);
void tell_destroy(otel_span_t *span);
/* Both. */
void tell_finish(otel_span_t *span);

/* A context with that span; NULL for one without any. */
otel_context_t *tell_context(const otel_span_t *span);
void tell_attach(const otel_context_t *context, otel_context_scope_t *scope);
void tell_detach(otel_context_scope_t *scope);

#endif
