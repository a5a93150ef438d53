/* SPDX-License-Identifier: Apache-2.0 */
/* Converts profiles from OTLP to pprof. */
#ifndef SP_REPORT_OTLP_H
#define SP_REPORT_OTLP_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "export/profile/pprof.h"
#include "profile.pb-c.h"

/* Whether the bytes are OpenTelemetry's ProfilesData. False if they are neither that nor pprof. */
bool sp_report_otlp_is(const struct sp_bytes *bytes);

/*
 * Converts each profile of the message, and calls take() for it until take() fails. The converted
 * profile is as untrusted as the original; take() may replace strings in its table. Unpacking uses
 * `memory`, and converting takes about as much again. 0; the first result of take() that is not 0;
 * or -1 with a reason in why, NULL = out of memory.
 */
typedef int sp_report_take(void *arg, Spanprof__Pprof__Profile *profile);
int sp_report_otlp(const struct sp_bytes *bytes, ProtobufCAllocator *memory, sp_report_take *take,
		   void *arg, const char **why);

#endif
