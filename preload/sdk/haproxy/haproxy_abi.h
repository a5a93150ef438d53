/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of haproxytech/opentelemetry-c-wrapper's binary interface that the adapter knows, from
 * its public headers of 1.0.0 to 3.3.0. Objects contain a pointer to a constant table of functions.
 * Tracers differ between versions (haproxy_versions.h); the rest is the same in all of them. 64-bit
 * only.
 */
#ifndef SP_HAPROXY_ABI_H
#define SP_HAPROXY_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define SP_HAPROXY_OK 0
#define SP_HAPROXY_FLAG_SAMPLED 0x01U
#define SP_HAPROXY_VALUE_INT64 3
#define SP_HAPROXY_VALUE_STRING 7

#define SP_HAPROXY_TRACER_SLOTS_MAX 11U
#define SP_HAPROXY_SPAN_SLOTS 23U

struct sp_haproxy_span;
struct sp_haproxy_context;

/* The first slots, the same in every version. */
struct sp_haproxy_tracer_ops {
	struct sp_haproxy_span *(*start_span)(void *tracer, const char *name);
	struct sp_haproxy_span *(*start_span_with_options)(
		void *tracer, const char *name, const struct sp_haproxy_span *parent,
		const struct sp_haproxy_context *parent_context, const struct timespec *steady,
		const struct timespec *realtime, int kind, const void *links, size_t links_len);
};

struct sp_haproxy_kv {
	const char *key;
	bool key_is_dynamic;
	struct {
		int type;
		union {
			const char *string;
			int64_t integer;
		} u;
	} value;
};

struct sp_haproxy_span_ops {
	/* fails without a valid context, and then leaves a message in the tracer */
	int (*get_id)(const struct sp_haproxy_span *span, uint8_t *span_id, size_t span_id_size,
		      uint8_t *trace_id, size_t trace_id_size, uint8_t *flags);
	int (*is_recording)(const struct sp_haproxy_span *span);
	/* these two and destroy free the span, and clear the caller's pointer to it */
	void (*end)(struct sp_haproxy_span **span);
	void (*end_with_options)(struct sp_haproxy_span **span, const struct timespec *steady,
				 int status, const char *description);
	void (*set_operation_name)(const struct sp_haproxy_span *span, const char *name);
	void (*slot_5_to_12[8])(void);
	int (*set_attribute_kv_n)(const struct sp_haproxy_span *span,
				  const struct sp_haproxy_kv *kv, size_t n);
	void (*slot_14_to_21[8])(void);
	void (*destroy)(struct sp_haproxy_span **span);
};

struct sp_haproxy_span {
	int64_t idx;
	void *tracer;
	const struct sp_haproxy_span_ops *ops;
};

/* The first slots of the table of a span context. */
struct sp_haproxy_context_ops {
	int (*is_valid)(const struct sp_haproxy_context *context);
	int (*is_sampled)(const struct sp_haproxy_context *context);
	int (*is_remote)(const struct sp_haproxy_context *context);
	int (*get_id)(const struct sp_haproxy_context *context, uint8_t *span_id,
		      size_t span_id_size, uint8_t *trace_id, size_t trace_id_size, uint8_t *flags);
};
#define SP_HAPROXY_CONTEXT_SLOTS 4U

struct sp_haproxy_context {
	int64_t idx;
	const struct sp_haproxy_context_ops *ops;
};

_Static_assert(sizeof(struct sp_haproxy_kv) == 32, "otelc_kv");
_Static_assert(offsetof(struct sp_haproxy_kv, value.type) == 16, "otelc_kv");
_Static_assert(offsetof(struct sp_haproxy_kv, value.u) == 24, "otelc_kv");
_Static_assert(sizeof(struct sp_haproxy_span_ops) == 184, "otelc_span_ops");
_Static_assert(offsetof(struct sp_haproxy_span_ops, set_operation_name) == 32, "slot 4");
_Static_assert(offsetof(struct sp_haproxy_span_ops, set_attribute_kv_n) == 104, "slot 13");
_Static_assert(offsetof(struct sp_haproxy_span_ops, destroy) == 176, "slot 22");
_Static_assert(sizeof(struct sp_haproxy_span) == 24, "otelc_span");
_Static_assert(offsetof(struct sp_haproxy_span, ops) == 16, "otelc_span");
_Static_assert(offsetof(struct sp_haproxy_context, ops) == 8, "otelc_span_context");

#endif
