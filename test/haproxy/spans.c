/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans and span contexts of the stand-in, with the original's rules: end and destroy free the span
 * and clear the caller's pointer, NULL is nothing, a destroy without an end ends it. Spans live in a
 * pool, as HAProxy's do, so that their memory is used again at once.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/haproxy/record.h"

#define SPANS_MAX 128
#define ATTRIBUTES_MAX 8
#define TEXT_MAX 512

struct whole {
	struct otelc_span span;
	struct otelc_tracer *tracer;
	int64_t number; /* 0 = free */
	bool valid, recording, sampled;
	struct otelc_carrier ids, parent;
	char name[TEXT_MAX];
	int used;
	char key[ATTRIBUTES_MAX][64];
	char value[ATTRIBUTES_MAX][TEXT_MAX];
	bool is_number[ATTRIBUTES_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct whole pool[SPANS_MAX];
static int64_t numbers;
static const struct otelc_span_ops span_ops;

static struct whole *whole(const struct otelc_span *span)
{
	span_check(span);
	return &pool[(const struct whole *)span - pool];
}

void span_check(const struct otelc_span *span)
{
	const struct whole *w = (const struct whole *)span;

	if (w < pool || w >= pool + SPANS_MAX || w->number == 0 || span->idx != w->number ||
	    span->tracer != w->tracer) {
		fprintf(stderr, "a span is not what it was\n");
		abort();
	}
}

static void set_ids(struct whole *w, const struct otelc_carrier *parent)
{
	uint64_t own = fixture_scrambled(3 * (uint64_t)w->number);
	uint64_t trace[2] = {fixture_scrambled(3 * (uint64_t)w->number + 1), own ^ 1};

	memcpy(w->ids.span_id, &own, sizeof(own));
	memcpy(w->ids.trace_id, parent != NULL ? (const void *)parent->trace_id : trace,
	       sizeof(w->ids.trace_id));
	if (parent != NULL)
		w->parent = *parent;
}

struct otelc_span *span_start(struct otelc_tracer *tracer, const char *name,
			      const struct otelc_carrier *parent)
{
	struct whole *w = pool;

	pthread_mutex_lock(&lock);
	while (w < pool + SPANS_MAX && w->number != 0)
		w++;
	if (w == pool + SPANS_MAX)
		abort();
	memset(w, 0, sizeof(*w));
	w->number = ++numbers;
	pthread_mutex_unlock(&lock);
	w->span.idx = w->number;
	w->span.tracer = tracer;
	w->span.ops = &span_ops;
	w->tracer = tracer;
	w->valid = !fixture_mode_is("noop");
	w->sampled = w->valid && !fixture_mode_is("unsampled") && !fixture_mode_is("record_only");
	w->recording = w->sampled || fixture_mode_is("record_only");
	snprintf(w->name, sizeof(w->name), "%s", name);
	set_ids(w, parent);
	return &w->span;
}

struct otelc_carrier span_ids(const struct otelc_span *span)
{
	return whole(span)->ids;
}

static const char *hex(const uint8_t *bytes, size_t len, char *room)
{
	for (size_t i = 0; i < len; i++)
		snprintf(room + 2 * i, 3, "%02x", (unsigned)bytes[i]);
	return room;
}

static void export(const struct whole *w)
{
	static const struct otelc_carrier none;
	char line[(ATTRIBUTES_MAX + 1) * (TEXT_MAX + 80)];
	char id[17];
	char trace[33];
	char parent[17] = "";
	int len;

	if (memcmp(&w->parent, &none, sizeof(none)) != 0)
		hex(w->parent.span_id, 8, parent);
	len = snprintf(line, sizeof(line),
		       "{\"name\":\"%s\",\"span_id\":\"%s\",\"trace_id\":\"%s\","
		       "\"parent_span_id\":\"%s\",\"attributes\":{",
		       w->name, hex(w->ids.span_id, 8, id), hex(w->ids.trace_id, 16, trace),
		       parent);
	for (int i = 0; i < w->used; i++)
		len += snprintf(line + len, sizeof(line) - (size_t)len, "%s\"%s\":%s%s%s",
				i > 0 ? "," : "", w->key[i], w->is_number[i] ? "" : "\"",
				w->value[i], w->is_number[i] ? "" : "\"");
	len += snprintf(line + len, sizeof(line) - (size_t)len, "}}\n");
	fixture_append("FIXTURE_SPANS", line, (size_t)len);
}

static void release(struct otelc_span **span)
{
	struct whole *w;

	if (span == NULL || *span == NULL)
		return;
	w = whole(*span);
	if (w->sampled)
		export(w);
	memset(&w->span, 0xfe, sizeof(w->span));
	pthread_mutex_lock(&lock);
	w->number = 0;
	pthread_mutex_unlock(&lock);
	*span = NULL;
}

/* By its number, which outlives it. */
static int64_t idx_at(struct otelc_span *const *span)
{
	if (span == NULL || *span == NULL)
		return -1;
	span_check(*span);
	return (*span)->idx;
}

static int get_id(const struct otelc_span *span, uint8_t *span_id, size_t span_id_size,
		  uint8_t *trace_id, size_t trace_id_size, uint8_t *flags)
{
	struct call c = CALL();
	const struct whole *w = whole(span);
	int result = OTELC_RET_OK;

	if (!w->valid)
		result = tracer_failed(span->tracer, "Invalid span context");
	if (w->valid && span_id != NULL && span_id_size >= 8)
		memcpy(span_id, w->ids.span_id, 8);
	if (w->valid && trace_id != NULL && trace_id_size >= 16)
		memcpy(trace_id, w->ids.trace_id, 16);
	if (w->valid && flags != NULL)
		*flags = w->sampled;
	call_end(&c, "get_id %" PRId64 " -> %d", span->idx, result);
	return result;
}

static int is_recording(const struct otelc_span *span)
{
	struct call c = CALL();
	bool is = whole(span)->recording;

	call_end(&c, "is_recording %" PRId64 " -> %d", span->idx, is);
	return is;
}

static void end(struct otelc_span **span)
{
	struct call c = CALL();
	int64_t idx = idx_at(span);

	release(span);
	call_end(&c, "end %" PRId64 " %s", idx, label_of(span));
}

static void end_with_options(struct otelc_span **span, const struct timespec *ts_steady, int status,
			     const char *desc)
{
	struct call c = CALL();
	int64_t idx = idx_at(span);

	release(span);
	call_end(&c, "end_with_options %" PRId64 " %s %s %d %s", idx, label_of(span),
		 label_of(ts_steady), status, label_of(desc));
}

static void destroy(struct otelc_span **span)
{
	struct call c = CALL();
	int64_t idx = idx_at(span);

	release(span);
	call_end(&c, "destroy %" PRId64 " %s", idx, label_of(span));
}

static void set_operation_name(const struct otelc_span *span, const char *name)
{
	struct call c = CALL();
	struct whole *w = whole(span);

	if (name == NULL || *name == '\0')
		(void)tracer_failed(span->tracer, "Invalid operation name");
	else
		snprintf(w->name, sizeof(w->name), "%s", name);
	call_end(&c, "set_operation_name %" PRId64 " %s \"%s\"", span->idx, label_of(name),
		 name != NULL ? name : "");
}

static int set_attribute_kv_n(const struct otelc_span *span, const struct otelc_kv *kv, size_t n)
{
	struct call c = CALL();
	struct whole *w = whole(span);

	for (size_t i = 0; i < n; i++) {
		if ((kv[i].value.u_type != OTELC_VALUE_STRING &&
		     kv[i].value.u_type != OTELC_VALUE_INT64) ||
		    w->used == ATTRIBUTES_MAX)
			abort();
		w->is_number[w->used] = kv[i].value.u_type == OTELC_VALUE_INT64;
		snprintf(w->key[w->used], sizeof(w->key[0]), "%s", kv[i].key);
		if (w->is_number[w->used])
			snprintf(w->value[w->used], TEXT_MAX, "%" PRId64,
				 kv[i].value.u.value_int64);
		else
			snprintf(w->value[w->used], TEXT_MAX, "%s", kv[i].value.u.value_string);
		w->used++;
	}
	call_end(&c, "set_attribute_kv_n %" PRId64 " %zu %s %d", span->idx, n, kv[0].key,
		 kv[0].key_is_dynamic);
	return (int)n;
}

static int set_status(const struct otelc_span *span, int status, const char *desc)
{
	struct call c = CALL();

	span_check(span);
	call_end(&c, "set_status %" PRId64 " %d %s", span->idx, status, label_of(desc));
	return OTELC_RET_OK;
}

static int inject(const struct otelc_span *span, struct otelc_carrier *carrier)
{
	struct call c = CALL();

	*carrier = span_ids(span);
	call_end(&c, "inject %" PRId64 " %s", span->idx, label_of(carrier));
	return OTELC_RET_OK;
}

/* Whatever no host of this folder calls. */
static void unused(void)
{
	abort();
}

static const struct otelc_span_ops span_ops = {
	.get_id = get_id,
	.is_recording = is_recording,
	.end = end,
	.end_with_options = end_with_options,
	.set_operation_name = set_operation_name,
	.baggage = {unused, unused, unused, unused, unused, unused},
	.set_attribute_var = unused,
	.set_attribute_kv_var = unused,
	.set_attribute_kv_n = set_attribute_kv_n,
	.add_event = {unused, unused, unused},
	.add_link = unused,
	.set_status = set_status,
	.inject_text_map = inject,
	.inject_http_headers = unused,
	.record_exception = unused,
	.destroy = destroy,
};

struct otelc_carrier context_ids(const struct otelc_span_context *context)
{
	struct otelc_carrier ids;

	memcpy(&ids, context + 1, sizeof(ids));
	return ids;
}

static int context_get_id(const struct otelc_span_context *context, uint8_t *span_id,
			  size_t span_id_size, uint8_t *trace_id, size_t trace_id_size,
			  uint8_t *flags)
{
	struct call c = CALL();
	struct otelc_carrier ids = context_ids(context);

	if (span_id != NULL && span_id_size >= 8)
		memcpy(span_id, ids.span_id, 8);
	if (trace_id != NULL && trace_id_size >= 16)
		memcpy(trace_id, ids.trace_id, 16);
	if (flags != NULL)
		*flags = 1;
	call_end(&c, "context_get_id");
	return OTELC_RET_OK;
}

static int context_yes(const struct otelc_span_context *context)
{
	return context != NULL;
}

static void context_destroy(struct otelc_span_context **context)
{
	free(*context);
	*context = NULL;
}

static const struct otelc_span_context_ops context_ops = {
	.is_valid = context_yes,
	.is_sampled = context_yes,
	.is_remote = context_yes,
	.get_id = context_get_id,
	.trace_state = {unused, unused, unused, unused, unused, unused},
	.destroy = context_destroy,
};

/* With room for its ids behind it. */
API struct otelc_span_context *otelc_span_context_create(void)
{
	struct otelc_span_context *context =
		calloc(1, sizeof(*context) + sizeof(struct otelc_carrier));

	if (context == NULL)
		abort();
	context->idx = 1;
	context->ops = &context_ops;
	return context;
}
