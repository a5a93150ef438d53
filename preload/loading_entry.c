/* SPDX-License-Identifier: Apache-2.0 */
/* Jumping to a function of up to three arguments that looks at its return address. APP context. */
#include "preload/loading_entry.h"

#include "preload/tail_call.h"

#define ENTRY(name, target) SP_TAIL_CALL(name, target, ".hidden " name)

ENTRY("sp_loading_dlopen_entry", "sp_loading_dlopen_target");
ENTRY("sp_loading_dlsym_entry", "sp_loading_dlsym_target");
ENTRY("sp_loading_dlvsym_entry", "sp_loading_dlvsym_target");
