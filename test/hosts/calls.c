/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the SDK with ordinary and odd arguments and prints what comes back: which spans were
 * refused, and errno after each call. The stand-in SDK it is linked with records what arrived.
 */
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define REMOTE "1 11 traceparent 55 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static void *start(void *tracer, const char *name, int kind, const char *remote)
{
	void *span;

	errno = 4242;
	span = otelc_start_span(tracer, name, (otelc_span_kind_t)kind, remote);
	printf("start %s: %s, errno %d\n", name != NULL ? name : "(null)",
	       span != NULL ? "span" : "NULL", errno);
	return span;
}

static void end(void *span)
{
	errno = 4243;
	otelc_end_span(span);
	printf("end: errno %d\n", errno);
}

static void describe(void *span)
{
	void *map = otelc_create_attr_map();
	char *context = otelc_extract_context_from_current_span(span);

	otelc_set_str_attr(map, "key", "value");
	otelc_set_int32_t_attr(map, "number", -3);
	otelc_set_span_attrs(span, map);
	otelc_add_span_event(span, "event", map);
	otelc_set_span_status(span, OTELC_SPAN_STATUS_CODE_ERROR, "status");
	otelc_destroy_attr_map(map);
	printf("context %s\n", context);
	free(context);
}

int main(void)
{
	char long_name[301];
	void *tracer;
	void *outer;
	void *inner;

	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	otelc_init_tracer_provider("calls", NULL, "", "instance");
	tracer = otelc_get_tracer();
	outer = start(tracer, "outer", OTELC_SPAN_KIND_SERVER, REMOTE);
	inner = start(tracer, "inner", OTELC_SPAN_KIND_CONSUMER, NULL);
	describe(inner);
	end(outer);
	end(inner);
	end(start(NULL, "no tracer", 0, ""));
	end(start(tracer, NULL, 99, "nonsense"));
	end(start(tracer, "", -1, "1 11 traceparent 55 00-"));
	end(start(tracer, long_name, OTELC_SPAN_KIND_CLIENT, REMOTE));
	end(start(tracer, "(none)", OTELC_SPAN_KIND_CLIENT, NULL));
	end(NULL);
	return 3;
}
