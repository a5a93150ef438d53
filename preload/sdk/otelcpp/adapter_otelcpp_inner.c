/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the opentelemetry-cpp span behind the handle of a wrapper (adapter_otelcpp_inner.h). APP
 * context.
 */
#include "preload/sdk/otelcpp/adapter_otelcpp_inner.h"

#include <stdatomic.h>
#include <stddef.h>

#include "preload/lifecycle/lifecycle.h"

SP_TLS struct sp_otelcpp_inner sp_otelcpp_inner;

void sp_otelcpp_inner_started(struct sp_otelcpp *sdk, const void *result)
{
	if (!sp_lifecycle_wanted() || !sp_otelcpp_known(sdk))
		return;
	sp_otelcpp_inner.span = sp_otelcpp_returned(sdk, result);
	sp_otelcpp_inner.sdk = sdk;
	/* a wrapper may make its span current by an attach that we do not see */
	if (!atomic_load_explicit(&sdk->attached, memory_order_relaxed))
		atomic_store_explicit(&sdk->attached, true, memory_order_relaxed);
}

bool sp_otelcpp_inner_proven(struct sp_otelcpp_handles *h, const void *handle)
{
	struct sp_otelcpp *sdk = sp_otelcpp_inner.sdk;

	if (atomic_load_explicit(&h->refused, memory_order_relaxed))
		return false;
	if (sp_otelcpp_pointee(sdk, handle) != sp_otelcpp_inner.span) {
		atomic_store_explicit(&h->refused, true, memory_order_relaxed);
		return false;
	}
	if (atomic_load_explicit(&h->sdk, memory_order_relaxed) != sdk) {
		atomic_store_explicit(&sdk->held, true, memory_order_release);
		atomic_store_explicit(&h->sdk, sdk, memory_order_relaxed);
	}
	return true;
}

void *sp_otelcpp_inner_of(struct sp_otelcpp_handles *h, const void *handle)
{
	struct sp_otelcpp *sdk = atomic_load_explicit(&h->sdk, memory_order_relaxed);

	if (sdk == NULL || atomic_load_explicit(&h->refused, memory_order_relaxed))
		return NULL;
	return sp_otelcpp_pointee(sdk, handle);
}
