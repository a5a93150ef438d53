/* SPDX-License-Identifier: Apache-2.0 */
/* Makes pprof of profiles in OTLP. */
#ifndef SP_REPORT_OTLP_H
#define SP_REPORT_OTLP_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "export/profile/pprof.h"

/* Whether these are OpenTelemetry's ProfilesData. If they are neither that nor pprof, the answer is no. */
bool sp_report_otlp_is(const struct sp_bytes *bytes);

/*
 * Calls each for every profile in it, as pprof that is as little to be trusted as what came in, until one is refused.
 * Unpacks with that memory. 0, what each returned, or -1 with a reason in why; NULL = there was no memory.
 */
int sp_report_otlp(const struct sp_bytes *bytes, ProtobufCAllocator *memory,
		   int (*each)(void *arg, const struct sp_bytes *pprof), void *arg,
		   const char **why);

#endif
