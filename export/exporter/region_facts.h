/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a region says of its process for the status file and the doctor: threads, spans, SDKs and
 * what was not understood of them. Whoever writes the region may write anything, also while it is
 * read: each value is read once, and a text ends where it has room. Context: the exporter.
 */
#ifndef SP_REGION_FACTS_H
#define SP_REGION_FACTS_H

#include <stdint.h>

#include "export/export.h"
#include "sampler/region/region.h"

/* Fills all but what the exporter itself sees of the process. */
void sp_region_facts(const struct sp_region *r, struct sp_core_facts *out);

/* Spans that were started by that SDK. */
uint64_t sp_region_facts_started(const struct sp_region *r, unsigned sdk);

#endif
