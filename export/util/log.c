/* SPDX-License-Identifier: Apache-2.0 */
#include "export/util/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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

void sp_text_out_put(struct sp_text_out *t, const char *format, ...)
{
	size_t left = t->cap - t->len;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(t->text + t->len, left, format, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n < left ? (size_t)n : left - 1;
}

void sp_redact(char *text)
{
	char *url = text;

	while ((url = strstr(url, "://")) != NULL) {
		char *begin = url + 3;
		size_t len = strcspn(begin, " \t\r\n");
		char *host = begin;
		size_t keep;

		/* A password that was not encoded may hold any of "/?#@". */
		for (size_t i = 0; i < len; i++)
			if (begin[i] == '@')
				host = begin + i + 1;
		len -= (size_t)(host - begin);
		keep = strcspn(host, "?# \t\r\n");
		memmove(begin, host, keep);
		memmove(begin + keep, host + len, strlen(host + len) + 1);
		url = begin + keep;
	}
}

size_t sp_redact_bytes(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	text[len] = '\0';
	sp_redact(text);
	return strlen(text);
}
