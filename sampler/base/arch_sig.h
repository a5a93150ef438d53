/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between the processors x86-64 and aarch64: register numbers (System V, AAPCS64),
 * the kernel's signal frame, raw system calls; and the register file of one frame, indexed by DWARF
 * register number. Both halves define the same names with the same meaning. Context: SIG.
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

/*
 * An instruction of an epilogue, which gives back a function's frame: it adds a constant to sp,
 * pops a register, copies the frame pointer to sp (leave), or returns.
 */
enum sp_arch_epilogue_op {
	SP_ARCH_EPILOGUE_NONE, /* any other instruction */
	SP_ARCH_EPILOGUE_ADD,
	SP_ARCH_EPILOGUE_POP,
	SP_ARCH_EPILOGUE_LEAVE,
	SP_ARCH_EPILOGUE_RETURN,
};

struct sp_arch_epilogue {
	enum sp_arch_epilogue_op op;
	unsigned bytes; /* length of the instruction */
	uint32_t value; /* bytes to add, or the register */
};

#if defined(__x86_64__)

#define SP_ARCH_REGS 17U /* 16 general registers and the return address column */
#define SP_ARCH_REG_FP 6U
#define SP_ARCH_REG_SP 7U
#define SP_ARCH_REG_PC 16U
#define SP_ARCH_REG_RETURN 16U
#define SP_ARCH_RED_ZONE 128U
#define SP_ARCH_ADDRESS_END (UINT64_C(1) << 47)
#define SP_ARCH_SIGRETURN_BYTES 9U

/* The index into gregs for each DWARF register number. */
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
 * The address at which the kernel saved a register of the interrupted code. sp is the value in the
 * signal trampoline: the return from the handler has popped the return address, so sp points to the
 * ucontext.
 */
static inline SP_SIGSAFE uintptr_t sp_arch_saved_reg(uintptr_t sp, unsigned reg)
{
	return sp + offsetof(ucontext_t, uc_mcontext.gregs) + sp_arch_greg(reg) * sizeof(greg_t);
}

/* mov $15 (rt_sigreturn), %rax; syscall: glibc, musl and Go use these bytes. */
static inline SP_SIGSAFE SP_RAW bool sp_arch_is_sigreturn(const uint8_t *code)
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

/* A near call has at most this many bytes, without prefixes. */
#define SP_ARCH_CALL_BYTES 7U

/*
 * The length of "call *operand" (ff /2) from its opcode on; sib is the byte behind modrm. 0 = not
 * such a call.
 */
static inline SP_SIGSAFE unsigned sp_arch_indirect_call_bytes(uint8_t modrm, uint8_t sib)
{
	unsigned mode = modrm >> 6;
	unsigned base = modrm & 7;
	bool has_sib = mode != 3 && base == 4;
	unsigned bytes = has_sib ? 3 : 2;

	if ((modrm >> 3 & 7) != 2)
		return 0;
	if (mode == 0 && (base == 5 || (has_sib && (sib & 7) == 5)))
		return bytes + 4;
	return mode == 1 ? bytes + 1 : mode == 2 ? bytes + 4 : bytes;
}

/*
 * Whether the instruction before pc is a near call; `before` bytes before pc can be read. Prefixes
 * do not change the end of the call.
 */
static inline SP_SIGSAFE SP_RAW bool sp_arch_is_behind_call(const uint8_t *pc, unsigned before)
{
	if (before >= 5 && pc[-5] == 0xe8)
		return true;
	for (int bytes = 2; bytes <= (int)SP_ARCH_CALL_BYTES && bytes <= (int)before; bytes++) {
		/* The form of two bytes ends with modrm, so it has no SIB. */
		uint8_t sib = bytes > 2 ? pc[2 - bytes] : 0;

		if (pc[-bytes] == 0xff &&
		    sp_arch_indirect_call_bytes(pc[1 - bytes], sib) == (unsigned)bytes)
			return true;
	}
	return false;
}

/* This many bytes of an instruction are read. */
#define SP_ARCH_EPILOGUE_BYTES 8U

