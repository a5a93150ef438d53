/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats the exporter's messages, limits repeated warnings and makes foreign text printable.
 * sp_core_ops.log writes them. Context: the exporter.
 */
#include "export/util/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "sampler/base/text.h"

#define SP_EXPORT_LOG_BYTES 1000

void sp_export_log(const struct sp_core_ops *ops, enum sp_log_level level, const char *fmt, ...)
{
	char text[SP_EXPORT_LOG_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ops->log(ops->arg, level, text);
}

void sp_export_log_limited(const struct sp_core_ops *ops, struct sp_export_log_site *site,
			   uint64_t now_ns, const char *fmt, ...)
{
	char text[SP_EXPORT_LOG_BYTES];
	va_list ap;

	if (site->last_ns != 0 && now_ns - site->last_ns < 60 * SP_NS_PER_S) {
		site->held++;
		return;
	}
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (site->held != 0)
		sp_export_log(ops, SP_LOG_WARN, "%.900s (%u more such messages held back)", text,
			      site->held);
	else
		ops->log(ops->arg, SP_LOG_WARN, text);
	site->last_ns = now_ns != 0 ? now_ns : 1;
	site->held = 0;
}

void sp_export_log_clean(char *out, size_t cap, const char *text, size_t len)
{
	size_t n = sp_text_clean(out, cap - 1, text, len);

	sp_text_printable(out, n);
	out[n] = '\0';
}
