/* SPDX-License-Identifier: Apache-2.0 */
/* The SDKs in words, for the status file. Constant; read in BG. */
#include "preload/sdk.h"

#include "sampler/thread.h"

_Static_assert(SP_SDK_N <= SP_COUNTED_SDKS, "each is counted");

const struct sp_sdk_text sp_sdk_texts[SP_SDK_N] = {
	[SP_SDK_DORSAL] = {"dorsal-lab/opentelemetry-c", "functions"},
	[SP_SDK_OTELC] = {"otap-labs/opentelemetry-c", "functions"},
	[SP_SDK_OTELCPP_V1] = {"opentelemetry-cpp, ABI v1", "virtual methods"},
	[SP_SDK_OTELCPP_V2] = {"opentelemetry-cpp, ABI v2", "virtual methods"},
	[SP_SDK_HAPROXY] = {"haproxytech/opentelemetry-c-wrapper", "function table"},
};
