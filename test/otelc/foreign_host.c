/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the library that is not the SDK, and prints the results. */
#include "test/otelc/foreign.h"

#include "test/hosts/host.h"

int main(void)
{
	char *span;
	int64_t result;

	errno = 4242;
	span = otel_tracer_start_span("name");
	printf("%s errno %d\n", span, errno);
	printf("%d\n", otel_context_attach(1));
	printf("%d\n", otel_context_scope_detach(1));
	result = otel_span_end(-2, "b", INT64_MAX, 255, "e", INT64_MIN);
	printf("%lld errno %d\n", (long long)result, errno);
	return 4;
}
