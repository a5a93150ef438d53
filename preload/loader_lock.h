/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C library's lock around the list of loaded objects, which every dl_iterate_phdr() holds while
 * it runs: a fork copies it as it is, and glibc (checked: 2.36) makes only the loader's other locks
 * new in the child. Held by another thread of the host at that moment, it would be held for ever:
 * the child's next dlopen() or dl_iterate_phdr(), ours included, would not return.
 */
#ifndef SP_LOADER_LOCK_H
#define SP_LOADER_LOCK_H

/* BG, in no call of the loader. Finds the lock, once; without it forked() does nothing. */
void sp_loader_lock_find(void);

/* Forked child, only thread: what threads of the parent held is free. */
void sp_loader_lock_forked(void);

#endif
