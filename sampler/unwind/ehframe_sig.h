/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and parses the call frame information of one pc: the sorted table of .eh_frame_hdr, the FDE
 * that it names and the CIE of that FDE, in place and within the object's mapping. Context: SIG,
 * and the exporter on copies of files.
 */
#ifndef SP_EHFRAME_SIG_H
#define SP_EHFRAME_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/unwind/cursor_sig.h"

/* The unwind data of a loaded object. */
struct sp_object {
	uintptr_t start; /* [start, end): the mapping that holds it; nothing outside is ever read */
	uintptr_t end;
	uintptr_t eh_frame_hdr;
};

/* One function's call frame information. */
struct sp_fde {
	uintptr_t pc_begin;
	uintptr_t pc_end;
	struct sp_cursor initial; /* the CIE's instructions */
	struct sp_cursor program; /* the FDE's own */
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_reg;
	uint8_t pointer_encoding;
	bool signal_frame;     /* augmentation 'S': pc was interrupted, not called from */
	bool has_augmentation; /* augmentation 'z': CIE and FDE carry sized augmentation data */
};

/* 0; -ENOENT if no FDE covers pc; -EINVAL if the data is malformed or of a form we do not read. */
SP_SIGSAFE int sp_ehframe_find(const struct sp_object *object, uintptr_t pc, struct sp_fde *fde);

/*
 * Reads a pointer in one of the DW_EH_PE_ encodings. On failure the cursor is failed and the
 * result 0. Exposed for DW_CFA_set_loc and for tests.
 */
SP_SIGSAFE uintptr_t sp_ehframe_pointer(const struct sp_object *object, struct sp_cursor *c,
					uint8_t encoding);

#endif
