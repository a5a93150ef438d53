/* SPDX-License-Identifier: Apache-2.0 */
/* Says what a report is about (describe.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/describe.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "export/util/log.h"
#include "sampler/base/compiler.h"

/* A function is worth a hint from this part of the time on. */
#define SP_HINT_SHARE 100

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

/* The length of the object's name where a function is known by its address alone, "libm.so.6+0x702c0"; else 0. */
static size_t object_of(const char *function)
{
	const char *plus = strrchr(function, '+');

	if (plus == NULL || plus[1] != '0' || plus[2] != 'x' || plus[3] == '\0' ||
	    plus[3 + strspn(plus + 3, "0123456789abcdef")] != '\0')
		return 0;
	return (size_t)(plus - function);
}

static bool is_of_libc(const char *function)
{
	static const char *const names[] = {"libc.so.6+", "libm.so.6+", "ld-linux-",      "libc-2.",
					    "libm-2.",    "libpthread", "libresolv.so.2+"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(function, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/*
 * Only of functions that use some time themselves. Most programs have callers without a name at the root of
 * each stack, such as those of a thread pool, and a hint about these would be in every report.
 */
void sp_describe_hint(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT])
{
	const struct sp_tally *sums = &r->tally;
	struct sp_text_out t = {out, SP_DESCRIBE_TEXT, 0};
	const char *worst = NULL;
	uint64_t most_ns = sums->total.ns / SP_HINT_SHARE;

	out[0] = '\0';
	for (size_t i = 0; i < sums->functions; i++) {
		const struct sp_function_row *f = &sums->function[i];
		const char *name = sp_tally_text(sums, f->name);

		if (f->self.ns <= most_ns || object_of(name) == 0)
			continue;
		worst = name;
		most_ns = f->self.ns;
	}
	if (worst == NULL)
		return;
	sp_text_out_put(&t, "%.100s is a function without a name: install ", worst);
	if (is_of_libc(worst))
		sp_text_out_put(&t, "the symbols of the C library (libc6-dbg)");
	else
		sp_text_out_put(&t, "the debug symbols of %.*s", (int)object_of(worst), worst);
	sp_text_out_put(&t, ", or run the program with DEBUGINFOD_URLS");
}
