/* SPDX-License-Identifier: Apache-2.0 */
/* Maps an ELF file as the loader would, without running any of it, and shows it as the only object
 * of the process. */
#ifndef SP_TEST_IMAGE_H
#define SP_TEST_IMAGE_H

#include <stdint.h>

#include "export/modules.h"

/* Runtime address minus ELF address. Exits with a message when the file is no object. */
uint64_t image_map(const char *path);

/* Runtime address of its code. */
uint64_t image_code(void);

/* For sp_modules_new(). */
int image_iterate(sp_phdr_callback fn, void *arg);

#endif
