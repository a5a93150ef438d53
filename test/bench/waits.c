/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in labels, for waits.sh: "waits THREADS SPAN_MS SECONDS" runs that many threads for that long;
 * each sleeps in one label after the other, for SPAN_MS. With a number of connections as a fourth argument, each
 * waits for data of one connection after the other; with -1, each holds a lock for that long, for which all others
 * have to wait.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "preload/spanprof.h"

#define THREADS_MAX 4000
#define STACK_BYTES ((size_t)64 * 1024)

#define CONNECTIONS_MAX 8000

static long span_ms;
static int connection[CONNECTIONS_MAX];
static long connections;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static time_t until_s;

static time_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static void *wait_in_spans(void *arg)
{
	const struct timespec span = {.tv_sec = span_ms / 1000,
				      .tv_nsec = span_ms % 1000 * 1000000};
	unsigned long id = (unsigned long)arg << 32;
	long next = (long)arg * 61;
	char text[17];

	while (now_s() < until_s) {
		(void)snprintf(text, sizeof(text), "%016lx", ++id);
		(void)spanprof_label_push(text, "wait");
		if (connections < 0)
			(void)pthread_mutex_lock(&lock);
		if (connections <= 0)
			(void)nanosleep(&span, NULL);
		else
			(void)!recv(connection[next++ % connections], text, 1, 0);
		if (connections < 0)
			(void)pthread_mutex_unlock(&lock);
		spanprof_label_pop();
	}
	return NULL;
}

/* Connects to this process. Nothing is ever written to the other ends. */
static int connect_all(void)
{
	const struct rlimit files = {2 * CONNECTIONS_MAX + 100, 2 * CONNECTIONS_MAX + 100};
	const struct timeval wait = {.tv_sec = span_ms / 1000, .tv_usec = span_ms % 1000 * 1000};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (setrlimit(RLIMIT_NOFILE, &files) != 0 ||
	    bind(listener, (const struct sockaddr *)&address, len) != 0 ||
	    listen(listener, 8) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &len) != 0)
		return -1;
	for (long i = 0; i < connections; i++) {
		connection[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(connection[i], (const struct sockaddr *)&address, len) != 0 ||
		    accept(listener, NULL, NULL) < 0 ||
		    setsockopt(connection[i], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) != 0)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static pthread_t thread[THREADS_MAX];
	long threads = argc >= 4 ? atol(argv[1]) : 0;
	pthread_attr_t attr;

	connections = argc == 5 ? atol(argv[4]) : 0;
	if (threads < 1 || threads > THREADS_MAX || connections < -1 ||
	    connections > CONNECTIONS_MAX)
		return 2;
	span_ms = atol(argv[2]);
	if (connections > 0 && connect_all() != 0)
		return 2;
	until_s = now_s() + atol(argv[3]);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread[i], &attr, wait_in_spans, (void *)(i + 1)) != 0)
			return 2;
	for (long i = 0; i < threads; i++)
		(void)pthread_join(thread[i], NULL);
	return 0;
}
