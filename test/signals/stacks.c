/* SPDX-License-Identifier: Apache-2.0 */
/* Cases about work on stacks that are not the thread's own. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/signals/cases.h"

#define STACK_SIZE 16384

static sigjmp_buf place;

static void work_and_leave(int signo)
{
	(void)signo;
	host_burn_ms(8);
	siglongjmp(place, 1);
}

void case_alternate_stack(int signo)
{
	static char memory[STACK_SIZE];
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
	volatile int survived = 0;
	struct sigaction act;

	(void)signo;
	memset(&act, 0, sizeof(act));
	act.sa_handler = work_and_leave;
	act.sa_flags = SA_ONSTACK;
	HOST_CHECK(sigaltstack(&stack, NULL) == 0);
	HOST_CHECK(sigaction(SIGSEGV, &act, NULL) == 0);
	for (volatile int i = 0; i < 30; i++) {
		if (sigsetjmp(place, 1) == 0)
			raise(SIGSEGV);
		survived++;
	}
	printf("survived %d\n", survived);
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

void case_coroutines(int signo)
{
	static char stack[4][STACK_SIZE];

	(void)signo;
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
