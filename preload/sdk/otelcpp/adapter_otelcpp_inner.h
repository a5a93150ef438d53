/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For adapters of wrappers over opentelemetry-cpp: finds the span behind the wrapper's handle.
 * Nothing is read through a handle before it has proved to lead to the very span that StartSpan
 * returned inside of the wrapper's own start. APP context, inside the reentrancy guard.
 */
#ifndef SP_ADAPTER_OTELCPP_INNER_H
#define SP_ADAPTER_OTELCPP_INNER_H

#include <stdbool.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"
#include "sampler/base/compiler.h"

/* What the last StartSpan on this thread returned inside another hooked call. */
struct sp_otelcpp_inner {
	struct sp_otelcpp *sdk; /* NULL: there was no such call */
	void *span;             /* NULL: the span is of another class, so it is not recorded */
};
extern SP_TLS struct sp_otelcpp_inner sp_otelcpp_inner;

/* Our StartSpan hook, inside another hooked call. */
void sp_otelcpp_inner_started(struct sp_otelcpp *sdk, const void *result);

/* A wrapper's handles begin with a smart pointer to the span; one per kind of handle. */
struct sp_otelcpp_handles {
	struct sp_otelcpp *_Atomic sdk; /* proven at every start so far; NULL before the first */
	_Atomic bool refused;           /* disproved once */
};

/* The handle of a span that was started just now: true if it leads to sp_otelcpp_inner.span. */
bool sp_otelcpp_inner_proven(struct sp_otelcpp_handles *h, const void *handle);

/* The span of an open handle that was given to the function above; NULL if that is not proven. */
void *sp_otelcpp_inner_of(struct sp_otelcpp_handles *h, const void *handle);

#endif
