/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with its own handlers for one signal: installs, reads back, raises, resets, ignores and blocks, and
 * prints everything that it can see. It does so before the first span, across it and inside it; a profiler that uses
 * the same signal must not change the output.
 * Usage: handlers <signal number> [still]
 *
 * With "still" the program sends itself no signal from its first span on. Valgrind 3.19 has a fault, also without us:
 * if a thread sends itself a signal just when another handler's timer ends, the signal's handler runs with the mask
 * and on the stack of that other handler. So its output would prove nothing about us.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static int signo;
static int still;
static volatile sig_atomic_t calls;
static volatile sig_atomic_t seen_code;
static volatile sig_atomic_t seen_value;
static volatile sig_atomic_t seen_sender;
static volatile sig_atomic_t seen_self_blocked;
static volatile sig_atomic_t seen_usr1_blocked;
static volatile sig_atomic_t seen_usr2_blocked;
static volatile sig_atomic_t seen_on_alternate;
static char alternate[65536];

static void look_around(void)
{
	sigset_t now;
	char here;

	sigprocmask(SIG_BLOCK, NULL, &now);
	calls++;
	seen_self_blocked = sigismember(&now, signo);
	seen_usr1_blocked = sigismember(&now, SIGUSR1);
	seen_usr2_blocked = sigismember(&now, SIGUSR2);
	seen_on_alternate = &here >= alternate && &here < alternate + sizeof(alternate);
	errno = EDOM;
}

static void detailed(int number, siginfo_t *info, void *context)
{
	(void)context;
	look_around();
	seen_code = number == signo ? info->si_code : -9999;
	seen_sender = info->si_pid == getpid();
	seen_value = info->si_value.sival_int;
}

static void plain(int number)
{
	look_around();
	seen_code = number;
}

static const char *name_of(const struct sigaction *a)
{
	/* The kernel accepts any flags for these two. */
	if (a->sa_handler == SIG_DFL)
		return "default";
	if (a->sa_handler == SIG_IGN)
		return "ignored";
	if (a->sa_flags & SA_SIGINFO)
		return a->sa_sigaction == detailed ? "detailed" : "unknown (info)";
	return a->sa_handler == plain ? "plain" : "unknown";
}

static void show_installed(const char *what)
{
	struct sigaction now;

	memset(&now, 0, sizeof(now));
	HOST_CHECK(sigaction(signo, NULL, &now) == 0);
	printf("%s: installed %s, flags %x, masks own %d usr1 %d usr2 %d\n", what, name_of(&now),
	       (unsigned)now.sa_flags & ~0x04000000U /* SA_RESTORER */,
	       sigismember(&now.sa_mask, signo), sigismember(&now.sa_mask, SIGUSR1),
	       sigismember(&now.sa_mask, SIGUSR2));
}

static void show_calls(const char *what)
{
	sigset_t now;

	sigprocmask(SIG_BLOCK, NULL, &now);
	printf("%s: calls %d code %d value %d from self %d blocked own %d usr1 %d usr2 %d, "
	       "alternate %d, after it own %d usr1 %d\n",
	       what, (int)calls, (int)seen_code, (int)seen_value, (int)seen_sender,
	       (int)seen_self_blocked, (int)seen_usr1_blocked, (int)seen_usr2_blocked,
	       (int)seen_on_alternate, sigismember(&now, signo), sigismember(&now, SIGUSR1));
	calls = 0;
	seen_code = seen_value = seen_sender = 0;
}

static void install(int flags, int masked)
{
	struct sigaction wanted;
	struct sigaction before;

	memset(&wanted, 0, sizeof(wanted));
	if (flags & SA_SIGINFO)
		wanted.sa_sigaction = detailed;
	else
		wanted.sa_handler = plain;
	wanted.sa_flags = flags;
	sigemptyset(&wanted.sa_mask);
	if (masked != 0)
		sigaddset(&wanted.sa_mask, masked);
	HOST_CHECK(sigaction(signo, &wanted, &before) == 0);
	printf("install: before it %s\n", name_of(&before));
}

static void raise_and_show(const char *what)
{
	errno = 0;
	HOST_CHECK(still || raise(signo) == 0);
	show_calls(what);
}

static void by_sigaction(void)
{
	union sigval value = {.sival_int = 77};

	install(SA_SIGINFO | SA_RESTART, SIGUSR1);
	show_installed("sigaction");
	raise_and_show("raise");
	HOST_CHECK(still || sigqueue(getpid(), signo, value) == 0);
	show_calls("sigqueue");
	install(SA_NODEFER, SIGUSR2);
	show_installed("nodefer");
	raise_and_show("nodefer");
}

