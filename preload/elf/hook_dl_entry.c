/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry functions that jump to the chosen target with the caller's arguments and return address
 * (tail_call.h). APP context.
 */
#include "preload/elf/hook_dl_entry.h"

#include "preload/elf/tail_call.h"

#define ENTRY(name, target) SP_TAIL_CALL(name, target, ".hidden " name)

ENTRY("sp_hook_dl_dlopen_entry", "sp_hook_dl_dlopen_target");
ENTRY("sp_hook_dl_dlsym_entry", "sp_hook_dl_dlsym_target");
ENTRY("sp_hook_dl_dlvsym_entry", "sp_hook_dl_dlvsym_target");
