/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of slow orders went: compares the attributes of their spans (SPANPROF_SPAN_TIMES) with the server's
 * own measurements, which are set on the same spans. Caller: summary.c.
 */
#ifndef RIDESHARE_WAITS_H
#define RIDESHARE_WAITS_H

#include <jansson.h>

/* Of spans by id: the slowest one that hardly computed; NULL = no span has the attributes. */
const json_t *waits_slowest(json_t *spans);

/* Prints that span. *off gets its differences from the truth. */
struct waits_errors {
	double duration_percent; /* CPU and off-CPU time, against the duration */
	double off_cpu_ms;       /* compared with the server's waits for its lock and its bank */
};
void waits_print(const json_t *span, struct waits_errors *off);

/*
 * Prints which orders waited for which, by the report of waiting time and by the spans, which have it from the
 * server.
 */
struct waits_holders {
	double profile_ns;
	double truth_ns;
	double wrong_ns; /* the profile's time for pairs that the server does not know */
	double samples;
};
void waits_print_holders(json_t *spans, const json_t *report, struct waits_holders *out);

#endif
