/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a return address is behind a call. The expected answers come from the assembler: it writes each form of a
 * call, and other kinds of instructions, and marks where the next instruction begins.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#include "sampler/base/arch_sig.h"
#include "sampler/unwind/stack_bounds_sig.h"

/* The padding before an instruction contains no call, and does not look like the end of a call. */
#define PLACE(list, text)                                                                          \
	".balign 32\n\t" PADDING "\n\t" text "\n\t9:\n\t.pushsection .data.rel.ro." #list          \
	", \"aw\"\n\t.quad 9b\n\t.popsection\n\t"
#define CALL(text) PLACE(calls, text)
#define OTHER(text) PLACE(others, text)
#define BEGIN(list)                                                                                \
	".pushsection .data.rel.ro." #list ", \"aw\"\n\t.balign 8\n\t.globl " #list "\n\t" #list   \
	":\n\t.popsection\n\t"
#define END(list) ".pushsection .data.rel.ro." #list ", \"aw\"\n\t.quad 0\n\t.popsection\n\t"

extern const uintptr_t calls[];
extern const uintptr_t others[];

#if defined(__x86_64__)
#define PADDING ".fill 16, 1, 0x90"
__asm__(".pushsection .text\n\t" BEGIN(calls) BEGIN(others)
	/* near, direct */
	CALL("call 1f\n\t1:") CALL(".byte 0xe8, 0, 0, 0, 0x80") CALL("bnd call 1f\n\t1:")
	/* of a register */
	CALL("call *%rax") CALL("call *%rbp") CALL("call *%rsp") CALL("call *%r8")
		CALL("call *%r15") CALL("bnd call *%r11") CALL("notrack call *%rdx")
	/* of memory: without displacement, with one of a byte, with one of four */
	CALL("call *(%rax)") CALL("call *(%rdi)") CALL("call *(%r9)") CALL("call *(%rsp)")
		CALL("call *(%r12)") CALL("call *(%rax,%rbx,8)") CALL("call *(%r13,%r14,4)")
			CALL("call *8(%rax)") CALL("call *8(%rbp)") CALL("call *-8(%r13)")
				CALL("call *8(%rsp)") CALL("call *8(%r12,%rax,2)") CALL(
					"call *0x1234(%rax)") CALL("call *0x12345678(%r10)")
					CALL("call *0x1234(%rsp)") CALL("call *0x1234(%r12,%r9,8)")
						CALL("call *0x1234(%rip)") CALL("call *0x1234")
							CALL("call *0x1234(,%rax,8)")
	/* others: jumps and pushes with the same operands, calls of other segments, returns */
	OTHER("nop") OTHER("ret") OTHER("jmp *%rax") OTHER("jmp *(%rax)") OTHER("jmp *8(%rsp)")
		OTHER("jmp *0x1234(%rip)") OTHER("push (%rax)") OTHER("push 8(%rbp)")
			OTHER("push 0x1234(%rsp)") OTHER("incl (%rax)") OTHER("decl 8(%rax)")
				OTHER("lcall *(%rax)") OTHER("lcall *8(%rsp)")
					OTHER("lcall *0x1234(%rip)")
						OTHER("jmp 1f\n\t.fill 300\n\t1:\n\tnop")
							OTHER("mov %rax, %rbx") OTHER("syscall")
								OTHER("int3") OTHER("ud2")
	/* bytes of a call with another length, so no call ends here */
	OTHER(".byte 0xff, 0x10, 0x90") OTHER(".byte 0xff, 0xd0, 0x90") OTHER(".byte 0xff, 0x14")
		OTHER(".byte 0xff, 0x14, 0x05") OTHER(".byte 0xff, 0x15")
			OTHER(".byte 0xff, 0x15, 1, 2, 3") OTHER(".byte 0xff, 0x50")
				OTHER(".byte 0xff, 0x54, 0x24") OTHER(".byte 0xff, 0x90, 1, 2, 3")
					OTHER(".byte 0xff, 0x94, 0x24, 1, 2, 3")
						OTHER(".byte 0xe8, 1, 2, 3")
							OTHER(".byte 0xe8, 1, 2, 3, 4, 5")
								END(calls)
									END(others) ".popsection");
#elif defined(__aarch64__)
#define PADDING "nop"
__asm__(".pushsection .text\n\t" BEGIN(calls) BEGIN(others) CALL("bl 1f\n\t1:") CALL("bl calls")
		CALL("blr x0") CALL("blr x30")
	/* blraa x1, x2; blrab x1, sp; blraaz x3; blrabz x30 */
	CALL(".inst 0xd73f0822") CALL(".inst 0xd73f0c3f") CALL(".inst 0xd63f087f")
		CALL(".inst 0xd63f0fdf")
	/* others: br, braa, braaz, ret, retaa too */
	OTHER("nop") OTHER("b 1f\n\t1:") OTHER("br x0") OTHER("ret") OTHER(".inst 0xd71f0822")
		OTHER(".inst 0xd61f087f") OTHER(".inst 0xd65f0bff") OTHER("cbz x0, 1f\n\t1:")
			OTHER("svc #0") OTHER("mov x0, x1") END(calls) END(others) ".popsection");
