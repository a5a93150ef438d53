/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that contains an SDK with default visibility (test/hosts/lib/fixture_spans.c, which writes the plugin's
 * letter before each call). In functions that end in _jump the call of the SDK comes last, so the compiler makes it a
 * jump and the SDK's caller is the plugin's caller.
 */
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define PUBLIC __attribute__((visibility("default")))

PUBLIC void *copy_start(const char *name);
PUBLIC void *copy_start_jump(const char *name);
PUBLIC void copy_end(void *span);
PUBLIC void copy_end_jump(void *span);

static volatile int calls;

PUBLIC void *copy_start(const char *name)
{
	void *span = otelc_start_span(otelc_get_tracer(), name, OTELC_SPAN_KIND_SERVER, NULL);

	calls++;
	return span;
}

PUBLIC void *copy_start_jump(const char *name)
{
	return otelc_start_span(otelc_get_tracer(), name, OTELC_SPAN_KIND_SERVER, NULL);
}

PUBLIC void copy_end(void *span)
{
	otelc_end_span(span);
	calls++;
}

PUBLIC void copy_end_jump(void *span)
{
	otelc_end_span(span);
}
