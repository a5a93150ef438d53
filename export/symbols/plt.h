/* SPDX-License-Identifier: Apache-2.0 */
/* Names of PLT stubs: no symbol table holds them. x86-64 and aarch64. */
#ifndef SP_PLT_H
#define SP_PLT_H

#include <libelf.h>
#include <stdint.h>

/* Takes one stub, "memcpy@plt"; a value other than 0 stops and is handed on. */
typedef int (*sp_plt_put)(void *arg, uint64_t start, uint64_t size, const char *name);

/* Hands over every stub of .plt, .plt.sec and .plt.got whose target is known. */
int sp_plt_read(Elf *elf, sp_plt_put put, void *arg);

#endif
