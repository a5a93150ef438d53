/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compact rule: the common form of an unwinding rule in three words without pointers, so that it
 * fits into the rule cache and can be applied from registers. It covers rows where the CFA is a
 * register plus a constant, registers are saved below it at whole words, and the return address is
 * among them or still in its own register.
 *
 * The saved registers lie close together at one end of the frame. So a place is a number of words,
 * counted upwards from the lowest saved register, which is called the bottom.
 *
 * Context: SIG.
 */
#ifndef SP_COMPACT_RULE_SIG_H
#define SP_COMPACT_RULE_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/unwind/cfi_sig.h"
#include "sampler/unwind/stack_bounds_sig.h"

#define SP_COMPACT_RULE_WORDS 3U

/*
 * word[0], from bit 0: the bottom, counted in bytes from the base register (32 bits, signed); words
 * from the bottom to the CFA (16); where the return address is (8); the base register (6); two flags.
 * word[1]: where the first eight saved registers are, + 1, one a byte; 0 = there are no more.
 * word[2]: a bit for each saved register but the return address (40 bits); the next places.
 */
struct sp_compact_rule {
	uint64_t word[SP_COMPACT_RULE_WORDS];
};

#define SP_COMPACT_RULE_PLACES 11U
#define SP_COMPACT_RULE_PLACE_MAX 254U
#define SP_COMPACT_RULE_SAVED ((UINT64_C(1) << 40) - 1)
#define SP_COMPACT_RULE_MORE_SHIFT 40
/* The frame has no caller. */
#define SP_COMPACT_RULE_OUTERMOST (UINT64_C(1) << 62)
/* The return address is still in its register. */
#define SP_COMPACT_RULE_LINKED (UINT64_C(1) << 63)

_Static_assert(SP_ARCH_REGS <= 40, "a bit for each register");

static inline SP_SIGSAFE uintptr_t sp_compact_rule_bottom(uint64_t first, uintptr_t base)
{
	return base + (uintptr_t)(intptr_t)(int32_t)first;
}

static inline SP_SIGSAFE uintptr_t sp_compact_rule_bytes(uint64_t first)
{
	return (first >> 32 & 0xffff) * sizeof(uintptr_t);
}

static inline SP_SIGSAFE uintptr_t sp_compact_rule_return(uint64_t first, uintptr_t bottom)
{
	return bottom + (first >> 48 & 0xff) * sizeof(uintptr_t);
}

static inline SP_SIGSAFE unsigned sp_compact_rule_base(uint64_t first)
{
	return first >> 56 & 0x3f;
}

/* The address of the first of these places. */
static inline SP_SIGSAFE uintptr_t sp_compact_rule_place(uint64_t places, uintptr_t bottom)
{
	return bottom + ((places & 0xff) - 1) * sizeof(uintptr_t);
}

/* False if the row has no compact form. */
SP_SIGSAFE bool sp_compact_rule_make(const struct sp_cfi_row *row, struct sp_compact_rule *out);

/* As sp_cfi_apply, but *regs is undefined unless 1 is returned. */
SP_SIGSAFE int sp_compact_rule_apply(const struct sp_compact_rule *rule, struct sp_regs *regs,
				     struct sp_stack_view *stack);

#endif
