/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that takes a signal by a system call of its own, below the C library, in the middle of its work. It goes
 * on until no timer sends that signal any more, or with "stay" until its time is over. Usage: taker <signal number>
 * <milliseconds> [stay]
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

/* The kernel's struct sigaction (asm-generic/signal.h and x86's, which puts the restorer third). */
struct kernel_action {
	void (*handler)(int);
	unsigned long rest[3];
};

static void spend(void *tracer)
{
	void *span = otelc_start_span(tracer, "spend", OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(50);
	otelc_end_span(span);
}

/* 0 if the kernel does not show it. */
static int timers_ended(int signo)
{
	char wanted[32];
	char line[128];
	int found = 0;
	FILE *file = fopen("/proc/self/timers", "re");

	if (file == NULL)
		return 0;
	snprintf(wanted, sizeof(wanted), "signal: %d/", signo);
	while (fgets(line, sizeof(line), file) != NULL)
		found |= strncmp(line, wanted, strlen(wanted)) == 0;
	fclose(file);
	return !found;
}

int main(int argc, char **argv)
{
	const struct kernel_action ignore = {.handler = SIG_IGN};
	int64_t end;
	void *tracer;

	HOST_CHECK(argc > 2);
	otelc_init_tracer_provider("taker", "1.0", "test", "");
	tracer = otelc_get_tracer();
	spend(tracer);
	HOST_CHECK(syscall(SYS_rt_sigaction, atoi(argv[1]), &ignore, NULL, 8) == 0);
	printf("taken\n");
	fflush(stdout);
	end = host_wall_ms() + atoi(argv[2]);
	while (host_wall_ms() < end && (argc > 3 || !timers_ended(atoi(argv[1]))))
		spend(tracer);
	return 7;
}
