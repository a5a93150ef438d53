/* SPDX-License-Identifier: Apache-2.0 */
/* Cases about the signal being somebody else's too: sent from outside, or by the kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/signals/cases.h"

static volatile int calls;
static volatile int wrong;
static volatile pid_t sender;

static void count(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	wrong += info->si_code == SI_TIMER;
	wrong += sender != 0 && info->si_pid != sender;
	calls++;
}

static void install(int signo)
{
	struct sigaction act;

	memset(&act, 0, sizeof(act));
	act.sa_sigaction = count;
	act.sa_flags = SA_SIGINFO;
	HOST_CHECK(sigaction(signo, &act, NULL) == 0);
}

static void connect_pair(int pair[2])
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	HOST_CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
	HOST_CHECK(listen(listener, 1) == 0);
	HOST_CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	HOST_CHECK(connect(pair[0], (struct sockaddr *)&address, sizeof(address)) == 0);
	pair[1] = accept(listener, NULL, NULL);
	HOST_CHECK(pair[1] >= 0);
	close(listener);
}

void case_out_of_band(int signo)
{
	int pair[2];
	int told = 0;

	(void)signo;
	install(SIGURG);
	connect_pair(pair);
	HOST_CHECK(fcntl(pair[1], F_SETOWN, getpid()) == 0);
	for (int i = 0; i < 20; i++) {
		char byte = 0;

		calls = 0;
		HOST_CHECK(send(pair[0], "!", 1, MSG_OOB) == 1);
		told += host_wait_for(&calls, 2000);
		HOST_CHECK(recv(pair[1], &byte, 1, MSG_OOB) == 1 && byte == '!');
		host_burn_ms(10);
	}
	printf("told %d, wrong %d\n", told, wrong);
}

/* A child that sends so many, one as soon as the last one was asked for. */
static pid_t start_sender(int signo, int n, const int ask[2])
{
	pid_t child = fork();

	HOST_CHECK(child >= 0);
	if (child == 0) {
		char byte;

		for (int i = 0; i < n; i++)
			if (read(ask[0], &byte, 1) != 1 || kill(getppid(), signo) != 0)
				_exit(1);
		_exit(0);
	}
	return child;
}

static void finish_sender(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	printf("sender %d\n", status);
}

void case_from_outside(int signo)
{
	int ask[2];
	int told = 0;
	pid_t child;

	HOST_CHECK(pipe(ask) == 0);
	install(signo);
	child = start_sender(signo, 20, ask);
	sender = child;
	for (int i = 0; i < 20; i++) {
		calls = 0;
		HOST_CHECK(write(ask[1], "?", 1) == 1);
		told += host_wait_for(&calls, 2000);
		host_burn_ms(10);
	}
	finish_sender(child);
	printf("told %d, wrong %d\n", told, wrong);
}

/* It stays pending, interrupts nothing, and comes when it is let in. */
void case_blocked_from_outside(int signo)
{
	struct timespec moment = {0, 2000000};
	sigset_t all;
	sigset_t none;
	int ask[2];
	int interrupted = 0;
	pid_t child;

	HOST_CHECK(pipe(ask) == 0);
	install(signo);
	sigfillset(&all);
	sigemptyset(&none);
	HOST_CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
	child = start_sender(signo, 10, ask);
	for (int i = 0; i < 10; i++) {
		sigset_t pending;

		host_burn_ms(10);
		HOST_CHECK(write(ask[1], "?", 1) == 1);
		for (int tries = 0; tries < 2000; tries++) {
			interrupted += nanosleep(&moment, NULL) < 0;
			sigpending(&pending);
			if (sigismember(&pending, signo))
				break;
		}
		printf("pending %d, calls %d", sigismember(&pending, signo), calls);
		HOST_CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
		printf(", then %d\n", calls);
		HOST_CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
	}
	printf("interrupted %d\n", interrupted);
	finish_sender(child);
}

/* No handler of its own: nothing may interrupt these. */
void case_interruptions(int signo)
{
	struct timespec moment = {0, 1500000};
	struct timeval limit = {0, 1500};
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int pair[2];
	int n = 0;
	sem_t never;

	(void)signo;
	HOST_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	HOST_CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
	HOST_CHECK(sem_init(&never, 0, 0) == 0);
	for (int i = 0; i < 60; i++) {
		struct timeval soon = limit;
		struct timespec until;
		char byte;

		host_burn_ms(5);
		n += nanosleep(&moment, NULL) < 0;
		n += poll(NULL, 0, 1) < 0;
		n += select(0, NULL, NULL, NULL, &soon) < 0;
		n += epoll_wait(epoll, &event, 1, 1) < 0;
		n += recv(pair[0], &byte, 1, 0) < 0 && errno == EINTR;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		n += sem_timedwait(&never, &until) < 0 && errno == EINTR;
	}
	printf("interrupted %d\n", n);
}
