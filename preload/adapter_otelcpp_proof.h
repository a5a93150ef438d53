/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proofs of opentelemetry-cpp's layout (otelcpp_abi.h) at first use. A release that we do not know
 * may have anything where we look, so these read what they do not know yet through the kernel, and
 * compare it with what the interface promises. APP context, inside the reentrancy guard; not for every call.
 */
#ifndef SP_ADAPTER_OTELCPP_PROOF_H
#define SP_ADAPTER_OTELCPP_PROOF_H

#include <stdbool.h>

#include "preload/adapter_otelcpp_sdk.h"

/* An aligned word is there to be read. */
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

/* Of one of the SDK's own spans, GetContext() returns what we know as a SpanContext. */
bool sp_otelcpp_ids_fit(struct sp_otelcpp *sdk, const struct sp_otelcpp_flavour *f, void *span);

/* The context is a list as we know it, or empty. */
bool sp_otelcpp_context_fits(struct sp_otelcpp *sdk, const void *context);

/* The virtual functions of the SDK's spans that we call lie in the slots where we call them. */
bool sp_otelcpp_slots_fit(const struct sp_otelcpp *sdk);

#endif
