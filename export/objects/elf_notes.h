/* SPDX-License-Identifier: Apache-2.0 */
/* The GNU build id inside a note segment or section. */
#ifndef SP_ELF_NOTES_H
#define SP_ELF_NOTES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Searches len bytes of notes for NT_GNU_BUILD_ID and copies at most cap bytes of it to id.
 * Returns its length, 0 when there is none or the notes are damaged before it.
 */
size_t sp_elf_build_id(const void *notes, size_t len, uint8_t *id, size_t cap);

#endif
