/* SPDX-License-Identifier: Apache-2.0 */
/* Which function covers an address, by .eh_frame_hdr: works on stripped code. */
#ifndef SP_FDE_H
#define SP_FDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * hdr is an .eh_frame_hdr in our memory; everything read lies in [lo, hi), the segment around it.
 * Writes the range [*start, *end) of the function around pc, as if the segment were mapped there.
 * False when no entry covers pc or the tables are damaged or of a form no linker of today writes.
 */
bool sp_fde_find(const uint8_t *hdr, uintptr_t lo, uintptr_t hi, uint64_t pc, uint64_t *start,
		 uint64_t *end);

#endif
