/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines a function that asks another one for an address and jumps there, with stack and arguments
 * as the caller made them. For calls that C cannot hand on: functions with "...", and functions
 * that look at their return address. Integer arguments in registers are kept (System V AMD64: six,
 * and al for "..."; AAPCS64: eight), vector arguments are not.
 */
#ifndef SP_TAIL_CALL_H
#define SP_TAIL_CALL_H

// clang-format off
#if defined(__x86_64__)

/* seven words and the return address: the stack is aligned for the call */
#define SP_TAIL_PUSH_(reg) "push %" reg "\n.cfi_adjust_cfa_offset 8\n"
#define SP_TAIL_POP_(reg) "pop %" reg "\n.cfi_adjust_cfa_offset -8\n"
#define SP_TAIL_BODY_(target) \
	SP_TAIL_PUSH_("rdi") SP_TAIL_PUSH_("rsi") SP_TAIL_PUSH_("rdx") SP_TAIL_PUSH_("rcx") \
	SP_TAIL_PUSH_("r8") SP_TAIL_PUSH_("r9") SP_TAIL_PUSH_("rax") \
	"call " target "\nmov %rax, %r11\n" \
	SP_TAIL_POP_("rax") SP_TAIL_POP_("r9") SP_TAIL_POP_("r8") SP_TAIL_POP_("rcx") \
	SP_TAIL_POP_("rdx") SP_TAIL_POP_("rsi") SP_TAIL_POP_("rdi") \
	"jmp *%r11\n"

#elif defined(__aarch64__)

#define SP_TAIL_BODY_(target) \
	"stp x29, x30, [sp, #-80]!\n" \
	".cfi_def_cfa_offset 80\n.cfi_offset x29, -80\n.cfi_offset x30, -72\n" \
	"mov x29, sp\n" \
	"stp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\n" \
	"stp x4, x5, [sp, #48]\nstp x6, x7, [sp, #64]\n" \
	"bl " target "\nmov x16, x0\n" \
	"ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\n" \
	"ldp x4, x5, [sp, #48]\nldp x6, x7, [sp, #64]\n" \
	"ldp x29, x30, [sp], #80\n" \
	".cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n" \
	"br x16\n"

#endif

/*
 * Defines the function `name`. All three are strings: target is a function with the same arguments,
 * or the first few of them, that returns the address to jump to; scope is "" or a directive such as
 * ".hidden".
 */
#define SP_TAIL_CALL(name, target, scope) \
	__asm__(".text\n.balign 16\n.globl " name "\n" scope "\n" \
		".type " name ", %function\n" name ":\n.cfi_startproc\n" \
		SP_TAIL_BODY_(target) \
		".cfi_endproc\n.size " name ", .-" name "\n")
// clang-format on

#endif
