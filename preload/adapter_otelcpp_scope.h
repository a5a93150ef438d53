/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes of opentelemetry-cpp. Attach and Detach are inline functions of which every user has a
 * copy, so they cannot be hooked by name; but all go through one storage object. APP context.
 */
#ifndef SP_ADAPTER_OTELCPP_SCOPE_H
#define SP_ADAPTER_OTELCPP_SCOPE_H

#include "preload/adapter_otelcpp_sdk.h"

/*
 * Sees to it that attaching and detaching passes by us from now on. Cheap when it already does; to
 * be called again and again, as the host may bring a storage of its own. After a span was seen.
 *
 * True as long as no thread has attached anything since the first call, which came before the first
 * recorded span: then none of the recorded spans can be current anywhere.
 */
bool sp_otelcpp_scope_watch(struct sp_otelcpp *sdk);

#endif
