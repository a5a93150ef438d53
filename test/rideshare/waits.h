/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of slow orders went: what their spans say (SPANPROF_SPAN_TIMES), against what the server has
 * measured with its own clocks, and set on the same spans. Who calls: summary.c.
 */
#ifndef RIDESHARE_WAITS_H
#define RIDESHARE_WAITS_H

#include <jansson.h>

/* Of spans by id: the slowest one that hardly computed; NULL = there is none that knows where its time went. */
const json_t *waits_slowest(json_t *spans);

/* Prints that span. How far it is from the truth goes to *off. */
struct waits_errors {
	double duration_percent; /* CPU and off-CPU time, against the duration */
	double off_cpu_ms;       /* against what the server waited for its lock and its bank */
};
void waits_print(const json_t *span, struct waits_errors *off);

/* Prints who waited for whom, as the report of waiting time tells and as the spans do, which have it of the server. */
struct waits_holders {
	double profile_ns;
	double truth_ns;
	double wrong_ns; /* of the profile: for an order that the server knows nothing of */
	double samples;
};
void waits_print_holders(json_t *spans, const json_t *report, struct waits_holders *out);

#endif
