/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that work in roots of seven lengths, in random order, and print their own clocks. Usage: roots <seconds>
 * <threads> <pause>. All lengths get the same CPU time, so short roots are many.
 * The pause after each root is
 *   random  as long as the root on the average
 *   none
 *   usleep  a millisecond
 *   grid    until the kernel's next tick, so roots that are shorter than a tick never meet one
 * Prints "cpu <span> <ns>": from the return of the span's start to the call of its end, the time for which
 * its label must be there; "all <ns>": the CPU time of the process from beginning to end; and "tick <ns>", the interval at which the
 * kernel checks CPU timers.
 */
#include <pthread.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define THREADS_MAX 64
#define LENGTHS 7
#define LONGEST_PAUSE_NS 20000000U

static const struct {
	const char *name;
	unsigned us;
} lengths[LENGTHS] = {
	{"0.2ms", 200}, {"0.5ms", 500},  {"1ms", 1000},     {"2ms", 2000},
	{"5ms", 5000},  {"20ms", 20000}, {"200ms", 200000},
};

enum pause { PAUSE_RANDOM, PAUSE_NONE, PAUSE_USLEEP, PAUSE_GRID, PAUSES };
static const char *const pauses[PAUSES] = {"random", "none", "usleep", "grid"};

struct worker {
	pthread_t thread;
	uint64_t chance;
	int64_t ns[LENGTHS];
};

static void *tracer;
static enum pause pause_after;
static int64_t end_ns, tick_ns, tick_at_ns;

static uint64_t draw(struct worker *w)
{
	w->chance ^= w->chance << 13;
	w->chance ^= w->chance >> 7;
	w->chance ^= w->chance << 17;
	return w->chance >> 16;
}

/* A root of 200 ms for each thousand of 0.2 ms. */
static unsigned draw_length(struct worker *w)
{
	unsigned all = 0, at, k = 0;

	for (unsigned i = 0; i < LENGTHS; i++)
		all += lengths[LENGTHS - 1].us / lengths[i].us;
	at = (unsigned)(draw(w) % all);
	while (at >= lengths[LENGTHS - 1].us / lengths[k].us)
		at -= lengths[LENGTHS - 1].us / lengths[k++].us;
	return k;
}

static void work(struct worker *w, unsigned k)
{
	void *span = otelc_start_span(tracer, lengths[k].name, OTELC_SPAN_KIND_INTERNAL, NULL);
	int64_t began = host_cpu_ns();
	int64_t look = 0;
	volatile unsigned sum = 0;

	while (host_is_before(began + lengths[k].us * INT64_C(1000), &look))
		for (unsigned i = 0; i < 2000; i++)
			sum += i;
	w->ns[k] += host_cpu_ns() - began;
	otelc_end_span(span);
}

static void rest(struct worker *w, unsigned k)
{
	uint64_t most = lengths[k].us * UINT64_C(2000);
	struct timespec until = {0, 0};
	int64_t now;

	switch (pause_after) {
	case PAUSE_RANDOM:
		until.tv_nsec =
			(long)(draw(w) % (most < LONGEST_PAUSE_NS ? most : LONGEST_PAUSE_NS));
		nanosleep(&until, NULL);
		break;
	case PAUSE_USLEEP:
		usleep(1000);
		break;
	case PAUSE_GRID:
		now = host_clock_ns(CLOCK_MONOTONIC);
		now += tick_ns - (now - tick_at_ns) % tick_ns;
		until.tv_sec = now / 1000000000;
		until.tv_nsec = now % 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		break;
	case PAUSE_NONE:
	case PAUSES:
		break;
	}
}

static void *run(void *arg)
{
	struct worker *w = arg;
	unsigned k;

	while (host_clock_ns(CLOCK_MONOTONIC) < end_ns) {
		k = draw_length(w);
		work(w, k);
		rest(w, k);
	}
	return NULL;
}

/* The coarse clocks advance with every tick. */
static void find_tick(void)
{
	struct timespec tick = {0, 0};
	int64_t before = host_clock_ns(CLOCK_MONOTONIC_COARSE);

	HOST_CHECK(clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0);
	tick_ns = tick.tv_nsec;
	while (host_clock_ns(CLOCK_MONOTONIC_COARSE) == before)
		;
	tick_at_ns = host_clock_ns(CLOCK_MONOTONIC);
}

int main(int argc, char **argv)
{
	static struct worker worker[THREADS_MAX];
	int64_t before = host_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	int threads = argc > 3 ? atoi(argv[2]) : 0;

	HOST_CHECK(threads > 0 && threads <= THREADS_MAX);
	while (strcmp(pauses[pause_after], argv[3]) != 0)
		HOST_CHECK(++pause_after < PAUSES);
	find_tick();
	otelc_init_tracer_provider("roots", "1.0", "test", "");
	tracer = otelc_get_tracer();
	end_ns = host_clock_ns(CLOCK_MONOTONIC) + atoi(argv[1]) * INT64_C(1000000000);
	for (int i = 0; i < threads; i++) {
		worker[i].chance = UINT64_C(88172645463325252) * (unsigned)(2 * i + 1) ^
				   (uint64_t)host_clock_ns(CLOCK_REALTIME);
		HOST_CHECK(pthread_create(&worker[i].thread, NULL, run, &worker[i]) == 0);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(worker[i].thread, NULL);
	for (unsigned k = 0; k < LENGTHS; k++) {
		int64_t ns = 0;

		for (int i = 0; i < threads; i++)
			ns += worker[i].ns[k];
		printf("cpu %s %lld\n", lengths[k].name, (long long)ns);
	}
	printf("tick %lld\n", (long long)tick_ns);
	printf("all %lld\n", (long long)(host_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before));
	return 24;
}
