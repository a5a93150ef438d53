/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has uses of its own for SIGURG, with a busy thread beside it, and prints what
 * comes of them. Usage: urgent before|during|signalfd|sigwait|none
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define ROUNDS 3
#define ROUND_MS 25

static volatile sig_atomic_t calls;
static volatile sig_atomic_t not_by_kill;
static volatile int stop;
static void *tracer;

static void count(int signo, siginfo_t *si, void *context)
{
	(void)context;
	calls += signo == SIGURG;
	not_by_kill += si->si_code != SI_USER || si->si_pid != getpid();
}

static void spend(const char *name)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(ROUND_MS);
	otelc_end_span(span);
}

static void *keep_busy(void *arg)
{
	while (!stop)
		host_burn_ms(5);
	return arg;
}

static void set_handler(void)
{
	struct sigaction act;
	struct sigaction old;

	memset(&act, 0, sizeof(act));
	act.sa_sigaction = count;
	act.sa_flags = SA_SIGINFO;
	HOST_CHECK(sigaction(SIGURG, &act, &old) == 0);
	printf("there was %s handler\n", old.sa_handler == SIG_DFL ? "no" : "a");
}

static void by_handler(const char *who)
{
	for (int i = 0; i < ROUNDS; i++) {
		kill(getpid(), SIGURG);
		spend(who);
	}
	printf("%s: %d calls, %d not by kill\n", who, (int)calls, (int)not_by_kill);
}

static void handle(void)
{
	struct sigaction old;
	pid_t child;
	int status;

	by_handler("handler");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		by_handler("child");
		fflush(stdout);
		_exit(3);
	}
	HOST_CHECK(waitpid(child, &status, 0) == child);
	printf("child ended with %d\n", WEXITSTATUS(status));
	HOST_CHECK(sigaction(SIGURG, NULL, &old) == 0);
	printf("read back: %d\n", old.sa_sigaction == count && (old.sa_flags & SA_SIGINFO) != 0);
	HOST_CHECK(signal(SIGURG, SIG_DFL) != SIG_ERR);
	by_handler("default");
}

static int read_one(int fd, const sigset_t *set)
{
	struct signalfd_siginfo info;
	int signo = 0;

	if (fd < 0) {
		HOST_CHECK(sigwait(set, &signo) == 0);
		return signo;
	}
	HOST_CHECK(read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info));
	HOST_CHECK((pid_t)info.ssi_pid == getpid());
	return (int)info.ssi_signo;
}

/* All threads have blocked it by then, as they have to where one of them reads it. */
static void read_it(int fd, const sigset_t *set)
{
	struct timespec none = {0, 0};

	for (int i = 0; i < ROUNDS; i++) {
		spend("before");
		kill(getpid(), SIGURG);
		spend("pending");
		printf("read %s, ", read_one(fd, set) == SIGURG ? "it" : "another");
		spend("after");
		printf("then %s\n", sigtimedwait(set, NULL, &none) < 0 ? "nothing" : "another");
	}
}

/* As long as the others take: what one piece has used since its last sample may be most of it. */
static void undisturbed(void)
{
	for (int i = 0; i < 3 * ROUNDS; i++)
		spend("alone");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	bool reads = strcmp(mode, "signalfd") == 0 || strcmp(mode, "sigwait") == 0;
	pthread_t busy;
	sigset_t set;

	otelc_init_tracer_provider("urgent", "1.0", "test", "");
	tracer = otelc_get_tracer();
	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	if (strcmp(mode, "before") == 0)
		set_handler();
	spend("first");
	if (reads)
		HOST_CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	HOST_CHECK(pthread_create(&busy, NULL, keep_busy, NULL) == 0);
	if (strcmp(mode, "during") == 0)
		set_handler();
	if (reads)
		read_it(mode[3] == 'n' ? signalfd(-1, &set, SFD_CLOEXEC) : -1, &set);
	else if (strcmp(mode, "none") != 0)
		handle();
	else
		undisturbed();
	stop = 1;
	pthread_join(busy, NULL);
	return 9;
}
