/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter for otap-labs/opentelemetry-c, libopentelemetry_c_api.so. */
#ifndef SP_ADAPTER_OTELC_H
#define SP_ADAPTER_OTELC_H

#include <stdbool.h>

#include "preload/elf/resolve.h"

/* APP. Whether the function belongs to the copy whose spans are labelled. */
bool sp_otelc_is_labelled(enum sp_next which, const void *function);

#endif
