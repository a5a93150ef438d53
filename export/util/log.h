/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's messages: formatted messages through sp_core_ops.log, with a limit for each site and minute, and
 * texts without secrets and control characters. Contexts: the exporter; sp_text_out also spanprof-report.
 */
#ifndef SP_EXPORT_LOG_H
#define SP_EXPORT_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "export/export.h"
#include "sampler/base/compiler.h"

/* One for each statement in the code that may repeat its message. Initially zero. */
struct sp_export_log_site {
	uint64_t last_ns;
	unsigned held;
};

void sp_export_log(const struct sp_core_ops *ops, enum sp_log_level level, const char *fmt, ...)
	SP_PRINTF(3, 4);

/*
 * Logs at most one line per site and minute. The next line says how many messages were suppressed.
 */
void sp_export_log_limited(const struct sp_core_ops *ops, struct sp_export_log_site *site,
			   uint64_t now_ns, const char *fmt, ...) SP_PRINTF(4, 5);

/*
 * Makes one printable line of a foreign text, such as a server's message: control characters become blanks, invalid
 * UTF-8 is replaced, the line is cut at cap - 1 bytes and ends with a NUL. cap must not be 0.
 */
void sp_export_log_clean(char *out, size_t cap, const char *text, size_t len);

/* A text that is built piece by piece, and cut where it does not fit. */
struct sp_text_out {
	char *text; /* the caller's; NUL-terminated after the first piece */
	size_t cap; /* more than 0 */
	size_t len;
};

void sp_text_out_put(struct sp_text_out *t, const char *format, ...) SP_PRINTF(2, 3);

/* The last part of a path, by which profiles and messages name a file: everything after the last slash. */
static inline const char *sp_text_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/*
 * URLs may contain a password before an "@" and tokens after a "?". Our messages, libcurl's messages, and answers of
 * servers that quote the request contain URLs. This function removes, in place, the user information of each URL in
 * the text, and everything after a "?" or "#". A URL ends at a blank. Text that looks like user information counts as
 * such, even after a "/".
 */
void sp_redact(char *text);

/* The same for len bytes with room for one more. Returns the new length. NULs become blanks. */
size_t sp_redact_bytes(char *text, size_t len);

#endif
