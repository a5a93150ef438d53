/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two opt-in switches, for SDK calls that the loader's ordinary rules keep from our hooks:
 *
 *   SPANPROF_HOOK_DLSYM  dlsym() gives the host our hook instead of the SDK's function
 *   SPANPROF_DEEPBIND    objects opened with RTLD_DEEPBIND find our hooks before their own SDK
 *
 * Nothing is exported for them. With a switch on, the relocated slots of all objects that import
 * dlopen, dlsym and dlvsym are changed to functions of ours. These go on to the real ones by a
 * jump, so that the real ones see the host's object as their caller (RTLD_NEXT, RTLD_DEFAULT,
 * RUNPATH and $ORIGIN work as before).
 */
#ifndef SP_HOOK_DL_H
#define SP_HOOK_DL_H

#include <stdbool.h>

/* INIT, after the environment was copied. Nothing at all with both switches off. */
void sp_hook_dl_start(bool hook_dlsym, bool deepbind);

/* APP. The caller is in an object that binds to an SDK before the global scope (RTLD_DEEPBIND). */
bool sp_hook_dl_is_deepbound(const void *caller);

#endif
