/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders vehicles over HTTP at a fixed rate, or as fast as the answers come if that is slower: request n is the same
 * for the same seed, whichever client sends it. Two clients, a new connection per request, the trace context in the
 * traceparent header. On a slow or busy machine it goes on until there were enough orders, within a bound. Prints its
 * progress every two seconds and the reason of each failed order; exit 0 only if every order was answered.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#include "test/sdk/opentelemetry_c.h"

#define CLIENTS 2
#define PROGRESS_SECONDS 2
/* For one order, which takes at most 60 ms of CPU time at a usual clock speed. */
#define TIMEOUT_SECONDS 60L

static const char *const VEHICLE[] = {"car", "bike", "scooter"};
static const char *const REGION[] = {"us-east", "eu-north", "ap-south"};

struct load {
	const char *url;
	uint64_t requests; /* 0 = for a time */
	double seconds;    /* no new order after this time, */
	uint64_t at_least; /* unless there were fewer orders than this */
	double at_most;    /* and this time is not over */
	unsigned give_up;  /* ends after this many failures in a row; 0 = never */
	double rate;
	uint64_t seed;
	void *tracer;
	struct timespec begin;
	_Atomic uint64_t next;
	_Atomic uint64_t sent[3];
	_Atomic uint64_t failed;
	_Atomic unsigned failed_in_a_row;
};

/* splitmix64 of the request's number: independent of the order between the clients. */
static uint64_t mix(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15U;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return z ^ (z >> 31);
}

static size_t discard(char *data, size_t size, size_t count, void *arg)
{
	(void)data;
	(void)arg;
	return size * count;
}

/* "1 11 traceparent 55 00-..." becomes "traceparent: 00-...". */
static struct curl_slist *context_header(void *span)
{
	char *context = otelc_extract_context_from_current_span(span);
	const char *value = strstr(context, "00-");
	struct curl_slist *headers = NULL;
	char header[128];

	if (value != NULL) {
		snprintf(header, sizeof(header), "traceparent: %.55s", value);
		headers = curl_slist_append(NULL, header);
	}
	free(context);
	return headers;
}

/* The fault, or NULL. */
static const char *get(CURL *curl, const char *url, struct curl_slist *headers)
{
	static _Thread_local char text[32];
	long status = 0;
	CURLcode rc;

	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, discard);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, TIMEOUT_SECONDS);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	/* A kept connection would occupy one thread of the server and leave the other one idle. */
	curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
	rc = curl_easy_perform(curl);
	if (rc != CURLE_OK)
		return curl_easy_strerror(rc);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (status == 200)
		return NULL;
	snprintf(text, sizeof(text), "HTTP status %ld", status);
	return text;
}

static void take_answer(struct load *load, void *span, const char *url, const char *wrong)
{
	unsigned row;

	if (wrong == NULL) {
		atomic_store(&load->failed_in_a_row, 0);
		return;
	}
	otelc_set_span_status(span, OTELC_SPAN_STATUS_CODE_ERROR, "order failed");
	atomic_fetch_add(&load->failed, 1);
	row = atomic_fetch_add(&load->failed_in_a_row, 1) + 1;
	if (row == 1)
		fprintf(stderr, "loadgen: %s: %s\n", url, wrong);
	if (row == load->give_up)
		fprintf(stderr, "loadgen: %u orders in a row failed: giving up\n", row);
}

static void send_order(struct load *load, CURL *curl, uint64_t n)
{
	uint64_t r = mix(load->seed, n);
	unsigned vehicle = (unsigned)(r % 3);
	const char *region = REGION[r / 3 % 3];
	struct curl_slist *headers;
	char name[32];
	char url[512];
	void *span;

	snprintf(name, sizeof(name), "order %s", VEHICLE[vehicle]);
	snprintf(url, sizeof(url), "%s/%s?region=%s", load->url, VEHICLE[vehicle], region);
	span = otelc_start_span(load->tracer, name, OTELC_SPAN_KIND_CLIENT, NULL);
	headers = context_header(span);
	take_answer(load, span, url, get(curl, url, headers));
	curl_slist_free_all(headers);
	otelc_end_span(span);
	atomic_fetch_add(&load->sent[vehicle], 1);
}

static double seconds_since(const struct timespec *begin)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - begin->tv_sec) + (double)(now.tv_nsec - begin->tv_nsec) / 1e9;
}

