/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the stories talk: each call to the library prints what it returned, errno after it and the
 * tracer's error message; each piece of work prints the CPU time it used and for which span.
 *
 *   call <name> <result> errno <n> error <text>
 *   span <name> <local root's name>         a span that will be exported
 *   cpu <name> <root's name> <nanoseconds>  work while that span is active; "-" for none
 */
#ifndef TEST_HAPROXY_TELL_H
#define TEST_HAPROXY_TELL_H

#include "test/common/story.h"
#include "test/haproxy/wrapper.h"

/* The tracer of all that follows; set before a story. */
extern struct otelc_tracer *tell_tracer;

/* NULL if there is none to be had. */
struct otelc_tracer *tell_create(void);
/* In the way of this release. */
void tell_deinit(struct otelc_tracer *tracer);
/* After any call; before is for those that tell nothing themselves. */
void tell_before(void);
void tell_after(const char *call, long result);

/* A new span; root NULL means that it will not be exported. */
struct otelc_span *tell_start(const char *name, const char *root);
struct otelc_span *tell_child(const char *name, const char *root, const struct otelc_span *parent);
struct otelc_span *tell_from(const char *name, const char *root,
			     const struct otelc_span_context *context);
void tell_rename(const struct otelc_span *span, const char *name, const char *root);
void tell_end(struct otelc_span *span);
void tell_end_with_options(struct otelc_span *span);
void tell_destroy(struct otelc_span *span);

/* A context with these ids, as a request brings it. */
struct otelc_span_context *tell_extract(const struct otelc_carrier *carrier);

#endif
