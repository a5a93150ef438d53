/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A storage of contexts that does not exist yet. opentelemetry-cpp makes it when it is asked for the
 * current context first; since 1.28 a span with an explicit root does not ask. If the program then
 * attaches that span, the storage is made inside the attach, before it has a vptr that could be turned
 * (adapter_otelcpp_scope.h): the process's first scope would pass by us, and its span be taken for one
 * that labels until its end. So until then the class's own vtable sends attaches to us, and gets its own
 * function back at the first one, or when the storage is seen otherwise. APP context.
 */
#ifndef SP_ADAPTER_OTELCPP_EXPECT_H
#define SP_ADAPTER_OTELCPP_EXPECT_H

#include <stdbool.h>

#include "preload/adapter_otelcpp_sdk.h"

/*
 * There is a recorded span, and no storage. Once per instance of the SDK; nothing happens where that fails.
 */
void sp_otelcpp_expect_storage(struct sp_otelcpp *sdk);

/* An object of that class is there: its vtable is as it was before. False if it could not be put back. */
bool sp_otelcpp_expect_done(const void *vptr);

#endif
