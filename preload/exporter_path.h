/* SPDX-License-Identifier: Apache-2.0 */
/* The program spanprof-exporter, in the folder that our own object was loaded from. APP context. */
#ifndef SP_EXPORTER_PATH_H
#define SP_EXPORTER_PATH_H

#include <stdbool.h>

#define SP_EXPORTER_PATH_MAX 4096

/*
 * Its absolute path. The loader may only know a relative name of our object, and the host may have
 * changed its directory since: then the kernel's view of the mapping decides, which takes a descriptor
 * for a moment. False when neither helps. errno preserved.
 */
bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX]);

#endif
