/* SPDX-License-Identifier: Apache-2.0 */
/* Prints where the time of spans went (span_waits.h, print.h). Context: the report tool. */
#include <inttypes.h>
#include <jansson.h>

#include "export/report/print.h"
#include "sampler/base/compiler.h"

/* Stacks of a name; each has at least this share of the name's time, in percent. */
#define STACKS_MAX 4U
#define SHARE_LEAST 5.0

static double seconds(uint64_t ns)
{
	return (double)ns / (double)SP_NS_PER_S;
}

static uint64_t wall_of(const struct sp_waits_name *n)
{
	return n->ns[SP_WAITS_ON_CPU] + n->ns[SP_WAITS_RUNNABLE] + n->ns[SP_WAITS_BLOCKED];
}

static void print_stacks(FILE *out, const struct sp_span_waits *w, const struct sp_print *p,
			 uint32_t row)
{
	uint64_t wall = wall_of(&w->name[row]);
	char text[SP_WAITS_STACK_TEXT];
	const struct sp_waits_stack *s;
	size_t at = 0;

	for (unsigned i = 0; i < STACKS_MAX; i++) {
		s = sp_span_waits_next(w, row, &at);
		if (s == NULL || 100.0 * (double)s->ns < SHARE_LEAST * (double)wall)
			break;
		sp_span_waits_describe(w, s, text);
		sp_report_put_cut(out, p,
				  (unsigned)fprintf(out, "%16.1f%%  %-8s  ",
						    100.0 * (double)s->ns / (double)wall,
						    sp_waits_state_words[s->state]),
				  text, SP_CUT_END);
		(void)fputc('\n', out);
	}
}

void sp_report_print_span_waits(FILE *out, const struct sp_span_waits *w, const struct sp_print *p)
{
	size_t n = p->top != 0 && p->top < w->names ? p->top : w->names;

	if (!sp_span_waits_any(w))
		return;
	(void)fprintf(out, "\n%s%9s %10s %10s %10s %10s  %s%s\n", p->coloured ? "\x1b[1m" : "",
		      "spans", "wall s", "CPU s", "runnable s", "blocked s", "span_name",
		      p->coloured ? "\x1b[0m" : "");
	for (uint32_t i = 0; i < n; i++) {
		const struct sp_waits_name *row = &w->name[i];
		const char *name = sp_span_waits_text(w, row->name);

		sp_report_put_cut(out, p,
				  (unsigned)fprintf(out,
						    "%9" PRIu32 " %10.2f %10.2f %10.2f %10.2f  ",
						    row->spans, seconds(wall_of(row)),
						    seconds(row->ns[SP_WAITS_ON_CPU]),
						    seconds(row->ns[SP_WAITS_RUNNABLE]),
						    seconds(row->ns[SP_WAITS_BLOCKED])),
				  name[0] != '\0' ? name : "(no span_name)", SP_CUT_END);
		(void)fputc('\n', out);
		print_stacks(out, w, p, i);
	}
	if (n < w->names)
		(void)fprintf(out, "%9s %zu names more\n", "", w->names - n);
}

static json_t *json_stacks(const struct sp_span_waits *w, uint32_t row)
{
	char text[SP_WAITS_STACK_TEXT];
	const struct sp_waits_stack *s;
	json_t *stacks = json_array();
	size_t at = 0;

	for (unsigned i = 0; i < STACKS_MAX; i++) {
		s = sp_span_waits_next(w, row, &at);
		if (s == NULL)
			break;
		sp_span_waits_describe(w, s, text);
		json_array_append_new(stacks, json_pack("{s:s, s:I, s:s}", "state",
							sp_waits_state_words[s->state], "ns",
							(json_int_t)s->ns, "stack", text));
	}
	return stacks;
}

json_t *sp_report_json_span_waits(const struct sp_tally *t, size_t i)
{
	const struct sp_span_waits *w = &t->waits;
	const struct sp_waits_name *n = &w->name[i];

	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "span_name",
			 sp_span_waits_text(w, n->name), "spans", (json_int_t)n->spans, "wall_ns",
			 (json_int_t)wall_of(n), "cpu_ns", (json_int_t)n->ns[SP_WAITS_ON_CPU],
			 "runnable_ns", (json_int_t)n->ns[SP_WAITS_RUNNABLE], "blocked_ns",
			 (json_int_t)n->ns[SP_WAITS_BLOCKED], "stacks",
			 json_stacks(w, (uint32_t)i));
}
