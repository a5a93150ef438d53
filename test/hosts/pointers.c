/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes unreadable sets of signals to the kernel, and sets at the end of a page, and prints each result. Usage:
 * pointers [span]
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define PAGE 4096U
#define SET_BYTES 8U /* bytes that the kernel reads */

static void tell(const char *what, int rc)
{
	printf("%s: %s\n", what, rc < 0 ? strerror(errno) : "done");
}

static void try_all(const char *where, const sigset_t *set)
{
	const struct timespec none = {0, 0};
	int fd = signalfd(-1, set, SFD_CLOEXEC);
	siginfo_t info;

	printf("%s\n", where);
	tell("signalfd", fd);
	if (fd >= 0)
		close(fd);
	tell("sigtimedwait", sigtimedwait(set, &info, &none));
	if (set != NULL && fd < 0) {
		int signo = 0;

		tell("sigwaitinfo", sigwaitinfo(set, &info));
		printf("sigwait: %s\n", strerror(sigwait(set, &signo)));
	}
	fflush(stdout);
}

/* Without variables the C library does not read the requested name. */
static void ask_without_variables(const char *unreadable)
{
	HOST_CHECK(clearenv() == 0);
	printf("getenv: %s\n", getenv(unreadable) == NULL ? "none" : "some");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t urgent;

	HOST_CHECK(pages != MAP_FAILED && mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
	if (argc > 1 && strcmp(argv[1], "span") == 0) {
		otelc_init_tracer_provider("pointers", "1.0", "test", "");
		void *span = otelc_start_span(otelc_get_tracer(), "work", OTELC_SPAN_KIND_INTERNAL,
					      NULL);

		host_burn_ms(50);
		otelc_end_span(span);
	}
	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	memcpy(pages + PAGE - SET_BYTES, &urgent, SET_BYTES);
	/* Volatile: the compiler must not know that there is nothing. */
	sigset_t *volatile nowhere = (sigset_t *)(pages + PAGE);

	try_all("unreadable", nowhere);
	nowhere = NULL;
	try_all("none", nowhere);
	try_all("at the end of a page", (sigset_t *)(void *)(pages + PAGE - SET_BYTES));
	ask_without_variables(pages + PAGE);
	return 6;
}
