/* SPDX-License-Identifier: Apache-2.0 */
/* Cases about dispositions: reset, ignored, read back, one shot, the older functions. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/signals/cases.h"

#define ROUNDS 30
#define ROUND_MS 8

/* The functions that <signal.h> hides or calls obsolete (glibc: signal/signal.h). */
extern __sighandler_t bsd_signal(int, __sighandler_t);

static volatile sig_atomic_t calls;

static void count(int signo)
{
	(void)signo;
	calls++;
}

static void count_info(int signo, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	count(signo);
}

static const char *installed(int signo)
{
	struct sigaction now;

	memset(&now, 0, sizeof(now));
	HOST_CHECK(sigaction(signo, NULL, &now) == 0);
	if (now.sa_handler == SIG_DFL)
		return "default";
	if (now.sa_handler == SIG_IGN)
		return "ignored";
	return now.sa_handler == count || now.sa_sigaction == count_info ? "counted" : "unknown";
}

static void all_by_signal(int signo, __sighandler_t handler)
{
	for (int i = 0; i < ROUNDS; i++) {
		for (int n = 1; n < NSIG; n++)
			(void)signal(n, handler);
		host_burn_ms(ROUND_MS);
	}
	printf("%s\n", installed(signo));
}

void case_reset_signal(int signo)
{
	all_by_signal(signo, SIG_DFL);
}

void case_ignore_signal(int signo)
{
	all_by_signal(signo, SIG_IGN);
}

void case_reset_sigaction(int signo)
{
	struct sigaction reset;
	struct sigaction before;

	memset(&reset, 0, sizeof(reset));
	for (int i = 0; i < ROUNDS; i++) {
		for (int n = 1; n < NSIG; n++)
			(void)sigaction(n, &reset, n == signo ? &before : NULL);
		HOST_CHECK(before.sa_handler == SIG_DFL);
		host_burn_ms(ROUND_MS);
	}
	printf("%s\n", installed(signo));
}

void case_reset_raw(int signo)
{
	/* The kernel's struct: handler, flags, restorer, mask; all zero is the default action. */
	static const unsigned long reset[4];

	/* so that there are timers by then */
	host_burn_ms(50);
	for (int i = 0; i < ROUNDS; i++) {
		HOST_CHECK(syscall(SYS_rt_sigaction, signo, reset, NULL, 8) == 0);
		host_burn_ms(ROUND_MS);
	}
}

/* What is read back is what was set, with every flag that the kernel keeps. */
void case_set_and_read(int signo)
{
	static const int flags[] = {0,
				    SA_RESTART,
				    SA_SIGINFO,
				    SA_NODEFER,
				    SA_RESETHAND,
				    SA_ONSTACK,
				    SA_NOCLDSTOP,
				    SA_SIGINFO | SA_RESTART};
	int wrong = 0;

	for (int i = 0; i < 400; i++) {
		struct sigaction wanted;
		struct sigaction got;

		memset(&wanted, 0, sizeof(wanted));
		wanted.sa_flags = flags[i % 8];
		if (wanted.sa_flags & SA_SIGINFO)
			wanted.sa_sigaction = count_info;
		else
			wanted.sa_handler = count;
		sigaddset(&wanted.sa_mask, 1 + i % 31);
		HOST_CHECK(sigaction(signo, &wanted, NULL) == 0);
		HOST_CHECK(sigaction(signo, NULL, &got) == 0);
		wrong += got.sa_handler != wanted.sa_handler;
		/* SA_RESTORER is the C library's own. */
		wrong += (got.sa_flags & ~0x04000000) != wanted.sa_flags;
		for (int n = 1; n < 32; n++)
			wrong += n != SIGKILL && n != SIGSTOP &&
				 sigismember(&got.sa_mask, n) != sigismember(&wanted.sa_mask, n);
		host_burn_ms(1);
	}
	printf("wrong %d\n", wrong);
}

void case_one_shot(int signo)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct sigaction once;

		memset(&once, 0, sizeof(once));
		once.sa_handler = count;
		once.sa_flags = (int)SA_RESETHAND;
		calls = 0;
		HOST_CHECK(sigaction(signo, &once, NULL) == 0);
		HOST_CHECK(strcmp(installed(signo), "counted") == 0);
		host_burn_ms(ROUND_MS);
		HOST_CHECK(strcmp(installed(signo), "counted") == 0 && calls == 0);
		raise(signo);
		HOST_CHECK(strcmp(installed(signo), "default") == 0 && calls == 1);
	}
	printf("shots %d\n", ROUNDS);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void show(const char *function, int signo, __sighandler_t before)
{
	struct sigaction now;

	host_burn_ms(25);
	HOST_CHECK(sigaction(signo, NULL, &now) == 0);
	printf("%s: before %s, now %s, flags %x, masks itself %d\n", function,
	       before == SIG_DFL    ? "default"
	       : before == SIG_IGN  ? "ignored"
	       : before == SIG_HOLD ? "held"
	       : before == count    ? "counted"
				    : "unknown",
	       installed(signo), (unsigned)now.sa_flags & ~0x04000000U,
	       sigismember(&now.sa_mask, signo));
}

void case_variants(int signo)
{
	show("sysv_signal", signo, sysv_signal(signo, count));
	show("bsd_signal", signo, bsd_signal(signo, count));
	show("siginterrupt 1", signo, siginterrupt(signo, 1) == 0 ? SIG_DFL : SIG_ERR);
	show("siginterrupt 0", signo, siginterrupt(signo, 0) == 0 ? SIG_DFL : SIG_ERR);
	show("ssignal", signo, ssignal(signo, SIG_IGN));
	show("sigset", signo, sigset(signo, count));
	calls = 0;
	raise(signo);
	printf("raised: calls %d\n", (int)calls);
	HOST_CHECK(sighold(signo) == 0);
	raise(signo);
	printf("held: calls %d\n", (int)calls);
	show("sigset of a held one", signo, sigset(signo, count));
	printf("released: calls %d\n", (int)calls);
	show("sigignore", signo, sigignore(signo) == 0 ? SIG_DFL : SIG_ERR);
	show("sigset", signo, sigset(signo, SIG_DFL));
	show("signal", signo, signal(signo, count));
	calls = 0;
	raise(signo);
	printf("raised: calls %d\n", (int)calls);
}
