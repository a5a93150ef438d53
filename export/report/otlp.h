/* SPDX-License-Identifier: Apache-2.0 */
/* Makes pprof of profiles in OTLP. */
#ifndef SP_REPORT_OTLP_H
#define SP_REPORT_OTLP_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "export/profile/pprof.h"
#include "profile.pb-c.h"

/* Whether these are OpenTelemetry's ProfilesData. If they are neither that nor pprof, the answer is no. */
bool sp_report_otlp_is(const struct sp_bytes *bytes);

/*
 * Calls take for every profile in it, as a message that is as little to be trusted as what came in, until one is refused;
 * take may put other strings into its table. Unpacks with that memory, and takes about as much once more. 0, what take
 * returned, or -1 with a reason in why; NULL = there was no memory.
 */
typedef int sp_report_take(void *arg, Spanprof__Pprof__Profile *profile);
int sp_report_otlp(const struct sp_bytes *bytes, ProtobufCAllocator *memory, sp_report_take *take,
		   void *arg, const char **why);

#endif
