/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the binary interface of otap-labs/opentelemetry-c that this folder implements and its hosts use: names,
 * struct layouts and argument passing are the original's, the comments are ours.
 */
#ifndef TEST_OTELC_H
#define TEST_OTELC_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t otel_status_t;
enum {
	OTEL_OK,
	OTEL_INVALID_ARGUMENT,
	OTEL_INVALID_CONFIG = 3,
	OTEL_INTERNAL_ERROR = 7,
};

typedef struct otel_tracer_provider otel_tracer_provider_t;
typedef struct otel_tracer otel_tracer_t;
typedef struct otel_span otel_span_t;
typedef struct otel_span_context otel_span_context_t;
typedef struct otel_context otel_context_t;

typedef struct {
	const char *ptr;
	size_t len;
} otel_string_view_t;

enum { OTEL_STRING, OTEL_BOOL, OTEL_INT64, OTEL_DOUBLE };

typedef struct {
	otel_string_view_t key;
	uint32_t value_type;
	union {
		otel_string_view_t s;
		uint32_t b;
		int64_t i;
		double d;
	} value;
} otel_key_value_t;

typedef struct {
	uint32_t kind;
	const otel_span_t *parent;
} otel_span_start_options_t;

enum { OTEL_PARENT_EXPLICIT, OTEL_PARENT_AMBIENT, OTEL_PARENT_ROOT };

typedef struct {
	const otel_span_context_t *context;
	const otel_key_value_t *attributes;
	size_t attribute_count;
} otel_span_link_t;

typedef struct {
	size_t struct_size;
	uint32_t kind;
	uint32_t reserved;
	const otel_span_t *parent;
	const otel_span_context_t *parent_context;
	uint64_t start_time_unix_nanos;
	const otel_key_value_t *attributes;
	size_t attribute_count;
	const otel_span_link_t *links;
	size_t link_count;
	uint32_t parent_mode;
	uint32_t reserved2;
} otel_span_start_options_ex_t;

typedef struct {
	size_t struct_size;
	uint64_t thread_token;
	uint64_t generation;
	uint64_t reserved[2];
} otel_context_scope_t;

#define OTEL_SCOPE_INIT                                                                            \
	{                                                                                          \
		sizeof(otel_context_scope_t), 0, 0,                                                \
		{                                                                                  \
			0, 0                                                                       \
		}                                                                                  \
	}

_Static_assert(sizeof(otel_string_view_t) == 16, "otel_string_view_t");
_Static_assert(sizeof(otel_key_value_t) == 40, "otel_key_value_t");
_Static_assert(sizeof(otel_span_link_t) == 24, "otel_span_link_t");
_Static_assert(sizeof(otel_span_start_options_t) == 16, "otel_span_start_options_t");
_Static_assert(sizeof(otel_span_start_options_ex_t) == 80, "otel_span_start_options_ex_t");
_Static_assert(sizeof(otel_context_scope_t) == 40, "otel_context_scope_t");

otel_string_view_t otel_version_string(void);
otel_string_view_t otel_last_error_message(void);
otel_status_t otel_api_register_global_provider(const void *vtable, void *context);
void otel_api_set_last_error(const char *text, size_t len);
void otel_api_clear_last_error(void);

otel_tracer_provider_t *otel_global_tracer_provider(void);
otel_tracer_t *otel_tracer_provider_get_tracer(const otel_tracer_provider_t *provider,
					       otel_string_view_t name, otel_string_view_t version,
					       otel_string_view_t schema_url);
/* Of the other library, libopentelemetry_c_sdk.so; one object is enough here. */
otel_status_t otel_sdk_shutdown(void *sdk, uint64_t timeout_ms);

otel_span_t *otel_tracer_start_span(const otel_tracer_t *tracer, otel_string_view_t name,
				    const otel_span_start_options_t *options);
otel_span_t *otel_tracer_start_span_with_context(const otel_tracer_t *tracer,
						 otel_string_view_t name,
						 const otel_span_start_options_t *options,
						 const otel_span_context_t *parent);
otel_span_t *otel_tracer_start_span_ex(const otel_tracer_t *tracer, otel_string_view_t name,
				       const otel_span_start_options_ex_t *options);
/* The value that the stories set for a key that others write as well. */
#define HOSTS_WORD "mine"
otel_status_t otel_span_set_string_attribute(otel_span_t *span, otel_string_view_t key,
					     otel_string_view_t value);
otel_status_t otel_span_set_int64_attribute(otel_span_t *span, otel_string_view_t key,
					    int64_t value);
otel_status_t otel_span_set_bool_attribute(otel_span_t *span, otel_string_view_t key,
					   uint32_t value);
otel_status_t otel_span_set_double_attribute(otel_span_t *span, otel_string_view_t key,
					     double value);
otel_status_t otel_span_set_attribute(otel_span_t *span, otel_key_value_t attribute);
otel_status_t otel_span_set_status(otel_span_t *span, uint32_t code,
				   otel_string_view_t description);
otel_status_t otel_span_update_name(otel_span_t *span, otel_string_view_t name);
otel_status_t otel_span_end(otel_span_t *span);
void otel_span_destroy(otel_span_t *span);

otel_status_t otel_span_get_context(const otel_span_t *span, otel_span_context_t **out);
otel_status_t otel_span_context_trace_id(const otel_span_context_t *context, uint8_t out[16]);
otel_status_t otel_span_context_span_id(const otel_span_context_t *context, uint8_t out[8]);
otel_status_t otel_span_context_trace_flags(const otel_span_context_t *context, uint8_t *out);
otel_span_context_t *otel_span_context_create(const uint8_t trace_id[16], const uint8_t span_id[8],
					      uint8_t flags, uint32_t is_remote,
					      otel_string_view_t trace_state);
void otel_span_context_destroy(otel_span_context_t *context);

otel_context_t *otel_context_create(const otel_span_context_t *span_context);
otel_context_t *otel_context_current(void);
otel_span_context_t *otel_context_span_context(const otel_context_t *context);
void otel_context_destroy(otel_context_t *context);
otel_status_t otel_context_attach(const otel_context_t *context, otel_context_scope_t *scope);
otel_status_t otel_context_scope_detach(otel_context_scope_t *scope);

#endif