static void by_signal(void)
{
	install(SA_SIGINFO, 0);
	/* signal() returns the address of a handler even if it has SA_SIGINFO. */
	printf("signal: before it %s\n",
	       (uintptr_t)signal(signo, plain) == (uintptr_t)detailed ? "detailed" : "unknown");
	show_installed("signal");
	raise_and_show("signal");
	printf("signal: before ignoring %s\n",
	       signal(signo, SIG_IGN) == plain ? "plain" : "unknown");
	show_installed("ignored");
	raise_and_show("ignored");
	printf("signal: before the default %s\n",
	       signal(signo, SIG_DFL) == SIG_IGN ? "ignored" : "unknown");
	show_installed("default");
}

static void one_shot(void)
{
	install(SA_SIGINFO | SA_RESETHAND, 0);
	show_installed("one shot");
	raise_and_show("one shot");
	show_installed("after the shot");
	/* Other signals would rightly end the process now. */
	if (signo == SIGURG)
		raise_and_show("after the shot");
}

static void ignore_with_flags(void)
{
	struct sigaction act;

	memset(&act, 0, sizeof(act));
	act.sa_handler = SIG_IGN;
	act.sa_flags = SA_SIGINFO;
	HOST_CHECK(sigaction(signo, &act, NULL) == 0);
	show_installed("ignored with flags");
	raise_and_show("ignored with flags");
}

static void while_blocked(void)
{
	sigset_t own;
	sigset_t pending;

	install(SA_SIGINFO, 0);
	sigemptyset(&own);
	sigaddset(&own, signo);
	sigprocmask(SIG_BLOCK, &own, NULL);
	raise_and_show("blocked");
	sigpending(&pending);
	printf("pending: %d\n", sigismember(&pending, signo));
	sigprocmask(SIG_UNBLOCK, &own, NULL);
	show_calls("unblocked");
}

static void on_alternate_stack(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	stack_t off = {.ss_flags = SS_DISABLE};

	HOST_CHECK(sigaltstack(&stack, NULL) == 0);
	install(SA_ONSTACK, 0);
	raise_and_show("alternate stack");
	install(0, 0);
	raise_and_show("own stack");
	HOST_CHECK(sigaltstack(&off, NULL) == 0);
}

/* A child sends the signal while a read would wait for ever. */
static void interrupt_read(const char *what, int flags)
{
	int wait_here[2];
	char byte = 0;
	pid_t child;

	install(flags, 0);
	HOST_CHECK(pipe(wait_here) == 0);
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0) {
		struct timespec step = {0, 20000000};

		/* More than one signal, because the first may come before the read. */
		for (int i = 0; i < 10; i++) {
			nanosleep(&step, NULL);
			kill(getppid(), signo);
		}
		nanosleep(&step, NULL);
		HOST_CHECK(write(wait_here[1], "x", 1) == 1);
		_exit(0);
	}
	errno = 0;
	ssize_t got = read(wait_here[0], &byte, 1);
	int why = errno;

	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	printf("%s: %s\n", what, got == 1 ? "read on" : why == EINTR ? "interrupted" : "failed");
	close(wait_here[0]);
	close(wait_here[1]);
	calls = 0;
}

static void refusals(void)
{
	struct sigaction act;

	memset(&act, 0, sizeof(act));
	act.sa_handler = plain;
	errno = 0;
	printf("signal 0: %d", sigaction(0, &act, NULL));
	printf(" %d\n", errno);
	errno = 0;
	printf("SIGKILL: %d", sigaction(SIGKILL, &act, NULL));
	printf(" %d\n", errno);
	errno = 0;
	printf("signal 1000: %d", signal(1000, plain) == SIG_ERR);
	printf(" %d\n", errno);
}

static void everything(const char *phase)
{
	printf("-- %s\n", phase);
	show_installed("at first");
	by_sigaction();
	by_signal();
	one_shot();
	ignore_with_flags();
	while_blocked();
	on_alternate_stack();
	interrupt_read("without SA_RESTART", 0);
	interrupt_read("with SA_RESTART", SA_RESTART);
	refusals();
}

int main(int argc, char **argv)
{
	void *span;

	signo = argc > 1 ? atoi(argv[1]) : SIGURG;
	otelc_init_tracer_provider("handlers", "1.0", "test", "");
	everything("before the first span");
	install(SA_SIGINFO | SA_RESTART, SIGUSR1);
	still = argc > 2 && strcmp(argv[2], "still") == 0;
	span = otelc_start_span(otelc_get_tracer(), "handlers", OTELC_SPAN_KIND_INTERNAL, NULL);
	printf("-- across the first span\n");
	show_installed("still");
	raise_and_show("still");
	host_burn_ms(150);
	show_installed("after work");
	raise_and_show("after work");
	everything("inside a span");
	host_burn_ms(150);
	otelc_end_span(span);
	raise_and_show("after the span");
	return 14;
}