/* Whether request n shall be sent. */
static int wanted(const struct load *load, uint64_t n)
{
	double over = seconds_since(&load->begin);

	if (load->give_up != 0 && atomic_load(&load->failed_in_a_row) >= load->give_up)
		return 0;
	if (load->requests != 0)
		return n < load->requests;
	/* Stops at the request that would be due after the end, so that there are not two more. */
	if (over < load->seconds && (double)n / load->rate < load->seconds)
		return 1;
	return n < load->at_least && over < load->at_most;
}

/* Request n is due n / rate seconds after the begin; a late client does not wait. */
static void wait_until_due(const struct load *load, uint64_t n)
{
	double seconds = (double)n / load->rate;
	struct timespec due = load->begin;

	due.tv_sec += (time_t)seconds;
	due.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
	if (due.tv_nsec >= 1000000000L) {
		due.tv_sec++;
		due.tv_nsec -= 1000000000L;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
		;
}

static void *run_client(void *arg)
{
	struct load *load = arg;
	CURL *curl = curl_easy_init();
	uint64_t n;

	if (curl == NULL) {
		atomic_fetch_add(&load->failed, 1);
		return NULL;
	}
	while (wanted(load, n = atomic_fetch_add(&load->next, 1))) {
		wait_until_due(load, n);
		send_order(load, curl, n);
	}
	curl_easy_cleanup(curl);
	return NULL;
}

static void print_progress(struct load *load)
{
	uint64_t sent[3];
	uint64_t sum = 0;

	for (int v = 0; v < 3; v++)
		sum += sent[v] = atomic_load(&load->sent[v]);
	fprintf(stderr,
		"loadgen: %llu orders in %.0f s (%llu cars, %llu bikes, %llu scooters), %llu "
		"failed\n",
		(unsigned long long)sum, seconds_since(&load->begin), (unsigned long long)sent[0],
		(unsigned long long)sent[1], (unsigned long long)sent[2],
		(unsigned long long)atomic_load(&load->failed));
}

static int run(struct load *load)
{
	pthread_t client[CLIENTS];
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &load->begin);
	clock_gettime(CLOCK_REALTIME, &next);
	for (int i = 0; i < CLIENTS; i++) {
		if (pthread_create(&client[i], NULL, run_client, load) != 0) {
			perror("loadgen: pthread_create");
			exit(1);
		}
	}
	for (int i = 0; i < CLIENTS; i++) {
		next.tv_sec += PROGRESS_SECONDS;
		while (pthread_timedjoin_np(client[i], NULL, &next) == ETIMEDOUT) {
			print_progress(load);
			next.tv_sec += PROGRESS_SECONDS;
		}
	}
	print_progress(load);
	return atomic_load(&load->failed) == 0 ? 0 : 1;
}

static int read_options(int argc, char **argv, struct load *load)
{
	static const struct option LONG[] = {
		{"url", required_argument, NULL, 'u'},
		{"seconds", required_argument, NULL, 's'},
		{"requests", required_argument, NULL, 'n'},
		{"at-least", required_argument, NULL, 'l'},
		{"at-most", required_argument, NULL, 'm'},
		{"give-up", required_argument, NULL, 'g'},
		{"rate", required_argument, NULL, 'r'},
		{"seed", required_argument, NULL, 'd'},
		{NULL, 0, NULL, 0},
	};
	int c;

	load->rate = 25;
	load->seconds = 10;
	while ((c = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
		if (c == 'u')
			load->url = optarg;
		else if (c == 's')
			load->seconds = strtod(optarg, NULL);
		else if (c == 'n')
			load->requests = strtoull(optarg, NULL, 10);
		else if (c == 'l')
			load->at_least = strtoull(optarg, NULL, 10);
		else if (c == 'm')
			load->at_most = strtod(optarg, NULL);
		else if (c == 'g')
			load->give_up = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'r')
			load->rate = strtod(optarg, NULL);
		else if (c == 'd')
			load->seed = strtoull(optarg, NULL, 10);
		else
			return -EINVAL;
	}
	return optind == argc && load->url != NULL && load->rate > 0 ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	static struct load load;
	int result;

	if (read_options(argc, argv, &load) != 0) {
		fprintf(stderr,
			"usage: loadgen --url URL [--seconds N [--at-least ORDERS] "
			"[--at-most SECONDS] | --requests N]\n"
			"               [--give-up FAILURES] [--rate PER_SECOND] [--seed N]\n");
		return 2;
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	otelc_init_tracer_provider("rideshare-loadgen", "1.0", "", "");
	load.tracer = otelc_get_tracer();
	result = run(&load);
	otelc_destroy_tracer(load.tracer);
	otelc_destroy_tracer_provider();
	curl_global_cleanup();
	return result;
}
