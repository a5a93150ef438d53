/* SPDX-License-Identifier: Apache-2.0 */
/* The SDKs in words, and what was found not to hold for them. Contexts: APP, BG. */
#include "preload/sdk.h"

#include <stdatomic.h>

#include "preload/life.h"
#include "sampler/config.h"
#include "sampler/log.h"
#include "sampler/thread.h"

_Static_assert(SP_SDK_N <= SP_COUNTED_SDKS, "each is counted");

const struct sp_sdk_text sp_sdk_texts[SP_SDK_N] = {
	[SP_SDK_DORSAL] = {"dorsal-lab/opentelemetry-c", "functions"},
	[SP_SDK_OTELC] = {"otap-labs/opentelemetry-c", "functions"},
	[SP_SDK_OTELCPP_V1] = {"opentelemetry-cpp, ABI v1", "virtual methods"},
	[SP_SDK_OTELCPP_V2] = {"opentelemetry-cpp, ABI v2", "virtual methods"},
	[SP_SDK_HAPROXY] = {"haproxytech/opentelemetry-c-wrapper", "function table"},
};

#define FROM_START_TO_END "its scopes are not followed, spans label from start to end"
#define NOT_AT_ALL "its spans are not profiled"

const struct sp_sdk_fact_text sp_sdk_fact_texts[SP_SDK_FACT_N] = {
	[SP_SDK_FACT_CLASS] = {"class of spans", NOT_AT_ALL},
	[SP_SDK_FACT_POINTER] = {"smart pointers", NOT_AT_ALL},
	[SP_SDK_FACT_IDS] = {"trace::SpanContext", NOT_AT_ALL},
	[SP_SDK_FACT_SPAN] = {"place of a span's context", "the SDK is asked for the ids instead"},
	[SP_SDK_FACT_PARENT] = {"trace::StartSpanOptions",
				"the span that is active on the thread counts as the parent"},
	[SP_SDK_FACT_CONTEXT] = {"context::Context", FROM_START_TO_END},
	[SP_SDK_FACT_TOKEN] = {"context::Token", FROM_START_TO_END},
	[SP_SDK_FACT_STORAGE] = {"context::RuntimeContextStorage", FROM_START_TO_END},
	[SP_SDK_FACT_NESTING] = {"nesting of scopes", FROM_START_TO_END},
};

static _Atomic uint32_t disproved[SP_SDK_N];

void sp_sdk_disproved(enum sp_sdk sdk, enum sp_sdk_fact fact)
{
	uint32_t bit = UINT32_C(1) << fact;
	/* where nothing is lost there is nothing to warn of */
	enum sp_log_level level = fact == SP_SDK_FACT_SPAN ? SP_LOG_INFO : SP_LOG_WARN;

	if ((atomic_fetch_or_explicit(&disproved[sdk], bit, memory_order_relaxed) & bit) != 0)
		return;
	/* of an SDK that cannot be read there may never be an activation */
	if (!sp_life_active())
		sp_config_parse_log_level();
	sp_log(level, "%s: this release's %s is not understood: %s", sp_sdk_texts[sdk].name,
	       sp_sdk_fact_texts[fact].name, sp_sdk_fact_texts[fact].instead);
}

uint32_t sp_sdk_disproved_facts(enum sp_sdk sdk)
{
	return atomic_load_explicit(&disproved[sdk], memory_order_relaxed);
}
