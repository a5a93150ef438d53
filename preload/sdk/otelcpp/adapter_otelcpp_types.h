/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of opentelemetry-cpp whose functions cannot be interposed: linked statically into the
 * program or into a plugin, with hidden symbols, stripped, or bound inside the library. They are
 * found by the run-time type information of their classes (sdk_typeinfo.h), and our functions are
 * put into the slots of their vtables.
 *
 * The SDK itself tells when to look: before its first span it asks for variables that begin with
 * OTEL_, from inside the object that holds it. All or nothing: either every function that we need
 * of an instance is hooked, its start last, or none is.
 */
#ifndef SP_ADAPTER_OTELCPP_TYPES_H
#define SP_ADAPTER_OTELCPP_TYPES_H

#include <stdbool.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/* APP. Code at that address has asked for such a variable. Each object is looked at once. */
void sp_otelcpp_types_asked(const void *caller);

/* INIT, just before main(): looks at the objects that asked before our constructor. */
void sp_otelcpp_types_main(void);

/* Reads an instance's functions from its vtables, which are not hooked yet. It is known then. */
void sp_otelcpp_types_read(struct sp_otelcpp *sdk);

/*
 * The storage of the instance's contexts, self, attaches one: looks for the place where the SDK
 * keeps the pointer to it. False before the first span, when the place cannot be found yet. True at
 * once for instances that have names.
 */
bool sp_otelcpp_types_storage(struct sp_otelcpp *sdk, const void *self);

/* The first instance of each ABI version; all others of that version have its hooks and names. */
#define SP_OTELCPP_VERSIONS 2U
extern struct sp_otelcpp *const sp_otelcpp_first[SP_OTELCPP_VERSIONS];

#endif
