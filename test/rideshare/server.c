/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ride-sharing service: GET /car, /bike, /scooter (?region=...). Two request threads. It uses OpenTelemetry and
 * does not know the profiler. Its own measurements with the thread CPU clock, per vehicle, are the truth with which
 * profiles are compared. Ends cleanly at SIGTERM or SIGINT, and not before.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <microhttpd.h>

#include "test/rideshare/bank.h"
#include "test/rideshare/ride.h"
#include "test/sdk/opentelemetry_c.h"

#define REQUEST_THREADS 2U
/* Longer than the load generator waits: an order takes long on a slow machine. */
#define CONNECTION_SECONDS 120U

struct options {
	uint16_t port;
	const char *port_file;
	const char *truth_file;
};

struct service {
	void *tracer;
	struct {
		_Atomic uint64_t orders;
		_Atomic uint64_t cpu_ns;
	} truth[RIDE_VEHICLES];
};

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* The header in the form that otelc_start_span reads. An unreasonably long header is ignored. */
static void remote_context_of(struct MHD_Connection *connection, char *context, size_t size)
{
	const char *parent =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "traceparent");

	context[0] = '\0';
	if (parent != NULL && strlen(parent) < size / 2)
		snprintf(context, size, "1 11 traceparent %zu %s", strlen(parent), parent);
}

static void order(struct service *service, struct MHD_Connection *connection,
		  enum ride_vehicle vehicle, char *answer, size_t size)
{
	const char *region =
		MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "region");
	uint64_t begin = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	char context[256];

	remote_context_of(connection, context, sizeof(context));
	ride_order(service->tracer, vehicle, region, context, answer, size);
	atomic_fetch_add_explicit(&service->truth[vehicle].orders, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&service->truth[vehicle].cpu_ns,
				  cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin, memory_order_relaxed);
}

static enum MHD_Result answer_request(void *arg, struct MHD_Connection *connection, const char *url,
				      const char *method, const char *version, const char *body,
				      size_t *body_size, void **seen)
{
	enum ride_vehicle vehicle = ride_vehicle_of(url);
	unsigned status = MHD_HTTP_OK;
	char answer[128] = "no such vehicle\n";
	struct MHD_Response *response;
	enum MHD_Result result;

	(void)version;
	(void)body;
	/* The first call announces the headers only; the answer belongs to the second. */
	if (*seen == NULL) {
		*seen = arg;
		return MHD_YES;
	}
	*body_size = 0;
	if (strcmp(method, "GET") != 0 || vehicle == RIDE_VEHICLES)
		status = MHD_HTTP_NOT_FOUND;
	else
		order(arg, connection, vehicle, answer, sizeof(answer));

	response = MHD_create_response_from_buffer(strlen(answer), answer, MHD_RESPMEM_MUST_COPY);
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static struct MHD_Daemon *listen_on(uint16_t port, struct service *service)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	return MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, port, NULL, NULL,
				answer_request, service, MHD_OPTION_SOCK_ADDR, &address,
				MHD_OPTION_THREAD_POOL_SIZE, REQUEST_THREADS,
				MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_SECONDS, MHD_OPTION_END);
}

/* Renamed into place, so that a reader of the file never gets half a number. */
static int write_port(const char *path, struct MHD_Daemon *daemon)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
	char temporary[4096];
	FILE *file;

	snprintf(temporary, sizeof(temporary), "%s.tmp", path);
	file = fopen(temporary, "we");
	if (file == NULL)
		return -errno;
	fprintf(file, "%u\n", info != NULL ? info->port : 0U);
	if (fclose(file) != 0 || rename(temporary, path) != 0)
		return -errno;
	return 0;
}

static void print_truth(FILE *file, struct service *service)
{
	fprintf(file, "{\"process_cpu_ns\":%llu,\"vehicles\":[",
		(unsigned long long)cpu_ns(CLOCK_PROCESS_CPUTIME_ID));
	for (int v = 0; v < RIDE_VEHICLES; v++)
		fprintf(file, "%s{\"span_name\":\"%s\",\"orders\":%llu,\"cpu_ns\":%llu}",
			v > 0 ? "," : "", ride_span_name((enum ride_vehicle)v),
			(unsigned long long)atomic_load(&service->truth[v].orders),
			(unsigned long long)atomic_load(&service->truth[v].cpu_ns));
	fprintf(file, "]}\n");
}

static int write_truth(const char *path, struct service *service)
{
	FILE *file = fopen(path, "we");

	if (file == NULL)
		return -errno;
	print_truth(file, service);
	return fclose(file) == 0 ? 0 : -errno;
}

static int read_options(int argc, char **argv, struct options *options)
{
	static const struct option LONG[] = {
		{"port", required_argument, NULL, 'p'},
		{"port-file", required_argument, NULL, 'f'},
		{"truth", required_argument, NULL, 't'},
		{NULL, 0, NULL, 0},
	};
	int c;

	*options = (struct options){0};
	while ((c = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
		if (c == 'p')
			options->port = (uint16_t)strtoul(optarg, NULL, 10);
		else if (c == 'f')
			options->port_file = optarg;
		else if (c == 't')
			options->truth_file = optarg;
		else
			return -EINVAL;
	}
	return optind == argc ? 0 : -EINVAL;
}

static int serve(const struct options *options, struct service *service, const sigset_t *end)
{
	struct MHD_Daemon *daemon = listen_on(options->port, service);
	int err = 0;

	if (daemon == NULL) {
		fprintf(stderr, "server: cannot listen on port %u\n", options->port);
		return -EADDRINUSE;
	}
	if (options->port_file != NULL)
		err = write_port(options->port_file, daemon);
	while (err == 0 && sigwaitinfo(end, NULL) < 0 && errno == EINTR)
		;
	MHD_stop_daemon(daemon);
	return err;
}

int main(int argc, char **argv)
{
	static struct service service;
	struct options options;
	sigset_t end;
	int err;

	if (read_options(argc, argv, &options) != 0) {
		fprintf(stderr, "usage: server [--port N] [--port-file FILE] [--truth FILE]\n");
		return 2;
	}
	/* Before any thread exists, so that no thread takes the signal. */
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	pthread_sigmask(SIG_BLOCK, &end, NULL);

	otelc_init_tracer_provider("rideshare", "1.0", "", "");
	service.tracer = otelc_get_tracer();
	if (!bank_open()) {
		fprintf(stderr, "server: no bank: %s\n", strerror(errno));
		return 1;
	}
	err = serve(&options, &service, &end);
	otelc_destroy_tracer(service.tracer);
	otelc_destroy_tracer_provider();

	if (err == 0 && options.truth_file != NULL)
		err = write_truth(options.truth_file, &service);
	if (err != 0)
		fprintf(stderr, "server: %s\n", strerror(-err));
	print_truth(stdout, &service);
	return err != 0;
}