static inline SP_SIGSAFE SP_RAW struct sp_arch_epilogue sp_arch_epilogue_at(const uint8_t *pc)
{
	/* DWARF's numbers for the processor's numbers 0 to 7; 8 to 15 are equal. */
	static const uint8_t dwarf[8] = {0, 2, 1, 3, 7, 6, 4, 5};
	struct sp_arch_epilogue none = {SP_ARCH_EPILOGUE_NONE, 0, 0};
	uint32_t constant = (uint32_t)pc[3] | (uint32_t)pc[4] << 8 | (uint32_t)pc[5] << 16 |
			    (uint32_t)pc[6] << 24;

	if (pc[0] == 0xc3)
		return (struct sp_arch_epilogue){SP_ARCH_EPILOGUE_RETURN, 1, 0};
	if (pc[0] == 0xc9)
		return (struct sp_arch_epilogue){SP_ARCH_EPILOGUE_LEAVE, 1, 0};
	/* pop, except of sp */
	if (pc[0] >= 0x58 && pc[0] <= 0x5f && pc[0] != 0x5c)
		return (struct sp_arch_epilogue){SP_ARCH_EPILOGUE_POP, 1, dwarf[pc[0] & 7]};
	if (pc[0] == 0x41 && pc[1] >= 0x58 && pc[1] <= 0x5f)
		return (struct sp_arch_epilogue){SP_ARCH_EPILOGUE_POP, 2, 8U + (pc[1] & 7U)};
	/* add to sp a constant of 1 or 4 bytes that is not negative */
	if (pc[0] == 0x48 && pc[1] == 0x83 && pc[2] == 0xc4 && pc[3] < 0x80)
		return (struct sp_arch_epilogue){SP_ARCH_EPILOGUE_ADD, 4, pc[3]};
	if (pc[0] == 0x48 && pc[1] == 0x81 && pc[2] == 0xc4 && constant <= INT32_MAX)
		return (struct sp_arch_epilogue){SP_ARCH_EPILOGUE_ADD, 7, constant};
	return none;
}

/* The first argument of a function. */
#define SP_ARCH_REG_ARGUMENT 5U

/* The registers with the arguments of a system call: rdi, rsi, rdx, r10, r8, r9. */
static inline SP_SIGSAFE unsigned sp_arch_syscall_reg(unsigned argument)
{
	static const uint8_t reg[] = {5, 4, 1, 10, 8, 9};

	return reg[argument];
}

/*
 * The address of the frame that the kernel built for a handler that has not run an instruction yet;
 * sp will have this value in the signal trampoline. reg has the handler's registers. The frame
 * begins with the return address; the third argument is the ucontext behind it. 0 = the registers
 * do not fit that.
 */
static inline SP_SIGSAFE uintptr_t sp_arch_handler_frame(const uintptr_t reg[])
{
	const unsigned third_argument = 1;
	uintptr_t frame = reg[SP_ARCH_REG_SP] + sizeof(uintptr_t);

	return reg[third_argument] == frame ? frame : 0;
}

