/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Span contexts and attached contexts of the stand-in SDK. A context holds the ids of a span, not
 * the span; each thread has a stack of at most 64 of them, detached innermost first.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "test/otelc/record.h"

#define DEPTH_MAX 64

struct otel_context {
	enum kind kind;
	bool has_span;
	struct span_ids ids;
};

struct attached {
	uint64_t generation;
	bool has_span;
	struct span_ids ids;
};

struct stack {
	uint64_t thread_token; /* 0 = this thread has not attached anything yet */
	uint64_t generations;
	unsigned depth;
	struct attached entry[DEPTH_MAX];
};

static __thread struct stack stack;
static _Atomic uint64_t threads;

const struct span_ids *ambient_ids(void)
{
	const struct attached *top = stack.depth > 0 ? &stack.entry[stack.depth - 1] : NULL;

	return top != NULL && top->has_span ? &top->ids : NULL;
}

static const char *shown_span_context(const otel_span_context_t *context, char *room)
{
	return shown_id(context != NULL ? &context->ids : NULL, room);
}

/* Copies a part of the ids to the caller, as every accessor does. */
static otel_status_t part(const otel_span_context_t *context, void *out, const void *in, size_t len)
{
	clear_error();
	if (out == NULL)
		return failed(OTEL_INVALID_ARGUMENT, "output pointer is NULL");
	if (!handle_ok(context, KIND_SPAN_CONTEXT))
		return OTEL_INVALID_ARGUMENT;
	memcpy(out, in, len);
	return OTEL_OK;
}

