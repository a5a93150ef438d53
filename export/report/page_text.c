/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes texts of profiles for pages (page_text.h). Context: the report tool. */
#include "export/report/page_text.h"

#include <string.h>

#include "export/report/frame.h"

/* In HTML a script ends at "</script" wherever that stands, and "<!--" changes what ends it. */
void sp_page_put_json(FILE *out, const char *s)
{
	char clean[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(s, clean);
	(void)fputc('"', out);
	for (s = clean; *s != '\0'; s++) {
		if (strchr("\"\\<>&", *s) != NULL)
			(void)fprintf(out, "\\u%04x", (unsigned)*s);
		else
			(void)fputc(*s, out);
	}
	(void)fputc('"', out);
}

void sp_page_put_html(FILE *out, const char *s)
{
	char clean[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(s, clean);
	for (s = clean; *s != '\0'; s++) {
		if (strchr("\"'<>&", *s) != NULL)
			(void)fprintf(out, "&#%u;", (unsigned)*s);
		else
			(void)fputc(*s, out);
	}
}
