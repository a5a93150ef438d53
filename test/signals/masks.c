/* SPDX-License-Identifier: Apache-2.0 */
/* Cases about threads that block nearly every signal, for good or for a moment. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/signals/cases.h"

#define THREADS 3
#define THREAD_MS 120

/* What nginx's thread pool and HAProxy block: all but what a fault of their own raises. */
static void nearly_all(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGILL);
	sigdelset(set, SIGFPE);
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
}

static int blocked_now(void)
{
	sigset_t now;
	int n = 0;

	HOST_CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
	for (int i = 1; i < NSIG; i++)
		n += sigismember(&now, i) == 1;
	return n;
}

struct result {
	int before;
	int after;
};

static void *block_and_work(void *arg)
{
	struct result *r = arg;
	sigset_t set;

	nearly_all(&set);
	HOST_CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	r->before = blocked_now();
	host_burn_ms(THREAD_MS);
	r->after = blocked_now();
	return NULL;
}

static void *just_work(void *arg)
{
	struct result *r = arg;

	r->before = blocked_now();
	host_burn_ms(THREAD_MS);
	r->after = blocked_now();
	return NULL;
}

static void run_threads(void *(*routine)(void *))
{
	pthread_t thread[THREADS];
	struct result result[THREADS];

	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, routine, &result[i]) == 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		printf("blocked %d, %d\n", result[i].before, result[i].after);
	}
}

void case_blanket_threads(int signo)
{
	(void)signo;
	run_threads(block_and_work);
	printf("main: blocked %d\n", blocked_now());
}

void case_blanket_inherited(int signo)
{
	sigset_t set;
	sigset_t before;

	(void)signo;
	nearly_all(&set);
	HOST_CHECK(pthread_sigmask(SIG_SETMASK, &set, &before) == 0);
	run_threads(just_work);
	printf("main: blocked %d\n", blocked_now());
	HOST_CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	printf("main: blocked %d\n", blocked_now());
}

static void sections(const sigset_t *set)
{
	for (int i = 0; i < 200; i++) {
		sigset_t before;
		sigset_t inside;

		HOST_CHECK(sigprocmask(SIG_BLOCK, set, &before) == 0);
		host_burn_ms(1);
		HOST_CHECK(sigprocmask(SIG_SETMASK, &before, &inside) == 0);
		for (int n = 1; n < NSIG; n++)
			HOST_CHECK(n == SIGKILL || n == SIGSTOP ||
				   sigismember(&inside, n) == sigismember(set, n));
		host_burn_ms(1);
	}
	printf("blocked %d\n", blocked_now());
}

void case_blanket_sections(int signo)
{
	sigset_t set;

	(void)signo;
	nearly_all(&set);
	sections(&set);
}

void case_own_section(int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	sections(&set);
}

static void polls(const sigset_t *mask)
{
	struct timespec soon = {0, 1000000};
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int interrupted = 0;

	for (int i = 0; i < 60; i++) {
		host_burn_ms(5);
		interrupted += ppoll(NULL, 0, &soon, mask) < 0;
		interrupted += pselect(0, NULL, NULL, NULL, &soon, mask) < 0;
		interrupted += epoll_pwait(epoll, &event, 1, 1, mask) < 0;
	}
	printf("interrupted %d, blocked %d\n", interrupted, blocked_now());
	close(epoll);
}

void case_blanket_polls(int signo)
{
	sigset_t set;
	sigset_t none;

	(void)signo;
	nearly_all(&set);
	sigemptyset(&none);
	HOST_CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
	polls(&none);
}

void case_full_polls(int signo)
{
	sigset_t set;

	(void)signo;
	sigfillset(&set);
	polls(&set);
}

static ucontext_t here;
static ucontext_t there;
static int seen_there;

static void go_back(void)
{
	seen_there = blocked_now();
	host_burn_ms(20);
	HOST_CHECK(swapcontext(&there, &here) == 0);
}

/* Both keep a mask by a system call of the C library that no hook sees. */
void case_blanket_jump(int signo)
{
	static char stack[65536];
	sigjmp_buf place;
	sigset_t set;

	(void)signo;
	nearly_all(&set);
	for (volatile int i = 0; i < 8; i++) {
		volatile int jumped = 0;

		if (sigsetjmp(place, 1) == 0) {
			HOST_CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
			host_burn_ms(10);
			jumped = 1;
			siglongjmp(place, 1);
		}
		printf("jumped %d, blocked %d", jumped, blocked_now());
		HOST_CHECK(getcontext(&there) == 0);
		there.uc_stack.ss_sp = stack;
		there.uc_stack.ss_size = sizeof(stack);
		makecontext(&there, go_back, 0);
		HOST_CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
		HOST_CHECK(swapcontext(&here, &there) == 0);
		printf(", there %d, back %d", seen_there, blocked_now());
		host_burn_ms(10);
		HOST_CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
		printf(", unblocked %d\n", blocked_now());
	}
}
