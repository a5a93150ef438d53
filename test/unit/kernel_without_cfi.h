/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel in assembly without call frame information. It uses the frame pointer for its own data, two words. In a
 * function that keeps frame pointers, the second word would be the return address. After its call it does more than
 * return, so the return address cannot be read from its code. x86-64.
 */
#ifndef SP_TEST_KERNEL_WITHOUT_CFI_H
#define SP_TEST_KERNEL_WITHOUT_CFI_H

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".type call_without_cfi, @function\n"
	"call_without_cfi:\n"
	"pushq %rbp\n"
	"pushq %rsi\n"
	"pushq $0\n"
	"movq %rsp, %rbp\n"
	"call *%rdi\n"
	"testq %rax, %rax\n"
	"addq $16, %rsp\n"
	"popq %rbp\n"
	"ret\n"
	".fill 16, 1, 0x90\n"
	".type after_no_call, @function\n"
	"after_no_call: nop\n"
	"call after_call\n"
	".type after_call, @function\n"
	"after_call: nop\n"
	".popsection\n");
void call_without_cfi(void (*callback)(void), const void *word);
void after_no_call(void);
void after_call(void);
#endif

#endif
