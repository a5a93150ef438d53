/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of objects, by which cached names and lines are found. Processes of a family have the
 * same objects at the same addresses, and an object that a process has unloaded may come back at
 * the same place. Such an object has one number for all of them, so that it is read once.
 */
#ifndef SP_MODULE_SERIAL_H
#define SP_MODULE_SERIAL_H

#include <stdint.h>

#include "export/objects/modules.h"

/* Never 0. shown: as in the module, whose build id and bias are known. */
uint32_t sp_module_serial(const struct sp_module *module);

#endif
