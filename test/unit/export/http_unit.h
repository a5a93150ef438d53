/* SPDX-License-Identifier: Apache-2.0 */
/* A server of the test, which sends one prepared answer, and a client for it. */
#ifndef SP_TEST_HTTP_UNIT_H
#define SP_TEST_HTTP_UNIT_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core_double.h"
#include "export/push/http.h"

static char address[160];
static int listener;
static pthread_t thread;
static const char *response; /* NULL = never answer */
static size_t padding;       /* number of 'x' bytes after the response */
static unsigned drip_ms;     /* pause between two bytes */
static unsigned answer_ms;   /* pause between request and response */
static size_t sent;
static char request[65536];
static size_t request_len;

static char query[16];
static struct sp_http *http;
static struct sp_reply reply;
static char warnings[1024];

/* Reads the head and the body of one request. */
static inline void read_request(int fd)
{
	const char *length, *end;

	request_len = 0;
	for (;;) {
		ssize_t n = recv(fd, request + request_len, sizeof(request) - 1 - request_len, 0);

		if (n <= 0)
			return;
		request_len += (size_t)n;
		request[request_len] = '\0';
		end = strstr(request, "\r\n\r\n");
		length = strcasestr(request, "Content-Length: ");
		if (end != NULL && strncmp(request, "CONNECT ", 8) == 0)
			return;
		if (end != NULL && length != NULL &&
		    request_len >= (size_t)(end + 4 - request) + strtoul(length + 16, NULL, 10))
			return;
	}
}

static inline void *serve(void *arg)
{
	static const char x[4096] = {'x'};
	int fd = accept(listener, NULL, NULL);
	char end;

	read_request(fd);
	if (response != NULL) {
		(void)poll(NULL, 0, (int)answer_ms);
		(void)send(fd, response, strlen(response), MSG_NOSIGNAL);
		for (size_t n; sent < padding; sent += n) {
			n = padding - sent < sizeof(x) ? padding - sent : sizeof(x);
			if (drip_ms != 0) {
				/* Until then the client must have hung up. */
				n = 1;
				if (poll(&(struct pollfd){.fd = fd, .events = POLLRDHUP}, 1,
					 (int)drip_ms) != 0)
					break;
			}
			if (send(fd, x, n, MSG_NOSIGNAL) < 0)
				break;
		}
	} else {
		/* Until the client hangs up. */
		(void)recv(fd, &end, 1, 0);
	}
	shutdown(fd, SHUT_WR);
	while (recv(fd, &end, 1, 0) > 0)
		;
	close(fd);
	return arg;
}

static inline void warn(void *arg, const char *text)
{
	(void)arg;
	strcat(strcat(warnings, text), "\n");
}

static const struct sp_http_hooks hooks = {warn, NULL};

static inline void set_up(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);

	core_reset();
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(listener, 4), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(address, sizeof(address), "http://127.0.0.1:%u", ntohs(a.sin_port));
	core.config.server_address = address;
}

/* Continues all transfers, and sleeps a moment. True: one has ended. */
static inline bool go_on(unsigned *slot)
{
	if (sp_http_poll(http, slot, &reply))
		return true;
	sp_http_wait(http, -1, 10);
	return false;
}

static inline void send_message(const struct sp_message *m, uint32_t timeout_ms)
{
	unsigned slot;

	sp_http_start(http, 0, m, timeout_ms);
	while (!go_on(&slot))
		;
}

static inline void post(const char *answer, uint32_t timeout_ms)
{
	static uint8_t body[] = "the body";
	const struct sp_message m = {.body = {body, 8}, .query = query[0] != '\0' ? query : NULL};

	response = answer;
	cr_assert_eq(sp_http_new(&core.config, "1.2.3", &hooks, &http), 0);
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	send_message(&m, timeout_ms);
	sp_http_free(http);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/* Sends a small body by the test's client. */
static inline void send_small(void)
{
	static uint8_t body[] = "x";
	const struct sp_message m = {.body = {body, 1}};

	send_message(&m, 5000);
}

static inline void post_small(void)
{
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	send_small();
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

#endif
