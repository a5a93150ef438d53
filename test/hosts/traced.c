/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes in one trace. The first one makes requests: it computes in prepare(), asks the
 * other process over a socket, with the context of its trace, and computes in render(). The other
 * one computes in count_stock() and waits in wait_for_supplier(). One request is slow in the second
 * process. Each span has the times of its process's own clocks as attributes ("own.ns",
 * "own.cpu_ns"). Usage: traced [requests], with the name of the second service in TRACED_BACK
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define NOINLINE __attribute__((noinline, noclone))
#define SLOW_REQUEST 7
#define PREPARE_MS 40
#define RENDER_MS 30
#define COUNT_MS 20
#define SUPPLIER_MS 20
#define SLOW_COUNT_MS 150
#define SLOW_SUPPLIER_MS 300

/* A request of the first process. */
struct question {
	char context[256];
	int is_slow;
};

struct times {
	int64_t wall_ns, cpu_ns;
};

static void *tracer;
static volatile unsigned sink;

static struct times now(void)
{
	return (struct times){host_clock_ns(CLOCK_MONOTONIC), host_cpu_ns()};
}

/* A function of its own would be the one that computes. */
#define BURN_MS(ms)                                                                                \
	do {                                                                                       \
		int64_t end = host_cpu_ns() + (ms)*INT64_C(1000000);                               \
                                                                                                   \
		while (host_cpu_ns() < end)                                                        \
			for (unsigned i = 0; i < 20000; i++)                                       \
				sink += i;                                                         \
	} while (0)

static NOINLINE void prepare(void)
{
	BURN_MS(PREPARE_MS);
	sink++;
}

static NOINLINE void render(void)
{
	BURN_MS(RENDER_MS);
	sink++;
}

static NOINLINE void count_stock(int ms)
{
	BURN_MS(ms);
	sink++;
}

static NOINLINE void wait_for_supplier(int ms)
{
	struct timespec ts = {0, ms * 1000000L};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	sink++;
}

/* Ends a span with what it took by our own clocks. */
static void end_span(void *span, struct times begun)
{
	void *attributes = otelc_create_attr_map();
	struct times ended = now();

	otelc_set_int64_t_attr(attributes, "own.ns", ended.wall_ns - begun.wall_ns);
	otelc_set_int64_t_attr(attributes, "own.cpu_ns", ended.cpu_ns - begun.cpu_ns);
	otelc_set_span_attrs(span, attributes);
	otelc_destroy_attr_map(attributes);
	otelc_end_span(span);
}

static NOINLINE void ask(int fd, const struct question *q)
{
	char answer;

	HOST_CHECK(send(fd, q, sizeof(*q), 0) == sizeof(*q));
	HOST_CHECK(recv(fd, &answer, 1, 0) == 1);
}

static void request(int fd, int number)
{
	struct times begun = now(), called;
	void *root = otelc_start_span(tracer, "checkout", OTELC_SPAN_KIND_SERVER, NULL);
	struct question q = {.is_slow = number == SLOW_REQUEST};
	void *call;
	char *context;

	prepare();
	called = now();
	call = otelc_start_span(tracer, "POST /reserve", OTELC_SPAN_KIND_CLIENT, NULL);
	context = otelc_extract_context_from_current_span(call);
	HOST_CHECK(strlen(context) < sizeof(q.context));
	strcpy(q.context, context);
	free(context);
	ask(fd, &q);
	end_span(call, called);
	render();
	end_span(root, begun);
}

static void answer(int fd)
{
	struct question q;

	while (recv(fd, &q, sizeof(q), 0) == sizeof(q)) {
		struct times begun = now(), queried;
		void *root = otelc_start_span(tracer, "reserve", OTELC_SPAN_KIND_SERVER, q.context);
		void *query;

		count_stock(q.is_slow ? SLOW_COUNT_MS : COUNT_MS);
		queried = now();
		query = otelc_start_span(tracer, "supplier", OTELC_SPAN_KIND_CLIENT, NULL);
		wait_for_supplier(q.is_slow ? SLOW_SUPPLIER_MS : SUPPLIER_MS);
		end_span(query, queried);
		end_span(root, begun);
		HOST_CHECK(send(fd, "", 1, 0) == 1);
	}
}

static pid_t start_other(char *program, int fd)
{
	char number[16];
	char *argv[] = {program, (char *)"answer", number, NULL};
	pid_t pid;

	HOST_CHECK(fcntl(fd, F_SETFD, 0) == 0);
	(void)snprintf(number, sizeof(number), "%d", fd);
	HOST_CHECK(setenv("OTEL_SERVICE_NAME", getenv("TRACED_BACK"), 1) == 0);
	HOST_CHECK(posix_spawn(&pid, program, NULL, NULL, argv, environ) == 0);
	return pid;
}

int main(int argc, char **argv)
{
	const int is_other = argc == 3 && strcmp(argv[1], "answer") == 0;
	int requests = argc == 2 ? atoi(argv[1]) : 12;
	int fd[2] = {-1, -1};
	int status = 0;
	pid_t other = 0;

	if (!is_other) {
		HOST_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) == 0);
		otelc_init_tracer_provider("traced", "1.0", "test", "");
		tracer = otelc_get_tracer();
		other = start_other(argv[0], fd[1]);
		HOST_CHECK(close(fd[1]) == 0);
		for (int i = 0; i < requests; i++)
			request(fd[0], i);
		HOST_CHECK(close(fd[0]) == 0);
		HOST_CHECK(waitpid(other, &status, 0) == other && status == 0);
	} else {
		otelc_init_tracer_provider("traced", "1.0", "test", "");
		tracer = otelc_get_tracer();
		answer(atoi(argv[2]));
	}
	otelc_destroy_tracer_provider();
	return 0;
}
