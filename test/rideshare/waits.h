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
 * Prints that span, and the stacks of it as spanprof-report --json tells them, if it does. How far it is from the truth
 * goes to *off.
 */
struct waits_errors {
	double duration_percent; /* CPU and off-CPU time, against the duration */
	double off_cpu_ms;       /* against what the server waited for its lock and its bank */
};
void waits_print(const json_t *span, const json_t *report, struct waits_errors *off);

#endif
