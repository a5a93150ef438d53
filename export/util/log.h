/* SPDX-License-Identifier: Apache-2.0 */
/* Formatted messages through sp_core_ops.log, with a limit for each site and minute. */
#ifndef SP_EXPORT_LOG_H
#define SP_EXPORT_LOG_H

#include <stdint.h>

#include "export/export.h"
#include "sampler/base/compiler.h"

/* One per place that may repeat itself; zero it at first use. */
struct sp_export_log_site {
	uint64_t last_ns;
	unsigned held;
};

void sp_export_log(const struct sp_core_ops *ops, enum sp_log_level level, const char *fmt, ...)
	SP_PRINTF(3, 4);

/* At most one line per site and minute; the next one tells how many were held back. */
void sp_export_log_limited(const struct sp_core_ops *ops, struct sp_export_log_site *site,
			   uint64_t now_ns, const char *fmt, ...) SP_PRINTF(4, 5);

/* One printable line out of foreign text (a server's message): control characters become blanks,
 * invalid UTF-8 is replaced, cut at cap - 1 bytes, NUL-terminated. cap must not be 0. */
void sp_export_log_clean(char *out, size_t cap, const char *text, size_t len);

#endif
