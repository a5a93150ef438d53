/* SPDX-License-Identifier: Apache-2.0 */
/* aarch64 for arch_sig.h: AAPCS64 register numbers, the kernel's signal frame, raw system calls. */
#ifndef SP_ARCH_AARCH64_SIG_H
#define SP_ARCH_AARCH64_SIG_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "sampler/base/compiler.h"

#define SP_ARCH_REGS 33U /* x0..x30, sp, pc */
#define SP_ARCH_REG_FP 29U
#define SP_ARCH_REG_SP 31U
#define SP_ARCH_REG_PC 32U
#define SP_ARCH_REG_RETURN 30U
#define SP_ARCH_RED_ZONE 0U /* AAPCS64 has none; what is below sp may be overwritten */
#define SP_ARCH_ADDRESS_END (UINT64_C(1) << 52)
#define SP_ARCH_SIGRETURN_BYTES 8U

/* Where a register lies inside a ucontext. */
static inline SP_SIGSAFE size_t sp_arch_context_offset(unsigned reg)
{
	if (reg == SP_ARCH_REG_SP)
		return offsetof(ucontext_t, uc_mcontext.sp);
	if (reg == SP_ARCH_REG_PC)
		return offsetof(ucontext_t, uc_mcontext.pc);
	return offsetof(ucontext_t, uc_mcontext.regs) + reg * sizeof(uint64_t);
}

static inline SP_SIGSAFE uintptr_t sp_arch_context_reg(const void *ucontext, unsigned reg)
{
	const ucontext_t *uc = ucontext;

	if (reg == SP_ARCH_REG_SP)
		return uc->uc_mcontext.sp;
	if (reg == SP_ARCH_REG_PC)
		return uc->uc_mcontext.pc;
	return uc->uc_mcontext.regs[reg];
}

/*
 * Where the kernel saved a register of the interrupted code, given sp as it is in the signal
 * trampoline: a siginfo, then the ucontext. The CFI of the vDSO's trampoline restores x30, not
 * the interrupted pc, so the frame must be read like this (linux 6.1).
 */
static inline SP_SIGSAFE uintptr_t sp_arch_saved_reg(uintptr_t sp, unsigned reg)
{
	return sp + sizeof(siginfo_t) + sp_arch_context_offset(reg);
}

/* mov x8, #139 (rt_sigreturn); svc #0 */
static inline SP_SIGSAFE bool sp_arch_is_sigreturn(const uint8_t *code)
{
	static const uint8_t want[SP_ARCH_SIGRETURN_BYTES] = {
		0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4,
	};

	for (unsigned i = 0; i < SP_ARCH_SIGRETURN_BYTES; i++) {
		if (code[i] != want[i])
			return false;
	}
	return true;
}

/*
 * XPACLRI removes the pointer authentication code. In this encoding it is a no-op on processors
 * without the feature.
 */
static inline SP_SIGSAFE uintptr_t sp_arch_strip(uintptr_t pc)
{
	register uintptr_t lr __asm__("x30") = pc;

	__asm__("hint #7" : "+r"(lr));
	return lr;
}

static inline SP_SIGSAFE uintptr_t sp_arch_thread_pointer(void)
{
	uintptr_t tp;

	__asm__("mrs %0, tpidr_el0" : "=r"(tp));
	return tp;
}

static inline SP_SIGSAFE long sp_arch_syscall(long number, long a, long b, long c, long d)
{
	register long nr __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(nr), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

/* Calls run() on another stack; top is a multiple of 16. */
static inline SP_SIGSAFE void sp_arch_call_on(void *top, void (*run)(void))
{
	__asm__ volatile("mov x19, sp\n\t"
			 "mov sp, %0\n\t"
			 "blr %1\n\t"
			 "mov sp, x19"
			 :
			 : "r"(top), "r"(run)
			 : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
			   "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x30", "v0",
			   "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
			   "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",
			   "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31",
			   "cc", "memory");
}

/*
 * Asks whether we run under valgrind, in the way of its valgrind.h: a sequence of instructions that
 * together change nothing, which valgrind recognises as a request. The answer is in x3.
 */
static inline SP_SIGSAFE bool sp_arch_on_valgrind(void)
{
	const uint64_t question[6] = {SP_ARCH_ON_VALGRIND};
	register uint64_t answer __asm__("x3") = 0;
	register const uint64_t *asked __asm__("x4") = question;

	__asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\t"
			 "ror x12, x12, #51\n\tror x12, x12, #61\n\t"
			 "orr x10, x10, x10"
			 : "+r"(answer)
			 : "r"(asked)
			 : "cc", "memory");
	return answer != 0;
}

#endif
