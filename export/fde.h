/* SPDX-License-Identifier: Apache-2.0 */
/* Which function covers an address, by .eh_frame_hdr: works on stripped code. */
#ifndef SP_FDE_H
#define SP_FDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * hdr is a mapped .eh_frame_hdr at its final address; everything read lies in [lo, hi), the mapped
 * segment around it. Writes the runtime range [*start, *end) of the function around pc. False when
 * no entry covers pc or the tables are damaged or of a form no linker of today writes.
 */
bool sp_fde_find(const uint8_t *hdr, uintptr_t lo, uintptr_t hi, uint64_t pc, uint64_t *start,
		 uint64_t *end);

#endif
