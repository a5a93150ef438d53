/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of opentelemetry-cpp by their mangled names, as C sees them. */
#ifndef TEST_OTELCPP_STRANGER_H
#define TEST_OTELCPP_STRANGER_H

#include <stddef.h>

#define STRANGER(rest) __asm__("_ZN13opentelemetry2v13sdk5trace" rest)

/* Returned in memory, as a C++ object with a destructor is. */
struct stranger_result {
	void *word[4];
};

struct stranger_result stranger_start(void *tracer, size_t len, const char *name,
				      const void *attributes, const void *links,
				      const void *options)
	STRANGER("6Tracer9StartSpanENS0_5nostd11string_viewERKNS0_6common16KeyValueIterableE"
		 "RKNS0_5trace27SpanContextKeyValueIterableERKNSA_16StartSpanOptionsE");
void stranger_end(void *span, const void *options)
	STRANGER("4Span3EndERKNS0_5trace14EndSpanOptionsE");
void stranger_destroy(void *span) STRANGER("4SpanD1Ev");

extern long stranger_words[6];

#endif
