/* SPDX-License-Identifier: Apache-2.0 */
/* The program spanprof-exporter, in the folder that our own object was loaded from. APP context. */
#ifndef SP_EXPORTER_PATH_H
#define SP_EXPORTER_PATH_H

#include <stdbool.h>

#define SP_EXPORTER_PATH_MAX 4096

/*
 * Its absolute path. The loader may know our object by a relative name, and the host may have
 * changed its working directory since. In that case the path comes from /proc/self/maps, which
 * takes a descriptor for a moment. False if neither helps. errno preserved.
 */
bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX]);

#endif
