/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that profiles itself in the old way: ITIMER_PROF and a SIGPROF handler, before, across and after a span.
 * Prints whether it got the expected ticks.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define PERIOD_US 10000

static volatile sig_atomic_t ticks;
static volatile sig_atomic_t foreign;

static void tick(int signo, siginfo_t *info, void *context)
{
	(void)context;
	ticks++;
	/* An interval timer's signal has no timer id and no value. */
	if (signo != SIGPROF || info->si_code != SI_KERNEL)
		foreign++;
}

static void set_timer(int us)
{
	struct itimerval wanted = {{0, us}, {0, us}};

	HOST_CHECK(setitimer(ITIMER_PROF, &wanted, NULL) == 0);
}

static void work(const char *phase)
{
	struct itimerval now;

	ticks = 0;
	foreign = 0;
	/* 50 ticks; fewer if the kernel's own tick is coarse, or late as on a busy virtual machine. */
	host_burn_ms(500);
	HOST_CHECK(getitimer(ITIMER_PROF, &now) == 0);
	printf("%s: ticks %s, foreign %d, interval %ld\n", phase,
	       ticks >= 10 && ticks <= 80 ? "as asked" : "wrong", (int)foreign,
	       (long)now.it_interval.tv_usec);
	if (ticks < 10 || ticks > 80)
		fprintf(stderr, "%s: %d ticks\n", phase, (int)ticks);
}

int main(void)
{
	struct sigaction act;
	struct sigaction now;
	void *span;

	memset(&act, 0, sizeof(act));
	act.sa_sigaction = tick;
	act.sa_flags = SA_SIGINFO | SA_RESTART;
	HOST_CHECK(sigaction(SIGPROF, &act, NULL) == 0);
	otelc_init_tracer_provider("itimer", "1.0", "test", "");
	set_timer(PERIOD_US);
	work("before");
	span = otelc_start_span(otelc_get_tracer(), "itimer", OTELC_SPAN_KIND_INTERNAL, NULL);
	work("inside");
	otelc_end_span(span);
	work("after");
	set_timer(0);
	ticks = 0;
	host_burn_ms(100);
	HOST_CHECK(sigaction(SIGPROF, NULL, &now) == 0);
	printf("stopped: ticks %d, handler %s\n", (int)ticks,
	       now.sa_sigaction == tick ? "mine" : "unknown");
	return 15;
}
