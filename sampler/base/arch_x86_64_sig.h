/* SPDX-License-Identifier: Apache-2.0 */
/* x86-64 for arch_sig.h: System V register numbers, the kernel's signal frame, raw system calls. */
#ifndef SP_ARCH_X86_64_SIG_H
#define SP_ARCH_X86_64_SIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "sampler/base/compiler.h"

#define SP_ARCH_REGS 17U /* 16 general registers and the return address column */
#define SP_ARCH_REG_FP 6U
#define SP_ARCH_REG_SP 7U
#define SP_ARCH_REG_PC 16U
#define SP_ARCH_REG_RETURN 16U
#define SP_ARCH_RED_ZONE 128U
#define SP_ARCH_ADDRESS_END (UINT64_C(1) << 47)
#define SP_ARCH_SIGRETURN_BYTES 9U

/* Index into gregs of each DWARF register number. */
static inline SP_SIGSAFE unsigned sp_arch_greg(unsigned reg)
{
	static const uint8_t greg[SP_ARCH_REGS] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
		REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
	};

	return greg[reg];
}

static inline SP_SIGSAFE uintptr_t sp_arch_context_reg(const void *ucontext, unsigned reg)
{
	const ucontext_t *uc = ucontext;

	return (uintptr_t)uc->uc_mcontext.gregs[sp_arch_greg(reg)];
}

/*
 * Where the kernel saved a register of the interrupted code. sp is as it is in the signal
 * trampoline: the return from the handler has popped the return address, so sp points at the
 * ucontext.
 */
static inline SP_SIGSAFE uintptr_t sp_arch_saved_reg(uintptr_t sp, unsigned reg)
{
	return sp + offsetof(ucontext_t, uc_mcontext.gregs) + sp_arch_greg(reg) * sizeof(greg_t);
}

/* mov $15 (rt_sigreturn), %rax; syscall: the form that glibc, musl and Go use. */
static inline SP_SIGSAFE bool sp_arch_is_sigreturn(const uint8_t *code)
{
	static const uint8_t want[SP_ARCH_SIGRETURN_BYTES] = {
		0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05,
	};

	for (unsigned i = 0; i < SP_ARCH_SIGRETURN_BYTES; i++) {
		if (code[i] != want[i])
			return false;
	}
	return true;
}

static inline SP_SIGSAFE uintptr_t sp_arch_strip(uintptr_t pc)
{
	return pc;
}

static inline SP_SIGSAFE uintptr_t sp_arch_thread_pointer(void)
{
	uintptr_t tp;

	__asm__("mov %%fs:0, %0" : "=r"(tp));
	return tp;
}

static inline SP_SIGSAFE long sp_arch_syscall(long number, long a, long b, long c, long d)
{
	long rc;
	register long fourth __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
			 : "rcx", "r11", "memory");
	return rc;
}

/* Calls run() on another stack; top is a multiple of 16. */
static inline SP_SIGSAFE void sp_arch_call_on(void *top, void (*run)(void))
{
	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "movq %0, %%rsp\n\t"
			 "call *%1\n\t"
			 "movq %%rbx, %%rsp"
			 :
			 : "r"(top), "r"(run)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
			   "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
			   "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc",
			   "memory");
}

/*
 * Asks whether we run under valgrind, in the way of its valgrind.h: a sequence of instructions that
 * together change nothing, which valgrind recognises as a request. The answer is in rdx.
 */
static inline SP_SIGSAFE bool sp_arch_on_valgrind(void)
{
	const uint64_t question[6] = {SP_ARCH_ON_VALGRIND};
	uint64_t answer = 0;

	__asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(question)
			 : "cc", "memory");
	return answer != 0;
}

#endif
