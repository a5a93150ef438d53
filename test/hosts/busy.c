/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight threads with few pauses, each with spans of its own name, until standard input ends. Only the function
 * thread_N runs in spans with the name "thread-N".
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define SPAN_MS 3
#define REST_MS 12

static void *tracer;
static _Atomic int stopping;

#define THREADS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* Each thread has its own function, so that a sample's stack shows which name it must have. */
#define DEFINE_THREAD(n)                                                                           \
	__attribute__((noinline)) static void *thread_##n(void *arg)                               \
	{                                                                                          \
		const struct timespec rest = {0, REST_MS * 1000000};                               \
		volatile unsigned sum = n;                                                         \
		while (atomic_load(&stopping) == 0) {                                              \
			int64_t end = host_cpu_ns() + SPAN_MS * INT64_C(1000000);                  \
			int64_t look = 0;                                                          \
			void *span = otelc_start_span(tracer, "thread-" #n,                        \
						      OTELC_SPAN_KIND_SERVER, NULL);               \
			while (host_is_before(end, &look))                                         \
				for (unsigned i = 0; i < 20000; i++)                               \
					sum += i;                                                  \
			otelc_end_span(span);                                                      \
			nanosleep(&rest, NULL);                                                    \
		}                                                                                  \
		return arg;                                                                        \
	}
THREADS(DEFINE_THREAD)

#define LIST_THREAD(n) thread_##n,

int main(void)
{
	void *(*const start[])(void *) = {THREADS(LIST_THREAD)};
	const unsigned threads = sizeof(start) / sizeof(start[0]);
	pthread_t thread[sizeof(start) / sizeof(start[0])];
	char byte;

	otelc_init_tracer_provider("busy", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (unsigned i = 0; i < threads; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, start[i], NULL) == 0);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	atomic_store(&stopping, 1);
	for (unsigned i = 0; i < threads; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
	return 23;
}
