/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another project's library, which happens to use the same names as the SDK, with other parameters and results. It
 * prints its arguments.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "test/otelc/foreign.h"

__attribute__((visibility("default"))) void *otel_tracer_start_span(const char *name)
{
	static char span[] = "foreign";

	printf("start %s errno %d\n", name, errno);
	return span;
}

__attribute__((visibility("default"))) int64_t otel_span_end(int16_t a, const char *b, int64_t c,
							     uint8_t d, const char *e, int64_t f)
{
	printf("end %d %s %lld %u %s %lld\n", a, b, (long long)c, d, e, (long long)f);
	errno = 77;
	return INT64_MIN + 5;
}

__attribute__((visibility("default"))) int otel_context_attach(int small)
{
	printf("attach %d\n", small);
	return 0;
}

__attribute__((visibility("default"))) int otel_context_scope_detach(int small)
{
	printf("detach %d\n", small);
	return 0;
}
