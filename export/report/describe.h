/* SPDX-License-Identifier: Apache-2.0 */
/* What a report is about, in words: service, spans, time, sums. Not cleaned: names are of others. */
#ifndef SP_REPORT_DESCRIBE_H
#define SP_REPORT_DESCRIBE_H

#include "export/report/reading.h"

#define SP_DESCRIBE_TEXT 1024

/* "checkout: CPU time of span 9a517183f26a089d (GET /orders)" */
void sp_describe_title(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

/* "2026-11-22 19:30:05 to 19:40:12 UTC; 12.345 s CPU, 1234 samples, 120 spans, 3 profiles" */
void sp_describe_sums(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

/* What would make the names of functions better, or "". */
void sp_describe_hint(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

#endif
