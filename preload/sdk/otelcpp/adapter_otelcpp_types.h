/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the classes of opentelemetry-cpp in an object and puts our functions into the slots of their
 * vtables: by the names of the vtables where these are seen, and otherwise by run-time type
 * information (sdk_typeinfo.h), whatever is linked statically, hidden or stripped. All or nothing:
 * either every function that we need of an instance is hooked, its start last, or none is.
 */
#ifndef SP_ADAPTER_OTELCPP_TYPES_H
#define SP_ADAPTER_OTELCPP_TYPES_H

#include <stdbool.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/*
 * APP, one thread at a time. Looks at the object around that address, and stores the instance of
 * each ABI version that it has hooked. True if there is one at all.
 */
bool sp_otelcpp_types_look(const void *address, const struct sp_elf_range *object,
			   struct sp_otelcpp **sdk);

/* The function of that name in that object, else in the first one that has it; NULL if none has. */
void *sp_otelcpp_types_real(const struct sp_elf_range *object, const char *name);

#endif
