/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of otap-labs/opentelemetry-c's binary interface that the adapter knows: the structs that
 * it reads and the functions that it calls. All are of libopentelemetry_c_api.so, whose version
 * number never changed; features are recognised by the names that it exports. 64-bit only, like the
 * SDK.
 */
#ifndef SP_OTELC_ABI_H
#define SP_OTELC_ABI_H

#include <stddef.h>
#include <stdint.h>

#define SP_OTELC_OK 0U
#define SP_OTELC_INTERNAL_ERROR 7U
#define SP_OTELC_FLAG_SAMPLED 0x01U

/* Passed by value it takes two argument registers. */
struct sp_otelc_view {
	const char *ptr; /* not NUL-terminated; NULL when empty */
	size_t len;
};

struct sp_otelc_options {
	uint32_t kind;
	const void *parent; /* a span, or NULL */
};

struct sp_otelc_options_ex {
	size_t struct_size; /* what the caller knew of this struct */
	uint32_t kind;
	uint32_t reserved;
	const void *parent;         /* a span, or NULL */
	const void *parent_context; /* a span context, or NULL */
	uint64_t start_time;
	const void *attributes; /* the SDK accepts callers whose struct ends before this one */
	size_t attribute_count;
	const void *links;
	size_t link_count;
	uint32_t parent_mode; /* read only when the caller's struct has all that follows */
	uint32_t reserved2;
};
#define SP_OTELC_PARENT_AMBIENT 1U

/* The caller's token of an attachment. */
struct sp_otelc_scope {
	size_t struct_size;
	uint64_t thread_token;
	uint64_t generation; /* unique among the thread's attachments; 0 = not attached */
	uint64_t reserved[2];
};

_Static_assert(sizeof(struct sp_otelc_view) == 16, "otel_string_view_t");
_Static_assert(sizeof(struct sp_otelc_options) == 16, "otel_span_start_options_t");
_Static_assert(offsetof(struct sp_otelc_options, parent) == 8, "otel_span_start_options_t");
_Static_assert(sizeof(struct sp_otelc_options_ex) == 80, "otel_span_start_options_ex_t");
_Static_assert(offsetof(struct sp_otelc_options_ex, parent) == 16, "otel_span_start_options_ex_t");
_Static_assert(offsetof(struct sp_otelc_options_ex, attributes) == 40, "its first release");
_Static_assert(offsetof(struct sp_otelc_options_ex, parent_mode) == 72, "its second release");
_Static_assert(sizeof(struct sp_otelc_scope) == 40, "otel_context_scope_t");
_Static_assert(offsetof(struct sp_otelc_scope, generation) == 16, "otel_context_scope_t");

/*
 * Each of these clears the thread's last error and sets it when it fails, but for the destroy
 * functions and the three at the end, which do only what their names say.
 */
uint32_t otel_span_get_context(const void *span, void **context);
uint32_t otel_span_context_trace_id(const void *context, uint8_t out[16]);
uint32_t otel_span_context_span_id(const void *context, uint8_t out[8]);
uint32_t otel_span_context_trace_flags(const void *context, uint8_t *out);
void otel_span_context_destroy(void *context);
void *otel_context_current(void);
void *otel_context_span_context(const void *context);
void otel_context_destroy(void *context);
uint32_t otel_span_set_int64_attribute(void *span, struct sp_otelc_view key, int64_t value);
struct sp_otelc_view otel_last_error_message(void);
void otel_api_set_last_error(const char *text, size_t len);
void otel_api_clear_last_error(void);

#endif
