/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes texts of profiles safe for terminals and files; they are untrusted. Context: the report
 * tool.
 */
#include "export/report/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sampler/base/text.h"

size_t sp_report_clean(const char *s, char out[SP_REPORT_TEXT_MAX + 1])
{
	size_t len = sp_text_clean(out, SP_REPORT_TEXT_MAX, s, strlen(s));

	sp_text_printable(out, len);
	out[len] = '\0';
	return len;
}

size_t sp_report_frame_text(const struct sp_report_frame *f, bool lines,
			    char out[SP_REPORT_TEXT_MAX + 1])
{
	char number[24] = "";
	char whole[2 * SP_REPORT_TEXT_MAX + 32];

	if (!lines || f->file[0] == '\0')
		return sp_report_clean(f->name, out);
	if (f->line != 0)
		(void)snprintf(number, sizeof(number), ":%" PRIu64, f->line);
	(void)snprintf(whole, sizeof(whole), "%s (%s%s)", f->name, f->file, number);
	/* What does not fit may end amid a character. */
	return sp_report_clean(whole, out);
}

void sp_report_complain(const char *path, const char *why)
{
	char where[SP_REPORT_TEXT_MAX + 1];
	char what[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(path, where);
	(void)sp_report_clean(why, what);
	(void)fprintf(stderr, "spanprof-report: %s%s%s\n", where, where[0] != '\0' ? ": " : "",
		      what);
}
