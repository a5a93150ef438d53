/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we need to know of each processor, x86-64 and aarch64: register numbers (System V, AAPCS64), the kernel's
 * signal frame, raw system calls; and the register file of one frame, indexed by DWARF register number. Both
 * give the same names, with the same meaning. Context: SIG.
 */
#ifndef SP_ARCH_SIG_H
#define SP_ARCH_SIG_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "sampler/base/compiler.h"

/* VG_USERREQ__RUNNING_ON_VALGRIND */
#define SP_ARCH_ON_VALGRIND 0x1001U

#if defined(__x86_64__)

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

#elif defined(__aarch64__)

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

#else
#error "the unwinder knows x86-64 and aarch64"
#endif

/* The registers of one frame. r[SP_ARCH_REG_PC] always equals pc. */
struct sp_regs {
	uintptr_t pc;
	uint64_t known; /* bit i: r[i] is this frame's value; otherwise it was lost on the way */
	uintptr_t r[SP_ARCH_REGS];
};

static inline SP_SIGSAFE bool sp_regs_known(const struct sp_regs *regs, uint64_t reg)
{
	return reg < SP_ARCH_REGS && (regs->known >> reg & 1) != 0;
}

static inline SP_SIGSAFE void sp_regs_set(struct sp_regs *regs, unsigned reg, uintptr_t value)
{
	regs->r[reg] = value;
	regs->known |= UINT64_C(1) << reg;
}

static inline SP_SIGSAFE void sp_regs_set_pc(struct sp_regs *regs, uintptr_t pc)
{
	regs->pc = pc;
	sp_regs_set(regs, SP_ARCH_REG_PC, pc);
}

static inline SP_SIGSAFE void sp_regs_load(struct sp_regs *regs, const void *ucontext)
{
	regs->known = (UINT64_C(1) << SP_ARCH_REGS) - 1;
	for (unsigned i = 0; i < SP_ARCH_REGS; i++)
		regs->r[i] = sp_arch_context_reg(ucontext, i);
	regs->pc = regs->r[SP_ARCH_REG_PC];
}

#endif
