/* SPDX-License-Identifier: Apache-2.0 */
/* Where a module is and which build it is. Context: the exporter. */
#ifndef SP_MODULE_READ_H
#define SP_MODULE_READ_H

#include <stdbool.h>

#include "export/objects/modules.h"

/* All but names, serial and epochs, of an object whose file is known. */
void sp_module_read(struct sp_module *mod, const struct sp_host_object *object);

/* The same as the handler found it. */
void sp_module_read_event(struct sp_module *mod, const struct sp_module_event *s);

/* The same build at the same place. */
bool sp_module_same(const struct sp_module *a, const struct sp_module *b);

#endif
