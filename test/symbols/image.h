/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pretends that an ELF file, of any processor, is loaded: the exporter sees it as the signal handler announces
 * objects.
 */
#ifndef SP_TEST_IMAGE_H
#define SP_TEST_IMAGE_H

#include <stdint.h>

#include "export/objects/modules.h"

/* Runtime address minus ELF address. Exits with a message if the file is no ELF object. */
uint64_t image_load(struct sp_modules *modules, const char *path);

/* Runtime address of its code. */
uint64_t image_code(void);

#endif
