/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object that the kernel maps into every process. It has no file, but all 64-bit processes get
 * the same one, so a host's is the same as ours. Context: the exporter.
 */
#ifndef SP_VDSO_H
#define SP_VDSO_H

#include <stddef.h>
#include <stdint.h>

/* A whole ELF file, mapped as long as we live; its size goes to *size. NULL when there is none. */
const uint8_t *sp_vdso_image(size_t *size);

#endif
