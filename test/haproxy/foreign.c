/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that shares one name with opentelemetry-c-wrapper and nothing else, and, with HOST, a
 * program that uses it: what it gives and gets must not depend on who stands between them.
 */
#include <stdint.h>
#include <stdio.h>

__attribute__((visibility("default"))) int64_t
otelc_tracer_create(int16_t a, const char *b, int64_t c, uint8_t d, const char *e, int64_t f);

#ifdef HOST

int main(void)
{
	int64_t got = otelc_tracer_create(-3, "b", INT64_MIN, 200, "e", INT64_MAX);

	printf("%lld\n", (long long)got);
	return got == (INT64_C(1) << 62) + 5 ? 4 : 1;
}

#else

int64_t otelc_tracer_create(int16_t a, const char *b, int64_t c, uint8_t d, const char *e,
			    int64_t f)
{
	printf("%d %s %lld %d %s %lld\n", a, b, (long long)c, d, e, (long long)f);
	return (INT64_C(1) << 62) + 5;
}

#endif
