/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-written DWARF for the unit tests of the unwinder. */
#ifndef TEST_DWARF_BYTES_H
#define TEST_DWARF_BYTES_H

#include <stdint.h>

#include "sampler/unwind/ehframe_sig.h"
#include "sampler/unwind/stack_bounds_sig.h"

/* An array and its size, as two arguments. */
#define BYTES(...) ((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})

/* Not inlined, because gcc 12 would report reads past the end in the branches that refuse them. */
__attribute__((noinline, unused)) static struct sp_cursor over(const void *bytes, size_t n)
{
	return sp_cursor_over((uintptr_t)bytes, (uintptr_t)bytes + n);
}

__attribute__((unused)) static uintptr_t memory[4] = {0x1111, 0xfedcba9876543210, 0x3333, 0x4444};

/* Lets expressions read `memory` and nothing else. */
__attribute__((unused)) static struct sp_stack_view memory_view(void)
{
	return (struct sp_stack_view){
		.floor = (uintptr_t)memory,
		.lo = (uintptr_t)memory,
		.ceiling = (uintptr_t)(memory + 4),
	};
}

#endif
