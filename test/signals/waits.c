/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases about programs that block every signal everywhere and wait for signals in one thread, which
 * works between its waits, while another thread works all the time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "test/common/take.h"
#include "test/hosts/host.h"
#include "test/signals/cases.h"

#define ROUNDS 12

static sigset_t all;
static volatile int stop;

static void *keep_busy(void *arg)
{
	while (!stop)
		host_burn_ms(5);
	return arg;
}

/* Sends itself that signal and another one, and must get both, the other's number first or last. */
static void take_turns(int signo, int (*take)(const sigset_t *))
{
	pthread_t busy;

	sigfillset(&all);
	HOST_CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	HOST_CHECK(pthread_create(&busy, NULL, keep_busy, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct timespec none = {0, 0};
		int wanted = i % 2 == 0 ? signo : SIGUSR2;
		sigset_t pending;
		int got;

		host_burn_ms(10);
		kill(getpid(), wanted);
		host_burn_ms(10);
		sigpending(&pending);
		got = take(&all);
		printf("pending %d, took %s\n", sigismember(&pending, wanted),
		       got == wanted  ? "it"
		       : got == signo ? "another (its number)"
				      : "another");
		host_burn_ms(10);
		/* and nothing that nobody sent */
		got = sigtimedwait(&all, NULL, &none);
		printf("then %s\n", got < 0 && errno == EAGAIN ? "nothing" : "something");
	}
	stop = 1;
	pthread_join(busy, NULL);
}

void case_sigwait(int signo)
{
	take_turns(signo, take_by_sigwait);
}

void case_sigwaitinfo(int signo)
{
	take_turns(signo, take_by_sigwaitinfo);
}

void case_sigtimedwait(int signo)
{
	take_turns(signo, take_by_sigtimedwait);
}

void case_signalfd(int signo)
{
	take_turns(signo, take_by_signalfd);
}

static volatile sig_atomic_t calls;

static void count(int signo)
{
	(void)signo;
	calls++;
}

/*
 * The textbook wait: blocked, then suspended with nothing blocked until the handler has run. Once is
 * not enough: a sample that falls between the other signal and its handler ends the wait first, and
 * with the wait ends the mask that lets the other handler run (LIMITATIONS of spanprof(7)).
 */
void case_sigsuspend(int signo)
{
	struct sigaction act;
	sigset_t none;

	memset(&act, 0, sizeof(act));
	act.sa_handler = count;
	HOST_CHECK(sigaction(SIGUSR1, &act, NULL) == 0);
	HOST_CHECK(sigaction(signo, &act, NULL) == 0);
	sigfillset(&all);
	sigemptyset(&none);
	HOST_CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
	for (int i = 0; i < 2 * ROUNDS; i++) {
		int before = calls;
		int rc;

		host_burn_ms(10);
		kill(getpid(), i % 2 == 0 ? SIGUSR1 : signo);
		printf("before %d", (int)calls);
		do {
			errno = 0;
			rc = sigsuspend(&none);
		} while (rc == -1 && errno == EINTR && calls == before);
		printf(", suspend %d %s, after %d\n", rc, errno == EINTR ? "EINTR" : "?",
		       (int)calls);
	}
}
