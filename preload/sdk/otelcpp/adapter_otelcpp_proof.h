/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of opentelemetry-cpp's layout (otelcpp_abi.h) at first use. A release that we do not know
 * may have anything at the places where we read, and a wrong read would crash the host or label a
 * wrong span. So these functions ask the kernel whether memory is readable before they read it, and
 * compare what they find with what the SDK's interface promises. They are too slow for every call.
 * APP context, inside the reentrancy guard.
 */
#ifndef SP_ADAPTER_OTELCPP_PROOF_H
#define SP_ADAPTER_OTELCPP_PROOF_H

#include <stdbool.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/* An aligned word can be read there. */
bool sp_otelcpp_readable(const void *p);

/* One of the SDK's own spans; the address may be anything. */
bool sp_otelcpp_is_own_span(const struct sp_otelcpp *sdk, const void *span);

/*
 * A smart pointer of that kind of build lies there, which may be null: with a class of its own
 * (nostd), or with a control block of libstdc++ in use.
 */
bool sp_otelcpp_is_pointer(const struct sp_otelcpp_flavour *f, const void *pointer);

/*
 * StartSpan's result, as far as it can be told: true if it holds an object of some class.
 */
bool sp_otelcpp_is_result(const void *result);

/* GetContext() of that span, one of the SDK's own, returns a SpanContext as we know it. */
bool sp_otelcpp_ids_fit(struct sp_otelcpp *sdk, const struct sp_otelcpp_flavour *f, void *span);

/* The context is a list as we know it, or empty. */
bool sp_otelcpp_context_fits(struct sp_otelcpp *sdk, const void *context);

#endif
