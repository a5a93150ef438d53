/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the binary interface of haproxytech/opentelemetry-c-wrapper that this folder implements and its hosts
 * use: names, slots and struct layouts are the original's, the comments are ours. Carriers are our own.
 *
 * FIXTURE_API is the number of functions of a tracer: 9 (releases 1.x and 2.x), 10 (3.0 to 3.2) or 11
 * (3.3).
 */
#ifndef TEST_HAPROXY_WRAPPER_H
#define TEST_HAPROXY_WRAPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define OTELC_RET_ERROR (-1)
#define OTELC_RET_OK 0
#define OTELC_VALUE_INT64 3
#define OTELC_VALUE_STRING 7

struct otelc_ctx;
struct otelc_tracer;
struct otelc_span;
struct otelc_span_context;

struct otelc_carrier {
	uint8_t trace_id[16];
	uint8_t span_id[8];
};

struct otelc_kv {
	char *key;
	bool key_is_dynamic;
	struct {
		int u_type;
		union {
			const char *value_string;
			int64_t value_int64;
		} u;
	} value;
};

struct otelc_span_link {
	const struct otelc_span *span;
	const struct otelc_span_context *context;
	const struct otelc_kv *kv;
	size_t kv_len;
};

struct otelc_span_context_ops {
	int (*is_valid)(const struct otelc_span_context *context);
	int (*is_sampled)(const struct otelc_span_context *context);
	int (*is_remote)(const struct otelc_span_context *context);
	int (*get_id)(const struct otelc_span_context *context, uint8_t *span_id,
		      size_t span_id_size, uint8_t *trace_id, size_t trace_id_size, uint8_t *flags);
	void (*trace_state[6])(void);
	void (*destroy)(struct otelc_span_context **context);
};

struct otelc_span_context {
	int64_t idx;
	const struct otelc_span_context_ops *ops;
};

struct otelc_span_ops {
	int (*get_id)(const struct otelc_span *span, uint8_t *span_id, size_t span_id_size,
		      uint8_t *trace_id, size_t trace_id_size, uint8_t *flags);
	int (*is_recording)(const struct otelc_span *span);
	void (*end)(struct otelc_span **span);
	void (*end_with_options)(struct otelc_span **span, const struct timespec *ts_steady,
				 int status, const char *desc);
	void (*set_operation_name)(const struct otelc_span *span, const char *name);
	void (*baggage[6])(void);
	void (*set_attribute_var)(void);
	void (*set_attribute_kv_var)(void);
	int (*set_attribute_kv_n)(const struct otelc_span *span, const struct otelc_kv *kv,
				  size_t kv_len);
	void (*add_event[3])(void);
	void (*add_link)(void);
	int (*set_status)(const struct otelc_span *span, int status, const char *desc);
	int (*inject_text_map)(const struct otelc_span *span, struct otelc_carrier *carrier);
	void (*inject_http_headers)(void);
	void (*record_exception)(void);
	void (*destroy)(struct otelc_span **span);
};

struct otelc_span {
	int64_t idx;
	struct otelc_tracer *tracer;
	const struct otelc_span_ops *ops;
};

struct otelc_tracer_ops {
	struct otelc_span *(*start_span)(struct otelc_tracer *tracer, const char *name);
	struct otelc_span *(*start_span_with_options)(
		struct otelc_tracer *tracer, const char *name, const struct otelc_span *parent_span,
		const struct otelc_span_context *parent_context, const struct timespec *ts_steady,
		const struct timespec *ts_system, int kind, const struct otelc_span_link *links,
		size_t links_len);
	struct otelc_span_context *(*extract_text_map)(struct otelc_tracer *tracer,
						       const struct otelc_carrier *carrier);
	struct otelc_span_context *(*extract_http_headers)(struct otelc_tracer *tracer,
							   const struct otelc_carrier *carrier);
	int (*enabled)(struct otelc_tracer *tracer);
#if FIXTURE_API >= 10
	int (*set_enabled)(struct otelc_tracer *tracer, bool enabled);
#endif
#if FIXTURE_API >= 11
	int (*set_flush_timeout)(struct otelc_tracer *tracer, int milliseconds);
#endif
	int (*force_flush)(struct otelc_tracer *tracer, const struct timespec *timeout);
	int (*shutdown)(struct otelc_tracer *tracer, const struct timespec *timeout);
	int (*start)(struct otelc_tracer *tracer);
	void (*destroy)(struct otelc_tracer **tracer);
};

