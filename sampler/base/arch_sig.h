/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the unwinder needs to know of the processor, and the register file of one frame, indexed
 * by DWARF register number. Context: SIG.
 *
 * Each architecture header gives: SP_ARCH_REGS, SP_ARCH_REG_{SP,FP,PC}, SP_ARCH_RED_ZONE,
 * SP_ARCH_ADDRESS_END, and the functions sp_arch_context_reg(), sp_arch_saved_reg(),
 * sp_arch_is_sigreturn(), sp_arch_strip(), sp_arch_thread_pointer(), sp_arch_syscall(),
 * sp_arch_call_on(), sp_arch_on_valgrind().
 */
#ifndef SP_ARCH_SIG_H
#define SP_ARCH_SIG_H

#include <stdbool.h>
#include <stdint.h>

/* VG_USERREQ__RUNNING_ON_VALGRIND */
#define SP_ARCH_ON_VALGRIND 0x1001U

#if defined(__x86_64__)
#include "sampler/base/arch_x86_64_sig.h"
#elif defined(__aarch64__)
#include "sampler/base/arch_aarch64_sig.h"
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
