/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks libopentelemetry_c_api.so about spans and contexts, and preserves its last error, which
 * these calls would change. APP context.
 */
#include <string.h>

#include "preload/elf/resolve.h"
#include "preload/sdk/otelc/adapter_otelc_sdk.h"
#include "preload/sdk/otelc/otelc_abi.h"
#include "preload/sdk/sdk_instances.h"

#define REAL(sym) ((__typeof__(&(sym)))sp_sdk_instance_fn(instance, SP_NEXT_##sym))

/*
 * A successful start or attach leaves no last error, so neither may the calls that we make after
 * it.
 */
static void clear_error(struct sp_sdk_instance *instance)
{
	__typeof__(&otel_api_clear_last_error) clear = REAL(otel_api_clear_last_error);

	if (clear != NULL)
		clear();
}

static bool context_ids(struct sp_sdk_instance *instance, const void *context,
			struct sp_otelc_ids *out)
{
	return REAL(otel_span_context_trace_id)(context, out->trace_id) == SP_OTELC_OK &&
	       REAL(otel_span_context_span_id)(context, out->span_id) == SP_OTELC_OK &&
	       REAL(otel_span_context_trace_flags)(context, &out->flags) == SP_OTELC_OK;
}

bool sp_otelc_span_ids(struct sp_sdk_instance *instance, const void *span, struct sp_otelc_ids *out)
{
	void *context = NULL;
	bool ok = REAL(otel_span_get_context)(span, &context) == SP_OTELC_OK && context != NULL &&
		  context_ids(instance, context, out);

	if (context != NULL)
		REAL(otel_span_context_destroy)(context);
	if (!ok)
		clear_error(instance);
	return ok;
}

bool sp_otelc_context_span(struct sp_sdk_instance *instance, const void *context, uint8_t id[8])
{
	__typeof__(&otel_context_span_context) get = REAL(otel_context_span_context);
	void *span = get != NULL ? get(context) : NULL;
	bool ok = span != NULL && REAL(otel_span_context_span_id)(span, id) == SP_OTELC_OK;

	if (span != NULL)
		REAL(otel_span_context_destroy)(span);
	return ok;
}

void sp_otelc_ambient_span(struct sp_sdk_instance *instance, uint8_t id[8])
{
	__typeof__(&otel_context_current) current = REAL(otel_context_current);
	__typeof__(&otel_context_destroy) destroy = REAL(otel_context_destroy);
	void *context = current != NULL && destroy != NULL ? current() : NULL;

	if (context == NULL)
		return;
	(void)sp_otelc_context_span(instance, context, id);
	destroy(context);
}

void sp_otelc_error_save(struct sp_sdk_instance *instance, struct sp_otelc_error *error)
{
	__typeof__(&otel_last_error_message) get = REAL(otel_last_error_message);
	struct sp_otelc_view view = {NULL, 0};

	if (get != NULL && REAL(otel_api_set_last_error) != NULL)
		view = get();
	error->is_set = view.ptr != NULL;
	error->len = view.len < sizeof(error->text) ? view.len : sizeof(error->text);
	if (error->is_set)
		memcpy(error->text, view.ptr, error->len);
}

void sp_otelc_error_restore(struct sp_sdk_instance *instance, const struct sp_otelc_error *error)
{
	if (error->is_set)
		REAL(otel_api_set_last_error)(error->text, error->len);
	else
		clear_error(instance);
}
