/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about reading traceparent headers. */
#include "preload/sdk/traceparent.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define ZEROS "00000000000000000000000000000000"

TestSuite(traceparent, .timeout = 20);

Test(traceparent, reads_both_ids_and_the_flag)
{
	const uint8_t trace[16] = {0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6,
				   0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36};
	const uint8_t span[8] = {0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7};
	struct sp_traceparent t;

	cr_assert(sp_traceparent_parse("00-" TRACE "-" SPAN "-01", &t));
	cr_assert_eq(memcmp(t.trace_id, trace, sizeof(trace)), 0);
	cr_assert_eq(memcmp(t.span_id, span, sizeof(span)), 0);
	cr_assert(t.sampled);
}

Test(traceparent, only_the_last_bit_says_sampled)
{
	const struct {
		const char *flags;
		bool sampled;
	} rows[] = {{"00", false}, {"01", true}, {"02", false}, {"03", true},
		    {"fe", false}, {"ff", true}, {"10", false}};
	char text[64];
	struct sp_traceparent t;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(text, sizeof(text), "00-" TRACE "-" SPAN "-%s", rows[i].flags);
		cr_assert(sp_traceparent_parse(text, &t));
		cr_assert_eq(t.sampled, rows[i].sampled, "%s", rows[i].flags);
	}
}

Test(traceparent, takes_what_follows)
{
	struct sp_traceparent t;

	cr_assert(sp_traceparent_parse("00-" TRACE "-" SPAN "-01 10 tracestate 0 ", &t));
	cr_assert(sp_traceparent_parse("00-" TRACE "-" SPAN "-01-more", &t));
}

Test(traceparent, takes_ids_with_a_single_bit)
{
	struct sp_traceparent t;

	cr_assert(sp_traceparent_parse("00-00000000000000000000000000000001-0000000000000001-00",
				       &t));
	cr_assert_eq(t.trace_id[15], 1);
	cr_assert_eq(t.span_id[7], 1);
}

Test(traceparent, refuses_what_is_malformed)
{
	const char *const bad[] = {
		"",
		"0",
		"00",
		"00-",
		"01-" TRACE "-" SPAN "-01",
		"ff-" TRACE "-" SPAN "-01",
		"00_" TRACE "-" SPAN "-01",
		" 00-" TRACE "-" SPAN "-01",
		"00-" TRACE,
		"00-" TRACE "-",
		"00-" TRACE "_" SPAN "-01",
		"00-" TRACE "-" SPAN,
		"00-" TRACE "-" SPAN "-",
		"00-" TRACE "-" SPAN "-0",
		"00-" TRACE "-" SPAN "-0g",
		"00-" TRACE "-" SPAN "-g0",
		"00-" TRACE "-" SPAN "_01",
		"00-" ZEROS "-" SPAN "-01",
		"00-" TRACE "-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
		"00-" TRACE "-00F067AA0BA902B7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736a-" SPAN "-01",
		"00-" TRACE "-00f067aa0ba902b-01",
		"00-" TRACE "-00f067aa0ba902b7a-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473g-" SPAN "-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473 -" SPAN "-01",
	};
	struct sp_traceparent t;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_not(sp_traceparent_parse(bad[i], &t), "\"%s\"", bad[i]);
}

/* Behind the text lies memory that may not be read; the address sanitizer sees it. */
Test(traceparent, reads_nothing_behind_the_end)
{
	const char *good = "00-" TRACE "-" SPAN "-01";
	struct sp_traceparent t;

	for (size_t n = 0; n < strlen(good); n++) {
		char *cut = strndup(good, n);

		cr_assert_not(sp_traceparent_parse(cut, &t), "%zu bytes", n);
		free(cut);
	}
}
