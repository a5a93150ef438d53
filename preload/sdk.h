/* SPDX-License-Identifier: Apache-2.0 */
/* What was found not to hold for an SDK. */
#ifndef SP_SDK_H
#define SP_SDK_H

#include <stdint.h>

#include "sampler/sdk_texts.h"

/* APP. That fact does not hold for that SDK: says so the first time, for the status file as well. */
void sp_sdk_disproved(enum sp_sdk sdk, enum sp_sdk_fact fact);

/* Any context. Those of that SDK so far, a bit each. */
uint32_t sp_sdk_disproved_facts(enum sp_sdk sdk);

#endif
