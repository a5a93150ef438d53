/* SPDX-License-Identifier: Apache-2.0 */
/* Jumping to a function of up to three arguments that looks at its return address. APP context. */
#include "preload/hook_dl_entry.h"

#include "preload/tail_call.h"

#define ENTRY(name, target) SP_TAIL_CALL(name, target, ".hidden " name)

ENTRY("sp_hook_dl_dlopen_entry", "sp_hook_dl_dlopen_target");
ENTRY("sp_hook_dl_dlsym_entry", "sp_hook_dl_dlsym_target");
ENTRY("sp_hook_dl_dlvsym_entry", "sp_hook_dl_dlvsym_target");
