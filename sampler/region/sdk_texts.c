/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the SDKs and of the facts that may prove wrong for them, as messages and the status
 * file show them.
 */
#include "sampler/region/sdk_texts.h"

#include "sampler/base/counters.h"

_Static_assert(SP_SDK_N <= SP_COUNTED_SDKS, "each is counted");

const struct sp_sdk_text sp_sdk_texts[SP_SDK_N] = {
	[SP_SDK_OTELC] = {"otap-labs/opentelemetry-c", "functions"},
	[SP_SDK_OTELCPP_V1] = {"opentelemetry-cpp, ABI v1", "virtual methods"},
	[SP_SDK_OTELCPP_V2] = {"opentelemetry-cpp, ABI v2", "virtual methods"},
};

const char sp_sdk_way_texts[SP_SDK_WAY_N][64] = {
	[SP_SDK_WAY_NAMES] = "virtual methods, by name",
	[SP_SDK_WAY_TYPES] = "virtual methods, found by run-time type information",
};

#define FROM_START_TO_END "its scopes are not followed, spans label from start to end"
#define NOT_AT_ALL "its spans are not profiled"

const struct sp_sdk_fact_text sp_sdk_fact_texts[SP_SDK_FACT_N] = {
	[SP_SDK_FACT_CLASS] = {"class of spans", NOT_AT_ALL},
	[SP_SDK_FACT_POINTER] = {"smart pointer", NOT_AT_ALL},
	[SP_SDK_FACT_IDS] = {"trace::SpanContext", NOT_AT_ALL},
	[SP_SDK_FACT_SPAN] = {"place of a span's context", "the SDK is asked for the ids instead"},
	[SP_SDK_FACT_PARENT] = {"trace::StartSpanOptions",
				"the span that is active on the thread counts as the parent"},
	[SP_SDK_FACT_CONTEXT] = {"context::Context", FROM_START_TO_END},
	[SP_SDK_FACT_TOKEN] = {"context::Token", FROM_START_TO_END},
	[SP_SDK_FACT_STORAGE] = {"context::RuntimeContextStorage", FROM_START_TO_END},
	[SP_SDK_FACT_NESTING] = {"nesting of scopes", FROM_START_TO_END},
	[SP_SDK_FACT_RESOURCE] = {"resource::Resource", "only variables name the service"},
	[SP_SDK_FACT_OWN_STORAGE] =
		{"the program's own context storage",
		 "attach and detach do not show which span a thread works for, as "
		 "when fibers switch or a compiler calls Detach directly, so "
		 "scopes label no samples"},
	[SP_SDK_FACT_INSTANCES] = {"more than 32 instances in one program",
				   "the spans of the other instances are not profiled"},
};
