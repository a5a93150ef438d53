/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends while another thread starts OpenSSL: between the moment at which OpenSSL has its exit handler,
 * which frees all it has, and the return to whoever started it. Stands in front of the function that
 * registers the handler. Says on stdout whether that thread found its own end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define LONG_MS 10000

static _Atomic pid_t inside;
static sem_t goes_on;

typedef int init_fn(uint64_t opts, const void *settings);

int OPENSSL_init_crypto(uint64_t opts, const void *settings);

int OPENSSL_init_crypto(uint64_t opts, const void *settings)
{
	void *object = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD);
	init_fn *real;
	int rc;

	HOST_CHECK(object != NULL);
	real = (init_fn *)dlsym(object, "OPENSSL_init_crypto");
	HOST_CHECK(real != NULL);
	rc = real(opts, settings);
	if (atomic_load(&inside) == 0) {
		atomic_store(&inside, (pid_t)syscall(SYS_gettid));
		HOST_CHECK(sem_wait(&goes_on) == 0);
	}
	return rc;
}

static bool gone(void)
{
	return syscall(SYS_tgkill, getpid(), atomic_load(&inside), 0) != 0 && errno == ESRCH;
}

/* The first one registered, so the last one to run. */
static void let_go(void)
{
	int64_t end = host_wall_ms() + LONG_MS;

	HOST_CHECK(sem_post(&goes_on) == 0);
	while (!gone() && host_wall_ms() < end)
		(void)sched_yield();
	puts(gone() ? "it has ended" : "it is still there");
}

int main(void)
{
	int64_t end = host_wall_ms() + LONG_MS;

	HOST_CHECK(sem_init(&goes_on, 0, 0) == 0 && atexit(let_go) == 0);
	otelc_init_tracer_provider("midway", "1.0", "test", "");
	otelc_end_span(
		otelc_start_span(otelc_get_tracer(), "midway", OTELC_SPAN_KIND_INTERNAL, NULL));
	while (atomic_load(&inside) == 0 && host_wall_ms() < end)
		host_burn_ms(1);
	HOST_CHECK(atomic_load(&inside) != 0);
	return 0;
}
