/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracing part of dorsal-lab's opentelemetry-c 1.0 C interface, declared here so that test programs and the demo
 * need only this header and libopentelemetry-c.so.1. Names, argument order and enum values are the library's, so a
 * program that is built with this header also runs with the real library. Callers: test hosts and test/rideshare.
 */
#ifndef OPENTELEMETRY_C_H
#define OPENTELEMETRY_C_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
	OTELC_SPAN_KIND_INTERNAL,
	OTELC_SPAN_KIND_SERVER,
	OTELC_SPAN_KIND_CLIENT,
	OTELC_SPAN_KIND_PRODUCER,
	OTELC_SPAN_KIND_CONSUMER
} otelc_span_kind_t;

typedef enum {
	OTELC_SPAN_STATUS_CODE_UNSET,
	OTELC_SPAN_STATUS_CODE_OK,
	OTELC_SPAN_STATUS_CODE_ERROR
} otelc_span_status_code_t;

/*
 * Installs the global tracer provider and the W3C propagator. NULL or "" leaves an attribute to OTEL_SERVICE_NAME and
 * OTEL_RESOURCE_ATTRIBUTES. README.md says where the spans go.
 */
void otelc_init_tracer_provider(const char *service_name, const char *service_version,
				const char *service_namespace, const char *service_instance_id);

/*
 * Exports queued spans and uninstalls the provider. Not part of the original interface, whose programs rely on the
 * end of the process, which works here too.
 */
void otelc_destroy_tracer_provider(void);

void *otelc_get_tracer(void);
void otelc_destroy_tracer(void *tracer);

/* A map keeps the pointer given to otelc_set_str_attr: it must live until the map was used. */
void *otelc_create_attr_map(void);
void otelc_set_bool_attr(void *attr_map, const char *key, int boolean_value);
void otelc_set_int32_t_attr(void *attr_map, const char *key, int32_t value);
void otelc_set_int64_t_attr(void *attr_map, const char *key, int64_t value);
void otelc_set_uint64_t_attr(void *attr_map, const char *key, uint64_t value);
void otelc_set_double_attr(void *attr_map, const char *key, double value);
void otelc_set_str_attr(void *attr_map, const char *key, const char *value);
void otelc_destroy_attr_map(void *attr_map);

/*
 * Starts a span and makes it current on the calling thread until it ends. Its parent is the span in remote_context,
 * unless that is NULL, "" or unreadable; then it is the thread's current span.
 */
void *otelc_start_span(void *tracer, const char *span_name, otelc_span_kind_t span_kind,
		       const char *remote_context);

/*
 * The span's context as "N <key length> <key> <value length> <value> ...", for instance
 * "1 11 traceparent 55 00-...". The caller frees it with free().
 */
char *otelc_extract_context_from_current_span(void *span);

void otelc_set_span_status(void *span, otelc_span_status_code_t code, const char *description);
void otelc_set_span_attrs(void *span, void *attr_map);
void otelc_add_span_event(void *span, const char *event_name, void *attr_map);

/* Ends the span and frees the handle. Call it on the thread that started the span. */
void otelc_end_span(void *span);

#ifdef __cplusplus
}
#endif

#endif
