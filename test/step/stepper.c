/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two situations would end the stepping or the process. A blocked SIGTRAP kills the process at the next trap, so
 * rt_sigprocmask is carried out here without SIGTRAP. A new thread inherits the trap flag, so it is cleared at that
 * thread's first trap.
 */
#include "test/step/stepper.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100
#define SYSCALL_BYTES 2

struct call {
	uintptr_t slot; /* where the return address is stored */
	uintptr_t ret;
};

static struct {
	stepper_check_fn *check;
	struct call calls[STEPPER_DEPTH];
	unsigned depth;
	bool at_call;  /* the last instruction was a call */
	uintptr_t sp;  /* before the instruction */
	uintptr_t ret; /* of stepper_run */
	const uint64_t *outer;
	unsigned outer_depth;
	unsigned long overflows;
} shadow;

static __thread bool stepped;

static bool is_prefix(uint8_t byte)
{
	return byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x3e ||
	       (byte & 0xf0) == 0x40;
}

static bool is_call(const uint8_t *code)
{
	while (is_prefix(*code))
		code++;
	return code[0] == 0xe8 || (code[0] == 0xff && (code[1] >> 3 & 7) == 2);
}

static bool is_syscall(const uint8_t *code)
{
	return code[0] == 0x0f && code[1] == 0x05;
}

/* A call pushes a return address; every move of sp above a return address pops it (ret, longjmp, throw). */
static void follow(uintptr_t sp)
{
	if (shadow.at_call && sp == shadow.sp - sizeof(uintptr_t)) {
		if (shadow.depth == STEPPER_DEPTH)
			shadow.overflows++;
		else
			shadow.calls[shadow.depth++] = (struct call){sp, *(const uintptr_t *)sp};
	}
	while (shadow.depth > 0 && shadow.calls[shadow.depth - 1].slot < sp)
		shadow.depth--;
}

static int compare(const ucontext_t *uc)
{
	static struct stepper_truth truth;
	unsigned n = 0;

	truth.pc[n++] = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	for (unsigned i = shadow.depth; i > 0 && n < STEPPER_DEPTH - 1; i--)
		truth.pc[n++] = shadow.calls[i - 1].ret;
	truth.pc[n++] = shadow.ret;
	for (unsigned i = 0; i < shadow.outer_depth && n < STEPPER_DEPTH; i++)
		truth.pc[n++] = shadow.outer[i];
	truth.depth = n;
	return shadow.check(uc, &truth);
}

/* Carries out rt_sigprocmask on the mask that the handler's return will install. */
static void change_mask(ucontext_t *uc)
{
	greg_t *g = uc->uc_mcontext.gregs;
	const uint64_t *set = (const uint64_t *)g[REG_RSI];
	uint64_t *old = (uint64_t *)g[REG_RDX];
	uint64_t mask;
	uint64_t asked = 0;

	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	if (set != NULL)
		asked = *set;
	if (old != NULL)
		*old = mask;
	if (set != NULL && g[REG_RDI] == SIG_BLOCK)
		mask |= asked;
	else if (set != NULL && g[REG_RDI] == SIG_UNBLOCK)
		mask &= ~asked;
	else if (set != NULL)
		mask = asked;
	mask &= ~(UINT64_C(1) << (SIGTRAP - 1));
	memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
	g[REG_RAX] = 0;
	g[REG_RIP] += SYSCALL_BYTES;
	g[REG_RCX] = g[REG_RIP];
	g[REG_R11] = g[REG_EFL];
}

static void on_trap(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	greg_t *g = uc->uc_mcontext.gregs;
	int saved = errno;

	(void)sig;
	(void)si;
	if (!stepped) {
		g[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	follow((uintptr_t)g[REG_RSP]);
	/* Not in stepper_run itself, whose pushfq has no call frame information. */
	if (shadow.depth > 0 && compare(uc) != 0) {
		g[REG_EFL] &= ~TRAP_FLAG;
		stepped = false;
	}
	if (stepped && is_syscall((const uint8_t *)g[REG_RIP]) && g[REG_RAX] == SYS_rt_sigprocmask)
		change_mask(uc);
	shadow.at_call = is_call((const uint8_t *)g[REG_RIP]);
	shadow.sp = (uintptr_t)g[REG_RSP];
	errno = saved;
}

void stepper_init(stepper_check_fn *check)
{
	struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

	shadow.check = check;
	sigfillset(&sa.sa_mask);
	sigaction(SIGTRAP, &sa, NULL);
}

__attribute__((noinline)) void stepper_run(void (*fn)(void), const uint64_t *outer,
					   unsigned outer_depth)
{
	shadow.depth = 0;
	shadow.at_call = false;
	shadow.ret = (uintptr_t)__builtin_return_address(0);
	shadow.outer = outer;
	shadow.outer_depth = outer_depth;
	stepped = true;
	/* The first trap comes after the instruction that follows popfq, so before the call. */
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq; nop" ::: "memory", "cc");
	fn();
	__asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" ::: "memory", "cc");
	stepped = false;
}

unsigned long stepper_overflows(void)
{
	return shadow.overflows;
}
