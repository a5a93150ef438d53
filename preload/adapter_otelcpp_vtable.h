/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds of opentelemetry-cpp that bind their functions inside the library (-Bsymbolic-functions,
 * -fno-semantic-interposition): the loader put their own functions into the vtables, where ours
 * have to be. INIT context, before the SDK's first object exists.
 */
#ifndef SP_ADAPTER_OTELCPP_VTABLE_H
#define SP_ADAPTER_OTELCPP_VTABLE_H

#include "preload/adapter_otelcpp_sdk.h"

/*
 * Puts our functions into those slots of the two vtables that hold the very functions we stand in
 * for. Nothing happens when there is no SDK, or when the loader already did it.
 */
void sp_otelcpp_vtable_patch(struct sp_otelcpp *sdk);

/*
 * INIT or APP. Puts a function into a slot, whose page has the rights afterwards that it had before. Nothing
 * happens where that is refused, or where other threads are at it all the time.
 */
void sp_otelcpp_vtable_replace(const void *const *slot, const void *function);

#endif
