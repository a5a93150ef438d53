/* SPDX-License-Identifier: Apache-2.0 */
/* Jumping to a function of up to three arguments that looks at its return address. APP context. */
#include "preload/loading_entry.h"

// clang-format off
#if defined(__x86_64__)

/* three words keep the stack aligned for the call */
#define BODY(target) \
	"push %rdi\n.cfi_adjust_cfa_offset 8\n" \
	"push %rsi\n.cfi_adjust_cfa_offset 8\n" \
	"push %rdx\n.cfi_adjust_cfa_offset 8\n" \
	"call " target "\n" \
	"pop %rdx\n.cfi_adjust_cfa_offset -8\n" \
	"pop %rsi\n.cfi_adjust_cfa_offset -8\n" \
	"pop %rdi\n.cfi_adjust_cfa_offset -8\n" \
	"jmp *%rax\n"

#elif defined(__aarch64__)

#define BODY(target) \
	"stp x29, x30, [sp, #-48]!\n" \
	".cfi_def_cfa_offset 48\n.cfi_offset x29, -48\n.cfi_offset x30, -40\n" \
	"mov x29, sp\n" \
	"stp x0, x1, [sp, #16]\nstr x2, [sp, #32]\n" \
	"bl " target "\n" \
	"mov x16, x0\n" \
	"ldp x0, x1, [sp, #16]\nldr x2, [sp, #32]\n" \
	"ldp x29, x30, [sp], #48\n" \
	".cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n" \
	"br x16\n"

#endif

#define ENTRY(name, target) \
	__asm__(".text\n.balign 16\n.globl " name "\n.hidden " name "\n" \
		".type " name ", %function\n" name ":\n.cfi_startproc\n" \
		BODY(target) \
		".cfi_endproc\n.size " name ", .-" name "\n")
// clang-format on

ENTRY("sp_loading_dlopen_entry", "sp_loading_dlopen_target");
ENTRY("sp_loading_dlsym_entry", "sp_loading_dlsym_target");
ENTRY("sp_loading_dlvsym_entry", "sp_loading_dlvsym_target");
