/* SPDX-License-Identifier: Apache-2.0 */
/* The SDKs that the adapters of preload/ know, recognised in files by the same fingerprints. */
#ifndef SP_SDK_H
#define SP_SDK_H

#include <stdbool.h>
#include <stddef.h>

#include "scripts/run/elf_file.h"

enum sp_sdk_state {
	SP_SDK_HOOKED, /* how says by which method */
	SP_SDK_KNOWN,  /* it is there, and how says what stands in the way */
};

struct sp_sdk_found {
	const char *name;
	enum sp_sdk_state state;
	const char *how;
};

/* At most max findings about one object; is_program: the first of the tree. */
size_t sp_sdk_look(const struct sp_elf *f, bool is_program, struct sp_sdk_found *found, size_t max);

#endif
