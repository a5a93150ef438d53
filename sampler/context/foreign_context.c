/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the variable otel_thread_ctx_v1 and finds the calling thread's one; and sets up what handlers read of
 * other publishers. Context: APP.
 *
 * Readers know a variable that is found by a TLS descriptor (R_X86_64_TLSDESC, R_AARCH64_TLSDESC),
 * and some know no other form. GCC 12 makes one on x86-64 only with an option that applies to a
 * whole file, and clang 14 has no such option, so the few instructions of the psABI are written
 * here. In the preloaded object the descriptor is resolved when the object is loaded, and the call
 * is one of two instructions that returns an offset from the thread pointer. The linker replaces
 * it by that offset in programs that contain this file, which are unit tests.
 */
#include "sampler/context/foreign_context.h"

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/context/process_context.h"

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

/* Each reads the memory map of the process. */
#define LOOKS_MAX 4U

void sp_foreign_context_start(const struct sp_foreign_context_setup *setup)
{
	struct sp_foreign_context_setup *now = &sp_foreign_context_setup;
	unsigned n = 0;

	*now = *setup;
	/* It lies in storage that has the same distance from the thread pointer in every thread. */
	now->variable[n++] = (intptr_t)((uintptr_t)sp_context_slot() - sp_arch_thread_pointer());
	for (unsigned i = 0; i < setup->variables && n < SP_FOREIGN_VARIABLES; i++)
		if (setup->variable[i] != now->variable[0])
			now->variable[n++] = setup->variable[i];
	now->variables = n;
	/* pairs with sp_foreign_context_read() */
	atomic_store_explicit(&sp_foreign_context_on, true, memory_order_release);
}

void sp_foreign_context_set_root_key(int key)
{
	atomic_store_explicit(&sp_foreign_context_root_key, key, memory_order_relaxed);
}

void sp_foreign_context_look(void)
{
	static unsigned looks;

	if (looks == LOOKS_MAX ||
	    !atomic_load_explicit(&sp_foreign_context_seen, memory_order_relaxed) ||
	    atomic_load_explicit(&sp_foreign_context_root_key, memory_order_relaxed) >= 0)
		return;
	looks++;
	sp_foreign_context_set_root_key(sp_process_context_root_key());
}
