/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger and the bank of bank.h. */
#include "test/rideshare/bank.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#define FRAME __attribute__((noinline))

#define BANK_MS 300

static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(const char *) holder; /* the order that has the ledger */
static uint64_t entries;
static int socket_of[2]; /* the service's end, the bank's end */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void *be_the_bank(void *arg)
{
	const struct timespec think = {.tv_nsec = BANK_MS * 1000000L};
	char request;

	while (recv(socket_of[1], &request, 1, 0) == 1) {
		nanosleep(&think, NULL);
		if (send(socket_of[1], &request, 1, 0) != 1)
			break;
	}
	return arg;
}

bool bank_open(void)
{
	pthread_t bank;

	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket_of) == 0 &&
	       pthread_create(&bank, NULL, be_the_bank, NULL) == 0 && pthread_detach(bank) == 0;
}

static FRAME void ask_the_bank(void)
{
	char byte = '$';

	if (send(socket_of[0], &byte, 1, 0) != 1 || recv(socket_of[0], &byte, 1, 0) != 1)
		perror("server: the bank");
}

static FRAME void lock_the_ledger(void)
{
	pthread_mutex_lock(&ledger);
}

FRAME void bank_charge(const char *order, bool asks, struct bank_waits *waits)
{
	uint64_t begun = now_ns();

	waits->holder = holder;
	lock_the_ledger();
	holder = order;
	waits->ledger_ns = now_ns() - begun;
	waits->bank_ns = 0;
	if (asks) {
		begun = now_ns();
		ask_the_bank();
		waits->bank_ns = now_ns() - begun;
	}
	entries++;
	holder = NULL;
	pthread_mutex_unlock(&ledger);
}
