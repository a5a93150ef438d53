/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object that the kernel maps into every process. It is of no file, but the kernel gives all of
 * its 64-bit processes the same one, so what a host has is what we have. Context: EXP.
 */
#ifndef SP_VDSO_H
#define SP_VDSO_H

#include <stddef.h>
#include <stdint.h>

/* A whole ELF file, mapped as long as we live; its size goes to *size. NULL when there is none. */
const uint8_t *sp_vdso_image(size_t *size);

#endif
