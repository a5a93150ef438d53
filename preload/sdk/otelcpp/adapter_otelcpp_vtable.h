/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For builds of opentelemetry-cpp that bind their functions inside the library
 * (-Bsymbolic-functions, -fno-semantic-interposition): the loader puts the library's own functions
 * into the vtables, and virtual calls would not reach our hooks. So the hooks are put into the
 * vtables before the SDK's first object exists. INIT context.
 */
#ifndef SP_ADAPTER_OTELCPP_VTABLE_H
#define SP_ADAPTER_OTELCPP_VTABLE_H

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/*
 * Puts our functions into those slots of the two vtables that hold exactly the functions we
 * interpose. Does nothing if there is no SDK, or if the loader already bound the slots to ours.
 */
void sp_otelcpp_vtable_patch(struct sp_otelcpp *sdk);

/*
 * INIT or APP. Puts a function into a slot; the page's protection is the same afterwards. Does
 * nothing and returns false if that is refused, if other threads hold the lock for too long, or if
 * there is code in a page that is not writable.
 */
bool sp_otelcpp_vtable_replace(const void *const *slot, const void *function);

#endif
