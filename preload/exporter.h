/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter, libspanprof-export.so in the folder that our own object was loaded from. BG context. */
#ifndef SP_EXPORTER_H
#define SP_EXPORTER_H

#include <stdbool.h>

#include "export/export.h"

#define SP_EXPORTER_PATH_MAX 4096

/*
 * Its absolute path. The loader may only know a relative name of our object, and the host may have
 * changed its directory since: then the kernel's view of the mapping decides. False when neither helps.
 */
bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX]);

typedef __typeof__(&sp_export_run) sp_exporter_entry;

/* Loads it, for good. NULL if it cannot be had; that has been told. */
sp_exporter_entry sp_exporter_load(void);

#endif
