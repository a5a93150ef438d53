/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a module, and where its file is. Context: the exporter. */
#ifndef SP_MODULE_NAME_H
#define SP_MODULE_NAME_H

#include "export/objects/modules.h"

#define SP_MODULE_PATH_BYTES 1024U

/*
 * Fill in the path to open, the path to show and the name of a module that is otherwise complete.
 * They lie in text. proc is "/proc/PID".
 */
void sp_module_name(struct sp_module *mod, const char *proc, const struct sp_host_object *object,
		    char text[2 * SP_MODULE_PATH_BYTES]);

/* The same for the path that the host's loader has. */
void sp_module_name_event(struct sp_module *mod, const char *path,
			  char text[2 * SP_MODULE_PATH_BYTES]);

#endif
