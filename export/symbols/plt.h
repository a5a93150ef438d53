/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the function that a stub of the procedure linkage table calls. */
#ifndef SP_PLT_H
#define SP_PLT_H

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>

struct sp_plt_stub {
	uint64_t start;   /* address of its first instruction in the file */
	const char *name; /* of the function that it calls, in the file; NULL = unknown */
	/* if the function has no name: the resolver that chooses it at start (IRELATIVE); 0 = none */
	uint64_t resolver;
};

/* False if no stub is at that address. */
bool sp_plt_find(Elf *elf, uint64_t vaddr, struct sp_plt_stub *out);

#endif
