/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the facts that we assume of an SDK (sampler/region/sdk_texts.h) proved wrong. */
#ifndef SP_SDK_H
#define SP_SDK_H

#include <stdint.h>

#include "sampler/region/sdk_texts.h"

/*
 * APP. That fact does not hold for that SDK: logs it the first time, and publishes it for the
 * status file.
 */
void sp_sdk_disproved(enum sp_sdk sdk, enum sp_sdk_fact fact);

/* Any context. The facts that proved wrong for that SDK, a bit for each. */
uint32_t sp_sdk_disproved_facts(enum sp_sdk sdk);

#endif
