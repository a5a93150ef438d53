/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that return a C++ object in memory, with the address of the result as their first
 * argument. On x86-64 that is what they have. On aarch64 the address comes in a register of its
 * own, x8, which C cannot name: a few register moves stand between, one way for calls, the other
 * way for functions of ours that C++ code calls. They touch no memory and need no frame.
 */
#ifndef SP_ADAPTER_OTELCPP_CALL_H
#define SP_ADAPTER_OTELCPP_CALL_H

#include "sampler/base/compiler.h"

/*
 * SP_OTELCPP_CALL(fn, result, ...) calls; SP_OTELCPP_RETURN_CALL(fn, result, result, ...) also
 * returns result, by a jump where that is possible. SP_OTELCPP_ENTRY and SP_OTELCPP_LOCAL_ENTRY
 * declare a function that C++ code calls by that symbol, and SP_OTELCPP_ENTRY_OF is where the symbol
 * leads.
 */
#if defined(__x86_64__)

#define SP_OTELCPP_CALL(fn, ...) ((void)(fn)(__VA_ARGS__))
/* It returns where the result is. */
#define SP_OTELCPP_RETURN_CALL(fn, result, ...) return (fn)(__VA_ARGS__)

#define SP_OTELCPP_ENTRY(fn, type, symbol) SP_EXPORT type(fn) __asm__(symbol)
#define SP_OTELCPP_LOCAL_ENTRY(fn, type, symbol) type(fn)
#define SP_OTELCPP_ENTRY_OF(fn) ((const void *)(fn))

#elif defined(__aarch64__)

/* Calls fn with result in x8 and the rest, at most six words, in x0 to x5. */
void sp_otelcpp_call(const void *fn, void *result, ...);

#define SP_OTELCPP_CALL(fn, ...) sp_otelcpp_call((const void *)(fn), __VA_ARGS__)
#define SP_OTELCPP_RETURN_CALL(fn, result, ...)                                                    \
	do {                                                                                       \
		SP_OTELCPP_CALL(fn, __VA_ARGS__);                                                  \
		return (result);                                                                   \
	} while (0)

// clang-format off
#define SP_OTELCPP_ENTRY_(fn, type, symbol, visibility) \
	type(fn); \
	extern const char fn##_entry[] __asm__(symbol); \
	__asm__(".text\n.balign 4\n.globl " symbol "\n" visibility ".type " symbol ", %function\n" \
		symbol ":\n.cfi_startproc\n" \
		"mov x6, x5\nmov x5, x4\nmov x4, x3\nmov x3, x2\nmov x2, x1\nmov x1, x0\n" \
		"mov x0, x8\nb " #fn "\n" \
		".cfi_endproc\n.size " symbol ", .-" symbol "\n")
// clang-format on
#define SP_OTELCPP_ENTRY(fn, type, symbol) SP_OTELCPP_ENTRY_(fn, type, symbol, "")
#define SP_OTELCPP_LOCAL_ENTRY(fn, type, symbol)                                                   \
	SP_OTELCPP_ENTRY_(fn, type, symbol, ".hidden " symbol "\n")
#define SP_OTELCPP_ENTRY_OF(fn) ((const void *)fn##_entry)

#endif

#endif
