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

/*
 * Prints that span, and the stacks of it as spanprof-report --json tells them, if it does. How far it, and the sum
 * of all orders, are from the truth goes to *off: milliseconds, and percent.
 */
struct waits_errors {
	double duration_percent; /* CPU, runnable and blocked time, against the duration */
	double lock_ms;
	double io_ms;
	double sum_percent; /* the larger one of the sums of lock and I/O time */
};
void waits_print(json_t *spans, const json_t *span, const json_t *report, struct waits_errors *off);

#endif
