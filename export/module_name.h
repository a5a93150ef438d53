/* SPDX-License-Identifier: Apache-2.0 */
/* What a module is called. Context: BG. Caller: modules.c. */
#ifndef SP_MODULE_NAME_H
#define SP_MODULE_NAME_H

#include "export/modules.h"

#define SP_MODULE_PATH_BYTES 1024U

/*
 * Fills in the path to open, the path to show and the name of a module that is otherwise complete, from
 * the path that the loader has for it. They lie in text.
 */
void sp_module_name(struct sp_module *mod, const char *path, char text[2 * SP_MODULE_PATH_BYTES]);

#endif
