/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells that an SDK is about to be used, so that its classes are looked for now
 * (adapter_otelcpp_types.h):
 *
 * - it asks for variables that begin with OTEL_ before its first span, from inside one of its
 *   objects. That reaches every SDK, but needs a getenv() that is ours.
 * - a start, where the loader has bound the SDK's vtable to our function of its name. That is for
 *   plugins with such names whose program sets everything in code, or has a getenv() of its own.
 * - the program is linked with an SDK that binds its functions itself (-Bsymbolic), which is seen
 *   before main().
 */
#ifndef SP_ADAPTER_OTELCPP_TRIGGER_H
#define SP_ADAPTER_OTELCPP_TRIGGER_H

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/* APP. Code at that address has asked for such a variable. Each object is looked at once. */
void sp_otelcpp_asked(const void *caller);

/* INIT, just before main(): looks at the objects that asked before our constructor. */
void sp_otelcpp_main(void);

/*
 * APP. A start by one of its names, of a tracer of that class: its instance, NULL if there is none,
 * and the SDK's own function, NULL if nothing has that name.
 */
struct sp_otelcpp *sp_otelcpp_started(const struct sp_otelcpp_names *names, unsigned which,
				      const void *const *vptr, void **next);

#endif