struct otelc_tracer {
	char *err;
	const char *scope_name;
#if FIXTURE_API >= 10
	const char *yaml_prefix;
	bool enabled;
#if FIXTURE_API >= 11
	int flush_timeout;
#endif
#endif
	const struct otelc_tracer_ops *ops;
#if FIXTURE_API >= 10
	const struct otelc_ctx *ctx;
#endif
	void *impl;
};

_Static_assert(sizeof(struct otelc_kv) == 32, "otelc_kv");
_Static_assert(offsetof(struct otelc_kv, value.u_type) == 16, "otelc_kv");
_Static_assert(offsetof(struct otelc_kv, value.u) == 24, "otelc_kv");
_Static_assert(sizeof(struct otelc_span) == 24, "otelc_span");
_Static_assert(offsetof(struct otelc_span, tracer) == 8, "otelc_span");
_Static_assert(offsetof(struct otelc_span, ops) == 16, "otelc_span");
_Static_assert(sizeof(struct otelc_span_ops) == 23 * 8, "otelc_span_ops");
_Static_assert(offsetof(struct otelc_span_ops, end) == 2 * 8, "otelc_span_ops");
_Static_assert(offsetof(struct otelc_span_ops, set_attribute_kv_n) == 13 * 8, "otelc_span_ops");
_Static_assert(offsetof(struct otelc_span_ops, set_status) == 18 * 8, "otelc_span_ops");
_Static_assert(offsetof(struct otelc_span_ops, inject_text_map) == 19 * 8, "otelc_span_ops");
_Static_assert(offsetof(struct otelc_span_ops, destroy) == 22 * 8, "otelc_span_ops");
_Static_assert(sizeof(struct otelc_span_context_ops) == 11 * 8, "otelc_span_context_ops");
_Static_assert(offsetof(struct otelc_span_context, ops) == 8, "otelc_span_context");
_Static_assert(offsetof(struct otelc_tracer_ops, enabled) == 4 * 8, "otelc_tracer_ops");
#if FIXTURE_API == 9
_Static_assert(sizeof(struct otelc_tracer_ops) == 9 * 8, "1.x and 2.x");
_Static_assert(offsetof(struct otelc_tracer, ops) == 16, "1.x and 2.x");
#else
_Static_assert(sizeof(struct otelc_tracer_ops) == FIXTURE_API * 8, "3.x");
_Static_assert(offsetof(struct otelc_tracer, enabled) == 24, "3.x");
_Static_assert(offsetof(struct otelc_tracer, ops) == 32, "3.x");
_Static_assert(offsetof(struct otelc_tracer, ctx) == 40, "3.x");
_Static_assert(offsetof(struct otelc_tracer, impl) == 48, "3.x");
#endif
#if FIXTURE_API == 11
_Static_assert(offsetof(struct otelc_tracer, flush_timeout) == 28, "3.3");
#endif

const char *otelc_version(void);
#if FIXTURE_API >= 10
struct otelc_ctx *otelc_init(const char *config, char **err);
void otelc_deinit(struct otelc_ctx **ctx);
struct otelc_tracer *otelc_tracer_create(const struct otelc_ctx *ctx, char **err);
#else
int otelc_init(const char *config, char **err);
void otelc_deinit(struct otelc_tracer **tracer);
struct otelc_tracer *otelc_tracer_create(char **err);
#endif
struct otelc_span_context *otelc_span_context_create(void);

#endif
