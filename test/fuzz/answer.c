/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes a server's answer, from the socket to the log: libcurl, the reply, the queue's decision and the message
 * about it. The first byte chooses the number of queued profiles, and the protocol.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "export/push/http.h"
#include "export/push/push.h"
#include "test/fuzz/fuzz.h"
#include "test/unit/export/core_double.h"

static struct {
	int listener;
	char url[64];
	pthread_mutex_t lock;
	uint8_t answer[1 << 16];
	size_t size;
	struct sp_http *http;
	uint64_t now_ns;
} fuzz = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Reads the whole request, so that the answer is not lost to a reset, and answers. */
static void serve(int fd)
{
	char request[4096];
	size_t got = 0;
	ssize_t n;

	while (got < sizeof(request) - 1 &&
	       (n = recv(fd, request + got, sizeof(request) - 1 - got, 0)) > 0) {
		got += (size_t)n;
		request[got] = '\0';
		if (strstr(request, "\r\n\r\nbody") != NULL)
			break;
	}
	pthread_mutex_lock(&fuzz.lock);
	(void)!send(fd, fuzz.answer, fuzz.size, MSG_NOSIGNAL | MSG_DONTWAIT);
	pthread_mutex_unlock(&fuzz.lock);
	close(fd);
}

static void *server(void *arg)
{
	for (;;) {
		int fd = accept4(fuzz.listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			serve(fd);
	}
	return arg;
}

static void warn(void *arg, const char *text)
{
	(void)arg;
	(void)text;
}

static uint64_t now_ns(void *arg)
{
	(void)arg;
	return fuzz.now_ns;
}

static uint64_t any(void *arg)
{
	(void)arg;
	return UINT64_MAX / 2;
}

static bool poll_end(void *arg, unsigned *slot, struct sp_reply *reply)
{
	while (!sp_http_poll(arg, slot, reply))
		sp_http_wait(arg, -1, 50);
	FUZZ_CHECK(reply->text_len <= SP_REPLY_BODY && reply->text[reply->text_len] == '\0');
	FUZZ_CHECK(reply->kind != SP_REPLY_STATUS ||
		   (reply->status >= 200 && reply->status <= 599));
	return true;
}

static void begin(void)
{
	static const struct sp_http_hooks hooks = {warn, NULL};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	pthread_t thread;

	fuzz.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FUZZ_CHECK(fuzz.listener >= 0);
	FUZZ_CHECK(bind(fuzz.listener, (struct sockaddr *)&at, len) == 0);
	FUZZ_CHECK(listen(fuzz.listener, 16) == 0);
	FUZZ_CHECK(getsockname(fuzz.listener, (struct sockaddr *)&at, &len) == 0);
	(void)snprintf(fuzz.url, sizeof(fuzz.url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	FUZZ_CHECK(pthread_create(&thread, NULL, server, NULL) == 0);
	core_reset();
	core.config.server_address = fuzz.url;
	FUZZ_CHECK(sp_http_new(&core.config, "0", &hooks, &fuzz.http) == 0);
	fuzz.now_ns = 1;
}

/* One line per message: the server's text may neither begin another line nor control a terminal. */
static void check_log(void)
{
	for (const char *s = core.log; *s != '\0'; s++)
		FUZZ_CHECK(*s == '\n' || ((unsigned char)*s >= ' ' && *s != '\x7f'));
	core.log[0] = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sp_push_limits limits = {
		.capacity = 4, .max_tries = 2, .timeout_ms = 1000, .interval_ms = 1000};
	static struct sp_origin origin = {.ops = &core.ops};
	struct sp_push_env env = {.start = sp_http_start,
				  .poll = poll_end,
				  .stop = sp_http_stop,
				  .now_ns = now_ns,
				  .random = any};
	unsigned profiles = size != 0 ? 1 + data[0] % 2 : 1;
	struct sp_push *push;

	if (fuzz.http == NULL)
		begin();
	env.transport_arg = fuzz.http;
	core.config.protocol = size != 0 && data[0] >= 128 ? SP_PROTOCOL_OTLP : SP_PROTOCOL_PUSH;
	/* The server may still be busy with an answer that is not needed any more. */
	pthread_mutex_lock(&fuzz.lock);
	fuzz.size = size > sizeof(fuzz.answer) ? sizeof(fuzz.answer) : size;
	fuzz.size -= size != 0;
	if (size != 0)
		memcpy(fuzz.answer, data + 1, fuzz.size);
	pthread_mutex_unlock(&fuzz.lock);
	push = sp_push_new(&core.ops, &env, 1, &limits);
	FUZZ_CHECK(push != NULL);
	for (unsigned i = 0; i < profiles; i++)
		sp_push_put(
			push, &origin,
			&(struct sp_message){.body = {(uint8_t *)strdup("body"), 4}, .samples = 1},
			fuzz.now_ns);
	/* While no empty push is answered, a profile waits until it is too old, which is after an hour. */
	for (unsigned i = 0; i < 8 && sp_push_queued(push) != 0; i++) {
		fuzz.now_ns += (uint64_t)10 * 60 * 1000000000;
		sp_push_run(push);
	}
	FUZZ_CHECK(sp_push_queued(push) == 0);
	sp_push_free(push);
	sp_losses_log(&origin.losses, &core.ops);
	check_log();
	return 0;
}
