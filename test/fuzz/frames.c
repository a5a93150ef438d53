/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes call frame information in memory: its reader stays inside the object. */
#include <stdint.h>

#include "sampler/unwind/cfi_sig.h"
#include "test/fuzz/fuzz.h"

#define ENTRIES_MAX 64U

static void try_pc(const struct sp_object *object, uintptr_t pc)
{
	struct sp_cfi_row row;
	struct sp_fde fde;

	if (sp_ehframe_find(object, pc, &fde) == 0) {
		FUZZ_CHECK(fde.pc_begin <= pc && pc < fde.pc_end);
		(void)sp_cfi_decode(object, &fde, pc, &row);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *image = malloc(size != 0 ? size : 1);
	struct sp_object object = {.start = (uintptr_t)image,
				   .end = (uintptr_t)image + size,
				   .eh_frame_hdr = (uintptr_t)image};

	FUZZ_CHECK(image != NULL);
	memcpy(image, data, size);
	/* Behind the header is a table of pairs; linkers write them relative to the header. */
	for (size_t i = 0; i < ENTRIES_MAX && 12 + 8 * i + 4 <= size; i++) {
		int32_t offset;

		memcpy(&offset, image + 12 + 8 * i, sizeof(offset));
		try_pc(&object, object.start + (uintptr_t)(intptr_t)offset);
		try_pc(&object, object.start + (uintptr_t)(intptr_t)offset + 5);
	}
	try_pc(&object, 0);
	try_pc(&object, UINTPTR_MAX);
	free(image);
	return 0;
}
