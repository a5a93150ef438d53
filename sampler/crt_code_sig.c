/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the instructions from the one that comes next to the end of the function, as if no jump
 * were taken: what they take off the stack until then lies between sp and the return address. Knows
 * the instructions that these functions consist of and refuses everything else. Called by the walk.
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 *
 * On aarch64 these functions keep a frame record, which the walk follows.
 */
#include "sampler/crt_code_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#if defined(__x86_64__)

enum effect {
	EFFECT_NONE,
	EFFECT_PUSH_FP,
	EFFECT_POP_FP,
	EFFECT_GROW,   /* takes as many bytes of stack as the last byte says */
	EFFECT_SHRINK, /* gives them back */
	EFFECT_END,    /* the return address is what sp points at */
};

struct instruction {
	uint8_t length;
	uint8_t known; /* that many bytes of it are the same wherever it is */
	uint8_t bytes[5];
	uint8_t effect;
};

/* Checked: glibc 2.36 and gcc 12, with and without PIE. */
static const struct instruction instructions[] = {
	{9, 5, {0xf3, 0x0f, 0x1e, 0xfa, 0xe9}, EFFECT_END}, /* endbr64; jmp register_tm_clones */
	{6, 5, {0xf3, 0x0f, 0x1e, 0xfa, 0xeb}, EFFECT_END},
	{4, 4, {0xf3, 0x0f, 0x1e, 0xfa}, EFFECT_NONE}, /* endbr64 */
	{1, 1, {0xc3}, EFFECT_END},                    /* ret */
	{2, 2, {0xff, 0xe0}, EFFECT_END},              /* jmp *%rax */
	{4, 3, {0x48, 0x83, 0xec}, EFFECT_GROW},       /* sub $n, %rsp */
	{4, 3, {0x48, 0x83, 0xc4}, EFFECT_SHRINK},     /* add $n, %rsp */
	{1, 1, {0x55}, EFFECT_PUSH_FP},                /* push %rbp */
	{1, 1, {0x5d}, EFFECT_POP_FP},                 /* pop %rbp */
	{3, 3, {0x48, 0x89, 0xe5}, EFFECT_NONE},       /* mov %rsp, %rbp */
	{7, 3, {0x48, 0x8b, 0x05}, EFFECT_NONE},       /* mov symbol, %rax */
	{7, 3, {0x48, 0x8b, 0x3d}, EFFECT_NONE},       /* mov symbol, %rdi */
	{7, 3, {0x48, 0x8d, 0x05}, EFFECT_NONE},       /* lea symbol, %rax */
	{7, 3, {0x48, 0x8d, 0x35}, EFFECT_NONE},       /* lea symbol, %rsi */
	{7, 3, {0x48, 0x8d, 0x3d}, EFFECT_NONE},       /* lea symbol, %rdi */
	{5, 1, {0xb8}, EFFECT_NONE},                   /* mov $symbol, %eax */
	{5, 1, {0xbe}, EFFECT_NONE},                   /* mov $symbol, %esi */
	{5, 1, {0xbf}, EFFECT_NONE},                   /* mov $symbol, %edi */
	{3, 3, {0x48, 0x85, 0xc0}, EFFECT_NONE},       /* test %rax, %rax */
	{3, 3, {0x48, 0x39, 0xf8}, EFFECT_NONE},       /* cmp %rdi, %rax */
	{6, 2, {0x48, 0x3d}, EFFECT_NONE},             /* cmp $symbol, %rax */
	{7, 2, {0x80, 0x3d}, EFFECT_NONE},             /* cmpb $0, symbol */
	{8, 3, {0x48, 0x83, 0x3d}, EFFECT_NONE},       /* cmpq $0, symbol */
	{7, 2, {0xc6, 0x05}, EFFECT_NONE},             /* movb $1, symbol */
	{3, 3, {0x48, 0x29, 0xfe}, EFFECT_NONE},       /* sub %rdi, %rsi */
	{7, 3, {0x48, 0x81, 0xee}, EFFECT_NONE},       /* sub $symbol, %rsi */
	{3, 3, {0x48, 0x89, 0xf0}, EFFECT_NONE},       /* mov %rsi, %rax */
	{4, 3, {0x48, 0xc1, 0xee}, EFFECT_NONE},       /* shr $n, %rsi */
	{4, 3, {0x48, 0xc1, 0xf8}, EFFECT_NONE},       /* sar $n, %rax */
	{3, 3, {0x48, 0x01, 0xc6}, EFFECT_NONE},       /* add %rax, %rsi */
	{3, 3, {0x48, 0xd1, 0xfe}, EFFECT_NONE},       /* sar %rsi */
	{2, 1, {0x74}, EFFECT_NONE},                   /* je */
	{2, 1, {0x75}, EFFECT_NONE},                   /* jne */
	{2, 2, {0xff, 0xd0}, EFFECT_NONE},             /* call *%rax */
	{6, 2, {0xff, 0x15}, EFFECT_NONE},             /* call *symbol */
	{5, 1, {0xe8}, EFFECT_NONE},                   /* call */
};

static bool is(const struct instruction *candidate, const uint8_t *code, size_t bytes)
{
	if (candidate->length > bytes)
		return false;
	for (unsigned i = 0; i < candidate->known; i++) {
		if (code[i] != candidate->bytes[i])
			return false;
	}
	return true;
}

static const struct instruction *find(const uint8_t *code, size_t bytes)
{
	for (unsigned i = 0; i < sizeof(instructions) / sizeof(instructions[0]); i++) {
		if (is(&instructions[i], code, bytes))
			return &instructions[i];
	}
	return NULL;
}

/* False if there is less on the stack than is taken off. */
static bool follow(unsigned effect, unsigned bytes, unsigned *grown, struct sp_crt_frame *frame)
{
	const unsigned word = sizeof(uintptr_t);

	switch (effect) {
	case EFFECT_PUSH_FP:
		*grown += word;
		return true;
	case EFFECT_GROW:
		*grown += bytes;
		return true;
	case EFFECT_POP_FP:
		if (*grown >= word) {
			*grown -= word;
			return true;
		}
		if (*grown != 0)
			return false;
		frame->fp_saved = true;
		frame->fp_at = frame->return_at;
		frame->return_at += word;
		return true;
	case EFFECT_SHRINK:
		if (*grown >= bytes) {
			*grown -= bytes;
			return true;
		}
		frame->return_at += bytes - *grown;
		*grown = 0;
		return true;
	default:
		return true;
	}
}

SP_SIGSAFE bool sp_crt_frame(const uint8_t *code, size_t bytes, struct sp_crt_frame *frame)
{
	unsigned grown = 0;
	size_t at = 0;

	*frame = (struct sp_crt_frame){.return_at = 0};
	while (at < bytes) {
		const struct instruction *next = find(code + at, bytes - at);

		if (next == NULL)
			return false;
		if (next->effect == EFFECT_END)
			return grown == 0;
		at += next->length;
		if (!follow(next->effect, code[at - 1], &grown, frame))
			return false;
	}
	return false;
}

#else

SP_SIGSAFE bool sp_crt_frame(const uint8_t *code, size_t bytes, struct sp_crt_frame *frame)
{
	(void)code;
	(void)bytes;
	*frame = (struct sp_crt_frame){.return_at = 0};
	return false;
}

#endif
