/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context storage before it exists. opentelemetry-cpp creates it when the current context is
 * first asked for; since 1.28 a span with an explicit root does not ask. If the program then
 * attaches that span, the storage is created inside the attach, before there is an object whose
 * vptr we could replace (adapter_otelcpp_scope.h). We would miss the process's first scope, and its
 * span would count as one that labels until its end. So until the storage exists, the vtable of its
 * class leads Attach to us. The SDK's own function is restored at the first attach, or when the
 * storage is seen in another way. APP context.
 */
#ifndef SP_ADAPTER_OTELCPP_EXPECT_H
#define SP_ADAPTER_OTELCPP_EXPECT_H

#include <stdbool.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/*
 * To be called when a span is recorded and there is no storage. Once for each instance of the SDK;
 * if it fails, nothing changes.
 */
void sp_otelcpp_expect_storage(struct sp_otelcpp *sdk);

/*
 * The same for an instance that was found by its classes, where nobody knows the storage before one
 * of them attaches. False if there is no such class, or if one could not be replaced.
 */
bool sp_otelcpp_expect_types(struct sp_otelcpp *sdk);

/* An object of that class exists: restores its vtable. False if that is impossible. */
bool sp_otelcpp_expect_done(const void *vptr);

#endif
