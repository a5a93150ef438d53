/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two opt-in switches for objects that the loader's ordinary rules keep from our hooks:
 *
 *   SPANPROF_HOOK_DLSYM  a function that the host asks dlsym() for by name is our hook
 *   SPANPROF_DEEPBIND    objects opened with RTLD_DEEPBIND find our hooks before their own SDK
 *
 * Nothing is exported for them: with a switch on, the importers of dlopen, dlsym and dlvsym are turned
 * to functions of ours, which go on to the real ones by a jump, so that these see the host's object as
 * their caller (RTLD_NEXT, RTLD_DEFAULT, RUNPATH and $ORIGIN stay what they were).
 */
#ifndef SP_HOOK_DL_H
#define SP_HOOK_DL_H

#include <stdbool.h>

/* INIT, after the environment was copied. Nothing at all with both switches off. */
void sp_hook_dl_start(bool hook_dlsym, bool deepbind);

/* An object that refers to an SDK before the global scope (RTLD_DEEPBIND). APP. */
bool sp_hook_dl_is_deepbound(const void *caller);

#endif
