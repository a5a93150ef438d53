/* SPDX-License-Identifier: Apache-2.0 */
/* Where the exporter lies: beside our own object. BG context. */
#ifndef SP_EXPORTER_PATH_H
#define SP_EXPORTER_PATH_H

#include <stdbool.h>

#define SP_EXPORTER_PATH_MAX 4096

/*
 * Writes the absolute path of libspanprof-export.so in the folder our own object was loaded from.
 * The loader may only know a relative name, and the host may have changed its directory since:
 * then the kernel's view of the mapping decides. False when neither helps.
 */
bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX]);

#endif
