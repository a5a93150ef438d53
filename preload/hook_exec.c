/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before the program is replaced, what was sampled is sent. APP context; the host may call these
 * from a signal handler, or in a child of vfork, which shares our memory and is left alone.
 *
 * Half of the family takes its arguments by "...", which C can only hand on by copying them: each
 * symbol is a few instructions that keep the argument registers and end in a jump to the real one,
 * for which the stack is as the caller made it.
 */
#include <errno.h>
#include <stddef.h>

#include "preload/life.h"
#include "preload/resolve.h"
#include "sampler/counters.h"
#include "sampler/host_mask.h"

static int no_exec(void)
{
	errno = ENOSYS;
	return -1;
}

/* Where the call goes on. A process without a sample has nothing to wait for. */
static const void *begin(enum sp_next which)
{
	const void *next;

	if (sp_life_active() && sp_count_read(SP_COUNT_SAMPLES_PUT) != 0)
		sp_life_flush();
	sp_host_mask_hand_on();
	next = sp_next(which);
	return next != NULL ? next : (const void *)no_exec;
}

// clang-format off
#if defined(__x86_64__)
#define PUSH_(reg) "push %" reg "\n.cfi_adjust_cfa_offset 8\n"
#define POP_(reg) "pop %" reg "\n.cfi_adjust_cfa_offset -8\n"
#define BODY_(begin) \
	PUSH_("rdi") PUSH_("rsi") PUSH_("rdx") PUSH_("rcx") PUSH_("r8") PUSH_("r9") PUSH_("rax") \
	"call " begin "\nmov %rax, %r11\n" \
	POP_("rax") POP_("r9") POP_("r8") POP_("rcx") POP_("rdx") POP_("rsi") POP_("rdi") \
	"jmp *%r11\n"
#elif defined(__aarch64__)
#define BODY_(begin) \
	"stp x29, x30, [sp, #-80]!\n.cfi_def_cfa_offset 80\n" \
	".cfi_offset 29, -80\n.cfi_offset 30, -72\n" \
	"stp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\n" \
	"stp x4, x5, [sp, #48]\nstp x6, x7, [sp, #64]\n" \
	"bl " begin "\nmov x16, x0\n" \
	"ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\n" \
	"ldp x4, x5, [sp, #48]\nldp x6, x7, [sp, #64]\n" \
	"ldp x29, x30, [sp], #80\n.cfi_def_cfa_offset 0\n.cfi_restore 29\n.cfi_restore 30\n" \
	"br x16\n"
#endif

#define SP_EXEC(sym) \
	const void *sp_exec_begin_##sym(void); \
	const void *sp_exec_begin_##sym(void) \
	{ \
		return begin(SP_NEXT_##sym); \
	} \
	__asm__(".text\n.balign 16\n.globl " #sym "\n.type " #sym ", %function\n" #sym ":\n" \
		".cfi_startproc\n" BODY_("sp_exec_begin_" #sym) \
		".cfi_endproc\n.size " #sym ", .-" #sym "\n");
// clang-format on

SP_EXEC(execve)
SP_EXEC(execv)
SP_EXEC(execvp)
SP_EXEC(execvpe)
SP_EXEC(execl)
SP_EXEC(execle)
SP_EXEC(execlp)
SP_EXEC(fexecve)
SP_EXEC(execveat)
