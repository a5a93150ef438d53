/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that a signal could disturb although it has no handler for it. "undisturbed waits" counts the waits of every
 * kind that end early; "undisturbed coroutines" works on stacks of 16 KiB, into which a signal's frame has to fit.
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include <poll.h>
#include <signal.h>

#include "test/hosts/host.h"

#define STACK_SIZE 16384

static void waits(void)
{
	struct timespec moment = {0, 1500000};
	struct timeval limit = {0, 1500};
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	sigset_t all;
	int pair[2];
	int n = 0;
	sem_t never;

	sigfillset(&all);
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
		n += ppoll(NULL, 0, &moment, &all) < 0;
		n += select(0, NULL, NULL, NULL, &soon) < 0;
		n += epoll_wait(epoll, &event, 1, 1) < 0;
		n += epoll_pwait(epoll, &event, 1, 1, &all) < 0;
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

static ucontext_t turns[4];
static ucontext_t end;
static unsigned long sum;

static void take_turns(int me)
{
	for (int i = 0; i < 12; i++) {
		host_burn_ms(4);
		sum += (unsigned long)(me + 1) * (unsigned long)i;
		HOST_CHECK(swapcontext(&turns[me], &turns[(me + 1) % 4]) == 0);
	}
}

static void coroutines(void)
{
	static char stack[4][STACK_SIZE];

	for (volatile int i = 0; i < 4; i++) {
		HOST_CHECK(getcontext(&turns[i]) == 0);
		turns[i].uc_stack.ss_sp = stack[i];
		turns[i].uc_stack.ss_size = sizeof(stack[i]);
		turns[i].uc_link = &end;
		makecontext(&turns[i], (void (*)(void))take_turns, 1, i);
	}
	HOST_CHECK(swapcontext(&end, &turns[0]) == 0);
	printf("sum %lu\n", sum);
}

int main(int argc, char **argv)
{
	HOST_CHECK(argc > 1);
	if (strcmp(argv[1], "waits") == 0)
		waits();
	else
		coroutines();
	return 21;
}
