/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes believe that an ELF file, of whatever processor, is loaded: it is shown to the exporter as
 * the signal handler shows it objects.
 */
#ifndef SP_TEST_IMAGE_H
#define SP_TEST_IMAGE_H

#include <stdint.h>

#include "export/objects/modules.h"

/* Runtime address minus ELF address. Exits with a message when the file is no object. */
uint64_t image_load(struct sp_modules *modules, const char *path);

/* Runtime address of its code. */
uint64_t image_code(void);

#endif