/* The address of such a handler's return address; 0 = it is in SP_ARCH_REG_RETURN. */
static inline SP_SIGSAFE uintptr_t sp_arch_handler_return(const uintptr_t reg[])
{
	return reg[SP_ARCH_REG_SP];
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

static inline SP_SIGSAFE long sp_arch_syscall6(long number, const long a[6])
{
	/*
	 * All arguments are read first: the thread sanitizer makes each read a call, which would
	 * change the registers below.
	 */
	const long first = a[0], second = a[1], third = a[2], fourth = a[3], fifth = a[4],
		   sixth = a[5];
	long rc;
	register long r10 __asm__("r10") = fourth;
	register long r8 __asm__("r8") = fifth;
	register long r9 __asm__("r9") = sixth;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8),
			   "r"(r9)
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
 * Whether we run under valgrind, by the request of its valgrind.h: instructions that together
 * change nothing and that valgrind recognises. The answer is in rdx.
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
#define SP_ARCH_RED_ZONE 0U /* AAPCS64 has none; memory below sp may be overwritten */
#define SP_ARCH_ADDRESS_END (UINT64_C(1) << 52)
#define SP_ARCH_SIGRETURN_BYTES 8U

/* The offset of a register in a ucontext. */
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
 * The address at which the kernel saved a register of the interrupted code. sp is the value in the
 * signal trampoline and points to a siginfo and then the ucontext. The CFI of the vDSO's trampoline
 * restores x30 and not the interrupted pc, so the frame must be read like this (linux 6.1).
 */
static inline SP_SIGSAFE uintptr_t sp_arch_saved_reg(uintptr_t sp, unsigned reg)
{
	return sp + sizeof(siginfo_t) + sp_arch_context_offset(reg);
}

/* mov x8, #139 (rt_sigreturn); svc #0 */
static inline SP_SIGSAFE SP_RAW bool sp_arch_is_sigreturn(const uint8_t *code)
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

#define SP_ARCH_CALL_BYTES 4U

/* bl and blr; and blraa, blrab, blraaz and blrabz, which authenticate the pointer. */
static inline SP_SIGSAFE SP_RAW bool sp_arch_is_behind_call(const uint8_t *pc, unsigned before)
{
	uint32_t code = 0;

	if (before < SP_ARCH_CALL_BYTES)
		return false;
	for (unsigned i = 0; i < SP_ARCH_CALL_BYTES; i++)
		code |= (uint32_t)pc[(int)i - (int)SP_ARCH_CALL_BYTES] << (8 * i);
	return (code & 0xfc000000U) == 0x94000000U || (code & 0xfffffc1fU) == 0xd63f0000U ||
	       (code & 0xfffff81fU) == 0xd63f081fU || (code & 0xfffff800U) == 0xd73f0800U;
}

/* Epilogues are not decoded here: generated code on aarch64 has frame pointers. */
#define SP_ARCH_EPILOGUE_BYTES 4U

static inline SP_SIGSAFE SP_RAW struct sp_arch_epilogue sp_arch_epilogue_at(const uint8_t *pc)
{
	struct sp_arch_epilogue none = {SP_ARCH_EPILOGUE_NONE, 0, 0};

	(void)pc;
	return none;
}

#define SP_ARCH_REG_ARGUMENT 0U

static inline SP_SIGSAFE unsigned sp_arch_syscall_reg(unsigned argument)
{
	return argument;
}

static inline SP_SIGSAFE uintptr_t sp_arch_handler_frame(const uintptr_t reg[])
{
	return reg[SP_ARCH_REG_SP];
}

static inline SP_SIGSAFE uintptr_t sp_arch_handler_return(const uintptr_t reg[])
{
	(void)reg;
	return 0;
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

static inline SP_SIGSAFE long sp_arch_syscall6(long number, const long a[6])
{
	const long first = a[0], second = a[1], third = a[2], fourth = a[3], fifth = a[4],
		   sixth = a[5];
	register long nr __asm__("x8") = number;
	register long x0 __asm__("x0") = first;
	register long x1 __asm__("x1") = second;
	register long x2 __asm__("x2") = third;
	register long x3 __asm__("x3") = fourth;
	register long x4 __asm__("x4") = fifth;
	register long x5 __asm__("x5") = sixth;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(nr), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
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
 * Whether we run under valgrind, by the request of its valgrind.h: instructions that together
 * change nothing and that valgrind recognises. The answer is in x3.
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

/*
 * Returns the kernel's result, or a negative errno; the variable errno does not change.
 * sp_arch_syscall6() takes six arguments.
 */
static inline SP_SIGSAFE long sp_arch_syscall(long number, long a, long b, long c, long d)
{
	return sp_arch_syscall6(number, (const long[6]){a, b, c, d, 0, 0});
}

/* The registers of one frame. r[SP_ARCH_REG_PC] always equals pc. */
struct sp_regs {
	uintptr_t pc;
	uint64_t known; /* bit i set: r[i] is this frame's value; else the value is unknown */
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
