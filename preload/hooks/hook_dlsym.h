/* SPDX-License-Identifier: Apache-2.0 */
/* SPANPROF_HOOK_DLSYM (hook_dlsym.c). INIT, before the host's main(). */
#ifndef SP_HOOK_DLSYM_H
#define SP_HOOK_DLSYM_H

void sp_hook_dlsym_start(void);

#endif
