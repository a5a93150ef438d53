/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin with an SDK of its own inside, default-visible (test/hosts/lib/fixture_spans.c, which
 * writes the plugin's letter before each call). The functions ending in _jump call the SDK last of
 * all, so that the compiler makes that call a jump and the SDK's caller is the plugin's caller.
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
