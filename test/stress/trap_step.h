/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs code one instruction at a time: with the trap flag set the kernel sends SIGTRAP after every instruction, which
 * covers every point at which a signal handler could come. x86-64 only, and not with a sanitizer, whose signal
 * handling would interfere.
 */
#ifndef TEST_TRAP_STEP_H
#define TEST_TRAP_STEP_H

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TRAP_STEP_SKIPPED 77

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TRAP_STEP_POSSIBLE 1

/* The red zone below sp may hold locals of the function that this is inlined into. */
static inline __attribute__((always_inline)) void trap_step_on(void)
{
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
			 "leaq 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
}

static inline __attribute__((always_inline)) void trap_step_off(void)
{
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
			 "leaq 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
}
#else
#define TRAP_STEP_POSSIBLE 0

static inline void trap_step_on(void)
{
}

static inline void trap_step_off(void)
{
}
#endif

/* Calls at_stop in signal context after each instruction between on and off. */
static inline int trap_step_init(void (*at_stop)(int))
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = at_stop;
	return sigaction(SIGTRAP, &sa, NULL);
}

#endif
