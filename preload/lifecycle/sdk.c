/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers and logs which assumptions proved wrong for an SDK. Context: APP. */
#include "preload/lifecycle/sdk.h"

#include <stdatomic.h>

#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/log.h"
#include "sampler/config/config.h"
#include "sampler/region/region.h"

static _Atomic uint32_t disproved[SP_SDK_N];

void sp_sdk_disproved(enum sp_sdk sdk, enum sp_sdk_fact fact)
{
	struct sp_region *r = sp_region_now();
	uint32_t bit = UINT32_C(1) << fact;
	/* nothing is lost by this one, so no warning */
	enum sp_log_level level = fact == SP_SDK_FACT_SPAN ? SP_LOG_INFO : SP_LOG_WARN;

	if ((atomic_fetch_or_explicit(&disproved[sdk], bit, memory_order_relaxed) & bit) != 0)
		return;
	/* the next publication may be far away */
	if (r != NULL)
		atomic_fetch_or_explicit(&r->sdk[sdk].disproved, bit, memory_order_relaxed);
	/*
	 * with an SDK that cannot be read there may never be an activation, which reads the log
	 * level
	 */
	if (!sp_lifecycle_active())
		sp_config_parse_log_level();
	sp_log(level, "%s: this release's %s is not understood: %s", sp_sdk_texts[sdk].name,
	       sp_sdk_fact_texts[fact].name, sp_sdk_fact_texts[fact].instead);
}

uint32_t sp_sdk_disproved_facts(enum sp_sdk sdk)
{
	return atomic_load_explicit(&disproved[sdk], memory_order_relaxed);
}
