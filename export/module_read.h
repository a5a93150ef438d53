/* SPDX-License-Identifier: Apache-2.0 */
/* Where a module is and which build it is. Context: BG. Callers: modules.c, module_code.c. */
#ifndef SP_MODULE_READ_H
#define SP_MODULE_READ_H

#include <link.h>
#include <stdbool.h>

#include "export/modules.h"

/* All but names, serial and epochs, of one object of the loader's list, under its lock. */
void sp_module_read(struct sp_module *mod, const struct dl_phdr_info *info);

/* The same as the handler found it. */
void sp_module_read_sighting(struct sp_module *mod, const struct sp_sighting *s);

/* The same build at the same place. */
bool sp_module_same(const struct sp_module *a, const struct sp_module *b);

#endif
