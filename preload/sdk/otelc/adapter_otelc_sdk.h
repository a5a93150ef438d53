/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the adapter for otap-labs/opentelemetry-c asks the SDK. Each function uses the instance that
 * it is given, whose ABI the caller has recognised. APP context, inside the reentrancy guard.
 */
#ifndef PRELOAD_ADAPTER_OTELC_SDK_H
#define PRELOAD_ADAPTER_OTELC_SDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_sdk_instance;

struct sp_otelc_ids {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t flags;
};

/* A thread's last error; longer texts are cut. */
struct sp_otelc_error {
	char text[256];
	size_t len;
	bool is_set;
};

/* False, without a last error, for spans that do nothing: no SDK installed, or one shut down. */
bool sp_otelc_span_ids(struct sp_sdk_instance *instance, const void *span,
		       struct sp_otelc_ids *out);

/* The id of the span of an attached or attachable context; false if it has none. */
bool sp_otelc_context_span(struct sp_sdk_instance *instance, const void *context, uint8_t id[8]);

/* The id of the calling thread's current span; untouched if it has none. */
void sp_otelc_ambient_span(struct sp_sdk_instance *instance, uint8_t id[8]);

void sp_otelc_error_save(struct sp_sdk_instance *instance, struct sp_otelc_error *error);
void sp_otelc_error_restore(struct sp_sdk_instance *instance, const struct sp_otelc_error *error);

#endif
