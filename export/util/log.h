/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exporter says: formatted messages through sp_core_ops.log, with a limit for each site and minute, and
 * texts without secrets and control characters. Contexts: the exporter; sp_text_out also spanprof-report.
 */
#ifndef SP_EXPORT_LOG_H
#define SP_EXPORT_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* A text that is put together piece by piece, and is cut where it does not fit. */
struct sp_text_out {
	char *text; /* of the caller; NUL-terminated after the first piece */
	size_t cap; /* more than 0 */
	size_t len;
};

void sp_text_out_put(struct sp_text_out *t, const char *format, ...) SP_PRINTF(2, 3);

/* The last part of a path, as profiles and messages name a file: what follows its last slash. */
static inline const char *sp_text_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/*
 * Addresses contain passwords before an "@" and tokens after a "?", and they get into messages: ours,
 * libcurl's, and those of servers that quote the request. This removes the user information
 * of each URL in the text, and what follows a "?" or "#". In place. A URL ends at a blank; what looks like user
 * information counts as such, even after a "/".
 */
void sp_redact(char *text);

/* The same for len bytes with room for one more; returns how many are left. NULs become blanks. */
size_t sp_redact_bytes(char *text, size_t len);

#endif
