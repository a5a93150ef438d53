/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C library's lock around the list of loaded objects, which every dl_iterate_phdr() holds while
 * it runs: a fork copies it as it is, and glibc (checked: 2.36) makes only the loader's other locks
 * new in the child. Held by another thread of the host at that moment, it would be held for ever:
 * the child's next dlopen() or dl_iterate_phdr(), ours included, would not return.
 */
#ifndef SP_LOADER_LOCK_H
#define SP_LOADER_LOCK_H

#include <stdbool.h>

/* BG, in no call of the loader. Finds the lock, once; without it forked() does nothing. */
void sp_loader_lock_find(void);

/*
 * Forked child, only thread: what a thread of the parent held, that looked through the list, is free.
 * False when one was changing the list, which is then neither whole nor free: stay out of the loader.
 */
bool sp_loader_lock_forked(void);

#endif