#endif

static bool is_behind_call(uintptr_t at, unsigned before)
{
	return sp_arch_is_behind_call((const uint8_t *)at, before);
}

Test(behind_call, is_every_form_of_a_call, .timeout = 20)
{
	unsigned n = 0;

	for (; calls[n] != 0; n++)
		cr_expect(is_behind_call(calls[n], SP_ARCH_CALL_BYTES), "call %u at %#lx", n,
			  calls[n]);
	cr_assert_gt(n, 7);
}

Test(behind_call, is_nothing_else, .timeout = 20)
{
	unsigned n = 0;

	for (; others[n] != 0; n++)
		cr_expect_not(is_behind_call(others[n], SP_ARCH_CALL_BYTES), "place %u at %#lx", n,
			      others[n]);
	cr_assert_gt(n, 9);
}

/* Bytes that cannot be read do not count as a part of a call. */
Test(behind_call, needs_the_whole_call, .timeout = 20)
{
	for (unsigned n = 0; calls[n] != 0; n++) {
		unsigned bytes = 0;

		while (bytes < SP_ARCH_CALL_BYTES && !is_behind_call(calls[n], bytes))
			bytes++;
		cr_expect_gt(bytes, 1);
		cr_expect(is_behind_call(calls[n], bytes), "call %u, %u bytes", n, bytes);
	}
}

#define PAGE SP_STACK_PAGE

static uint8_t *map_pages(unsigned n)
{
	uint8_t *at = mmap(NULL, (size_t)n * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(at, MAP_FAILED);
	return at;
}

/* Writes the last bytes of a direct call before that address. */
static void put_call(uint8_t *at)
{
	unsigned bytes = SP_ARCH_CALL_BYTES < 5 ? SP_ARCH_CALL_BYTES : 5;

	memcpy(at - bytes, (const uint8_t *)calls[0] - bytes, bytes);
}

static bool view_is_behind_call(struct sp_stack_view *view, const void *at)
{
	return sp_stack_is_behind_call(view, (uintptr_t)at);
}

Test(behind_call, is_asked_for_in_readable_code_alone, .timeout = 20)
{
	uint8_t *code = map_pages(3);
	struct sp_stack_view view;

	put_call(code + PAGE + 5);
	put_call(code + 2 * (size_t)PAGE);
	cr_assert_eq(mprotect(code, PAGE, PROT_NONE), 0);
	cr_assert_eq(mprotect(code + 2 * (size_t)PAGE, PAGE, PROT_NONE), 0);
	sp_stack_begin(&view);
	cr_expect(view_is_behind_call(&view, code + PAGE + 5), "the first of its page");
	cr_expect(view_is_behind_call(&view, code + 2 * (size_t)PAGE), "the last of its page");
	cr_expect_not(view_is_behind_call(&view, code + PAGE), "behind an unreadable page");
	cr_expect_not(view_is_behind_call(&view, code + PAGE + 1), "in part unreadable");
	cr_expect_not(view_is_behind_call(&view, code + 2 * (size_t)PAGE + 1), "unreadable");
	for (uintptr_t low = 0; low < 16; low++)
		cr_expect_not(sp_stack_is_behind_call(&view, low));
	cr_expect_not(sp_stack_is_behind_call(&view, UINTPTR_MAX));
}

Test(behind_call, is_asked_for_across_pages, .timeout = 20)
{
	uint8_t *code = map_pages(2);

	for (unsigned shift = 0; shift <= 5; shift++) {
		struct sp_stack_view view;

		memset(code, 0, (size_t)2 * PAGE);
		put_call(code + PAGE + shift);
		sp_stack_begin(&view);
		cr_expect(view_is_behind_call(&view, code + PAGE + shift), "%u", shift);
	}
}

Test(behind_call, is_asked_for_within_a_budget, .timeout = 20)
{
	unsigned n = SP_STACK_CODE_PROBES + 10;
	uint8_t *code = map_pages(n);
	struct sp_stack_view view;
	unsigned found = 0;

	sp_stack_begin(&view);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *at = code + (size_t)i * PAGE + 64;

		put_call(at);
		/* A second question about a page costs nothing. */
		found += view_is_behind_call(&view, at) && view_is_behind_call(&view, at);
	}
	cr_expect_eq(found, SP_STACK_CODE_PROBES, "%u", found);
	cr_expect_eq(view.probes_left, SP_STACK_PROBES, "of the stack");
}
