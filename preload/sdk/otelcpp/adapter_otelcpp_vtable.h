/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces functions in the SDK's vtables. INIT and APP context. */
#ifndef SP_ADAPTER_OTELCPP_VTABLE_H
#define SP_ADAPTER_OTELCPP_VTABLE_H

#include <stdbool.h>

/*
 * Puts a function into a slot; the page's protection is the same afterwards. Does nothing and
 * returns false if that is refused, if other threads hold the lock for too long, or if there is code
 * in a page that is not writable.
 */
bool sp_otelcpp_vtable_replace(const void *const *slot, const void *function);

#endif
