/* SPDX-License-Identifier: Apache-2.0 */
/* Says what a report is about (describe.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/describe.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "export/util/text_out.h"
#include "sampler/base/compiler.h"

/* The name of the selected spans, if they have one, and only one. */
static const char *name_of(const struct sp_reading *r)
{
	const struct sp_tally *t = &r->tally;

	return t->names == 1 && t->labelled.ns == t->total.ns ? sp_tally_text(t, t->name[0].name)
							      : "";
}

void sp_describe_title(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT])
{
	const struct sp_selection *x = &r->selection;
	struct sp_text_out t = {out, SP_DESCRIBE_TEXT, 0};

	out[0] = '\0';
	if (r->service[0] != '\0')
		sp_text_out_put(&t, "%s%s: ", r->service, r->services ? " and others" : "");
	sp_text_out_put(&t, "%s time", sp_reading_time_of(r));
	if (x->trace_id != NULL)
		sp_text_out_put(&t, " of trace %.64s", x->trace_id);
	if (x->span_id != NULL)
		sp_text_out_put(&t, " of span %.64s", x->span_id);
	if (x->span_name != NULL && x->span_id == NULL)
		sp_text_out_put(&t, " of spans named %.512s", x->span_name);
	else if (name_of(r)[0] != '\0')
		sp_text_out_put(&t, " (%.512s)", name_of(r));
}

static void put_time(struct sp_text_out *t, const struct sp_reading *r)
{
	time_t from = (time_t)(r->from_ns / SP_NS_PER_S);
	time_t to = (time_t)(r->to_ns / SP_NS_PER_S);
	char from_text[32];
	char to_text[32];
	struct tm a;
	struct tm b;
	bool one_day;

	if (r->from_ns == 0 || gmtime_r(&from, &a) == NULL || gmtime_r(&to, &b) == NULL)
		return;
	one_day = a.tm_yday == b.tm_yday && a.tm_year == b.tm_year;
	if (strftime(from_text, sizeof(from_text), "%Y-%m-%d %H:%M:%S", &a) != 0 &&
	    strftime(to_text, sizeof(to_text), one_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &b) != 0)
		sp_text_out_put(t, "%s to %s UTC; ", from_text, to_text);
}

static void put_baseline(struct sp_text_out *t, const struct sp_reading *r)
{
	if (r->selection.diff)
		sp_text_out_put(t, "; baseline: %.3f s of %" PRIu32 " other spans of that name",
				(double)r->tally.base.ns / (double)SP_NS_PER_S,
				r->tally.base_spans);
	else if (r->tally.diff)
		sp_text_out_put(t, "; baseline: %.3f s in %zu %s",
				(double)r->tally.base.ns / (double)SP_NS_PER_S, r->base_files,
				r->base_files == 1 ? "profile" : "profiles");
}

void sp_describe_sums(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT])
{
	const struct sp_tally *sums = &r->tally;
	struct sp_text_out t = {out, SP_DESCRIBE_TEXT, 0};

	out[0] = '\0';
	put_time(&t, r);
	sp_text_out_put(&t, "%.3f s %s, %" PRIu64 " samples, %zu %s, %zu %s",
			(double)sums->total.ns / (double)SP_NS_PER_S, sp_reading_time_of(r),
			sums->total.samples, sums->spans, sums->spans == 1 ? "span" : "spans",
			r->files, r->files == 1 ? "profile" : "profiles");
	put_baseline(&t, r);
}
