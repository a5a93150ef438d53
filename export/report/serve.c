/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts connections and answers them (serve.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/report/frame.h"
#include "export/report/get.h"
#include "export/report/live.h"

/* At a time. A browser has six connections to a host, some of them unused. */
#define SP_SERVE_CONNECTIONS 12U
#define SP_SERVE_REQUEST_S 3U /* to send a head */
#define SP_SERVE_ANSWER_S 60U /* to read the profiles, and to take the answer */
#define SP_SERVE_MEMORY ((rlim_t)2 << 30)
#define SP_SERVE_BACKLOG 16

#define SP_SERVE_LISTENERS 2
struct server {
	const struct sp_report_options *o;
	char *const *path;
	struct pollfd listener[SP_SERVE_LISTENERS]; /* fd -1 = there is none */
	unsigned connections;
};

static int complain(const char *what)
{
	char why[256];

	(void)snprintf(why, sizeof(why), "%s: %s", what, strerror(errno));
	sp_report_complain("--serve", why);
	return SP_EXIT_DAMAGED;
}

/* A socket that listens, or -1 with errno. */
static int open_listener(const struct sockaddr *address, socklen_t len)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;
	int err;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, address, len) == 0 && listen(fd, SP_SERVE_BACKLOG) == 0)
		return fd;
	err = errno;
	(void)close(fd);
	errno = err;
	return -1;
}

/* The port, or 0 with errno. */
static uint16_t open_listeners(struct server *s, uint16_t port)
{
	struct sockaddr_in four = {.sin_family = AF_INET,
				   .sin_port = htons(port),
				   .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	socklen_t len = sizeof(four);
	int fd = open_listener((const struct sockaddr *)&four, sizeof(four));

	s->listener[0] = (struct pollfd){fd, POLLIN, 0};
	s->listener[1] = (struct pollfd){-1, POLLIN, 0};
	if (fd < 0 || getsockname(fd, (struct sockaddr *)&four, &len) != 0)
		return 0;
	/* A machine may be without IPv6. */
	six.sin6_port = four.sin_port;
	s->listener[1].fd = open_listener((const struct sockaddr *)&six, sizeof(six));
	return ntohs(four.sin_port);
}

/* The head of a request, NUL-terminated. Its length, or 0 if it is too long or does not come. */
static size_t read_head(int fd, char head[SP_GET_HEAD_MAX + 1])
{
	size_t len = 0;

	while (len < SP_GET_HEAD_MAX) {
		ssize_t n = read(fd, head + len, SP_GET_HEAD_MAX - len);

		if (n <= 0)
			return 0;
		len += (size_t)n;
		head[len] = '\0';
		if (sp_get_is_whole(head, len))
			return len;
	}
	return 0;
}

static void write_all(int fd, const char *data, size_t len)
{
	while (len != 0) {
		ssize_t n = write(fd, data, len);

		if (n <= 0)
			return;
		data += n;
		len -= (size_t)n;
	}
}

static void answer(const struct server *s, int fd, char *head, size_t len)
{
	struct sp_live_answer a = {.status = 400};
	struct sp_get get;
	char *text = NULL;
	size_t size = 0;
	FILE *out;

	if (len != 0)
		a.status = sp_get_parse(head, len, &get);
	if (a.status == 200)
		sp_live_answer(s->o, s->path, &get, &a);
	out = open_memstream(&text, &size);
	if (out == NULL)
		return;
	sp_live_print_head(out, &a);
	if (fclose(out) == 0)
		write_all(fd, text, size);
	write_all(fd, a.body, a.len);
	free(text);
	free(a.body);
}

/* In a process of its own, which ends by itself, or by the alarm. */
static _Noreturn void serve_connection(const struct server *s, int fd)
{
	const struct rlimit memory = {SP_SERVE_MEMORY, SP_SERVE_MEMORY};
	char head[SP_GET_HEAD_MAX + 1];
	size_t len;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setrlimit(RLIMIT_AS, &memory);
	for (int i = 0; i < SP_SERVE_LISTENERS; i++)
		(void)close(s->listener[i].fd);
	(void)alarm(SP_SERVE_REQUEST_S);
	len = read_head(fd, head);
	(void)alarm(SP_SERVE_ANSWER_S);
	answer(s, fd, head, len);
	/* What the other side still sends would make the kernel drop the answer. */
	(void)shutdown(fd, SHUT_WR);
	(void)alarm(SP_SERVE_REQUEST_S);
	while (read(fd, head, sizeof(head)) > 0)
		;
	_exit(0);
}

static void take(struct server *s, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	pid_t child;

	if (fd < 0)
		return;
	child = fork();
	if (child == 0)
		serve_connection(s, fd);
	if (child > 0)
		s->connections++;
	(void)close(fd);
}

static void reap(struct server *s)
{
	while (s->connections != 0 && waitpid(-1, NULL, WNOHANG) > 0)
		s->connections--;
}

static void loop(struct server *s)
{
	for (;;) {
		bool full = s->connections >= SP_SERVE_CONNECTIONS;

		/* Ended ones are waited for twenty times a second where there are some. */
		(void)poll(s->listener, full ? 0 : SP_SERVE_LISTENERS,
			   s->connections != 0 ? 50 : -1);
		reap(s);
		for (int i = 0; i < SP_SERVE_LISTENERS && !full; i++)
			if ((s->listener[i].revents & POLLIN) != 0)
				take(s, s->listener[i].fd);
	}
}

int sp_serve(const struct sp_report_options *o, char *const *path)
{
	struct server s = {.o = o, .path = path};
	uint16_t port = open_listeners(&s, o->port);

	if (port == 0)
		return complain("cannot listen at 127.0.0.1");
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)printf("http://127.0.0.1:%u/ serves the profiles; Ctrl-C ends it\n", port);
	if (fflush(stdout) != 0)
		return complain("cannot print the address");
	loop(&s);
	return 0;
}