#define ACCESSOR(field)                                                                            \
	int after = errno_after();                                                                 \
	char id[17];                                                                               \
	otel_status_t status =                                                                     \
		part(context, out, &context->ids.field, sizeof(context->ids.field));               \
                                                                                                   \
	record(OURS, "context_" #field " %s -> %u\n", shown_span_context(context, id), status);    \
	errno = after;                                                                             \
	return status

API otel_status_t otel_span_context_trace_id(const otel_span_context_t *context, uint8_t out[16])
{
	ACCESSOR(trace_id);
}

API otel_status_t otel_span_context_span_id(const otel_span_context_t *context, uint8_t out[8])
{
	ACCESSOR(span_id);
}

API otel_status_t otel_span_context_trace_flags(const otel_span_context_t *context, uint8_t *out)
{
	ACCESSOR(flags);
}

API otel_span_context_t *otel_span_context_create(const uint8_t trace_id[16],
						  const uint8_t span_id[8], uint8_t flags,
						  uint32_t is_remote,
						  otel_string_view_t trace_state)
{
	int after = errno_after();
	struct span_ids ids = {.flags = flags, .remote = is_remote != 0};
	char id[17];

	clear_error();
	memcpy(ids.trace_id, trace_id, sizeof(ids.trace_id));
	memcpy(ids.span_id, span_id, sizeof(ids.span_id));
	record(OURS, "span_context_create %s flags %u remote %u state %zu bytes\n",
	       shown_id(&ids, id), (unsigned)flags, is_remote, trace_state.len);
	errno = after;
	return span_context_new(&ids);
}

API void otel_span_context_destroy(otel_span_context_t *context)
{
	int after = errno_after();
	char id[17];

	record(OURS, "span_context_destroy %s\n", shown_span_context(context, id));
	if (context != NULL) {
		if (context->kind != KIND_SPAN_CONTEXT)
			abort();
		context->kind = KIND_DEAD;
		free(context);
	}
	errno = after;
}

static otel_context_t *context_new(const struct span_ids *ids)
{
	otel_context_t *context = calloc(1, sizeof(*context));

	if (context == NULL)
		abort();
	context->kind = KIND_CONTEXT;
	if (ids != NULL) {
		context->has_span = true;
		context->ids = *ids;
	}
	return context;
}

static const char *shown_context(const otel_context_t *context, char *room)
{
	if (context == NULL)
		return "(null)";
	return shown_id(context->has_span ? &context->ids : NULL, room);
}

API otel_context_t *otel_context_create(const otel_span_context_t *span_context)
{
	int after = errno_after();
	char id[17];

	clear_error();
	record(OURS, "context_create %s\n", shown_span_context(span_context, id));
	errno = after;
	return context_new(span_context != NULL ? &span_context->ids : NULL);
}

API otel_context_t *otel_context_current(void)
{
	int after = errno_after();
	char id[17];

	clear_error();
	record(OURS, "context_current -> %s\n", shown_id(ambient_ids(), id));
	errno = after;
	return context_new(ambient_ids());
}

API otel_span_context_t *otel_context_span_context(const otel_context_t *context)
{
	int after = errno_after();
	otel_span_context_t *found = NULL;
	char id[17];

	clear_error();
	if (handle_ok(context, KIND_CONTEXT) && context->has_span)
		found = span_context_new(&context->ids);
	record(OURS, "context_span_context %s\n", shown_context(context, id));
	errno = after;
	return found;
}

API void otel_context_destroy(otel_context_t *context)
{
	int after = errno_after();
	char id[17];

	record(OURS, "context_destroy %s\n", shown_context(context, id));
	if (context != NULL) {
		if (context->kind != KIND_CONTEXT)
			abort();
		context->kind = KIND_DEAD;
		free(context);
	}
	errno = after;
}

static otel_status_t attach(const otel_context_t *context, otel_context_scope_t *scope)
{
	struct attached *a;

	if (scope == NULL)
		return failed(OTEL_INVALID_ARGUMENT, "scope is NULL");
	if (scope->struct_size < sizeof(*scope))
		return failed(OTEL_INVALID_CONFIG, "scope is too small");
	scope->thread_token = 0;
	scope->generation = 0;
	memset(scope->reserved, 0, sizeof(scope->reserved));
	if (!handle_ok(context, KIND_CONTEXT))
		return OTEL_INVALID_ARGUMENT;
	if (stack.depth == DEPTH_MAX)
		return failed(OTEL_INVALID_CONFIG, "too many contexts attached");
	if (stack.thread_token == 0)
		stack.thread_token = atomic_fetch_add(&threads, 1) + 1;
	a = &stack.entry[stack.depth++];
	a->generation = ++stack.generations;
	a->has_span = context->has_span;
	a->ids = context->ids;
	scope->thread_token = stack.thread_token;
	scope->generation = a->generation;
	return OTEL_OK;
}

API otel_status_t otel_context_attach(const otel_context_t *context, otel_context_scope_t *scope)
{
	int after = errno_after();
	otel_status_t status;
	char id[17];

	clear_error();
	status = attach(context, scope);
	record(OURS, "attach %s %s-> %u\n", shown_context(context, id),
	       scope != NULL ? "scope " : "(null) ", status);
	errno = after;
	return status;
}

static otel_status_t detach(otel_context_scope_t *scope)
{
	if (scope == NULL)
		return failed(OTEL_INVALID_ARGUMENT, "scope is NULL");
	if (scope->struct_size < sizeof(*scope))
		return failed(OTEL_INVALID_CONFIG, "scope is too small");
	if (scope->thread_token == 0 || scope->generation == 0)
		return failed(OTEL_INVALID_ARGUMENT, "scope is not attached");
	if (scope->thread_token != stack.thread_token)
		return failed(OTEL_INVALID_ARGUMENT, "scope of another thread");
	if (stack.depth == 0 || stack.entry[stack.depth - 1].generation != scope->generation)
		return failed(OTEL_INVALID_ARGUMENT, "scope is not the innermost");
	stack.depth--;
	scope->thread_token = 0;
	scope->generation = 0;
	return OTEL_OK;
}

API otel_status_t otel_context_scope_detach(otel_context_scope_t *scope)
{
	int after = errno_after();
	unsigned long long generation = 0;
	otel_status_t status;

	clear_error();
	if (scope != NULL && scope->struct_size >= sizeof(*scope))
		generation = scope->generation;
	status = detach(scope);
	record(OURS, "detach %llu -> %u\n", generation, status);
	errno = after;
	return status;
}
