/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry functions that importers of dlopen, dlsym and dlvsym call with a switch on. Each asks
 * for its target and jumps there, with the arguments and the return address that it was called
 * with. APP context.
 */
#ifndef SP_HOOK_DL_ENTRY_H
#define SP_HOOK_DL_ENTRY_H

extern const char sp_hook_dl_dlopen_entry[] __attribute__((visibility("hidden")));
extern const char sp_hook_dl_dlsym_entry[] __attribute__((visibility("hidden")));
extern const char sp_hook_dl_dlvsym_entry[] __attribute__((visibility("hidden")));

/* The targets. Called by the entry functions with their own first arguments. */
const void *sp_hook_dl_dlopen_target(const char *file);
const void *sp_hook_dl_dlsym_target(const void *handle, const char *name);
const void *sp_hook_dl_dlvsym_target(const void *handle, const char *name);

#endif
