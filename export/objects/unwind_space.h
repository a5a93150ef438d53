/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libunwind sees of a host: the registers and the copied stack of one snapshot, and the host's objects.
 * Its remote interface asks for everything through functions of ours, so it reads no memory by itself. The
 * address space is ours, so nothing is cached about objects that may be gone. Context: the exporter.
 */
#ifndef SP_UNWIND_SPACE_H
#define SP_UNWIND_SPACE_H

#include <libunwind.h>
#include <stdbool.h>
#include <stdint.h>

#include "export/objects/mapped.h"
#include "export/objects/unwind_snapshot.h"
#include "sampler/base/arch_sig.h"

/* Zero at first, but for the host's objects. */
struct sp_unwind_space {
	unw_addr_space_t space; /* both NULL before it is opened */
	struct sp_mapped *mapped;
	const struct sp_host_objects *host;
	struct sp_unwinder_stack stack;
	uint64_t reg[SP_ARCH_REGS]; /* of the snapshot, and what was found out */
	uint64_t function;          /* where that of the last pc asked for begins */
	bool describing;            /* call frame information is being read */
	bool described;             /* call frame information was found for the last pc asked for */
	bool denied;                /* this step needed memory that is not there */
	bool cut;                   /* the walk went on where the copy of the stack ends */
};

/*
 * Ready for unw_init_remote(), with the space itself as argument. libunwind opens a pipe for it and keeps that, so
 * this is for when it is needed, and costs nothing the second time. False when out of memory.
 */
bool sp_unwind_space_open(struct sp_unwind_space *s);
void sp_unwind_space_close(struct sp_unwind_space *s);

/* One word, as libunwind reads it. False if there is none. */
bool sp_unwind_space_read(struct sp_unwind_space *s, uint64_t at, unw_word_t *word);

#endif
