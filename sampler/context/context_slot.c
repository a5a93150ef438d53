/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the variable and finds the calling thread's one (context_slot.h). Context: APP.
 *
 * Readers know a variable that is found by a TLS descriptor (R_X86_64_TLSDESC, R_AARCH64_TLSDESC),
 * and some know no other form. GCC 12 makes one on x86-64 only with an option that applies to a
 * whole file, and clang 14 has no such option, so the few instructions of the psABI are written
 * here. In the preloaded object the descriptor is resolved when the object is loaded, and the call
 * is one of two instructions that returns an offset from the thread pointer. The linker replaces
 * it by that offset in programs that contain this file, which are unit tests.
 */
#include "sampler/context/context_slot.h"

#include "sampler/base/compiler.h"

extern __thread void *_Atomic otel_thread_ctx_v1;
SP_EXPORT __thread void *_Atomic otel_thread_ctx_v1;

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".globl sp_context_slot\n"
	".hidden sp_context_slot\n"
	".type sp_context_slot, @function\n"
	"sp_context_slot:\n"
	".cfi_startproc\n"
	"	subq $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"	leaq otel_thread_ctx_v1@tlsdesc(%rip), %rax\n"
	"	call *otel_thread_ctx_v1@tlscall(%rax)\n"
	"	addq %fs:0, %rax\n"
	"	addq $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size sp_context_slot, .-sp_context_slot\n"
	".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
	".globl sp_context_slot\n"
	".hidden sp_context_slot\n"
	".type sp_context_slot, %function\n"
	"sp_context_slot:\n"
	".cfi_startproc\n"
	"	stp x29, x30, [sp, -16]!\n"
	".cfi_adjust_cfa_offset 16\n"
	".cfi_rel_offset x29, 0\n"
	".cfi_rel_offset x30, 8\n"
	"	adrp x0, :tlsdesc:otel_thread_ctx_v1\n"
	"	ldr x1, [x0, :tlsdesc_lo12:otel_thread_ctx_v1]\n"
	"	add x0, x0, :tlsdesc_lo12:otel_thread_ctx_v1\n"
	"	.tlsdesccall otel_thread_ctx_v1\n"
	"	blr x1\n"
	"	mrs x1, tpidr_el0\n"
	"	add x0, x0, x1\n"
	"	ldp x29, x30, [sp], 16\n"
	".cfi_adjust_cfa_offset -16\n"
	".cfi_restore x29\n"
	".cfi_restore x30\n"
	"	ret\n"
	".cfi_endproc\n"
	".size sp_context_slot, .-sp_context_slot\n"
	".popsection\n");
#else
#error "TLS descriptors are written for x86-64 and aarch64"
#endif
