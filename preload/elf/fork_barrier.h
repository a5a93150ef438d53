/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections that a fork must not divide. dl_iterate_phdr() holds a lock of the loader. In a child that
 * another thread forks meanwhile, nobody will ever give that lock back: the child's first own call
 * hangs (seen with glibc 2.36, whose fork() resets other locks of the loader, but not
 * dl_load_write_lock). Likewise a page that is writable while a slot is written would stay so in the
 * child. So a fork waits until no thread of ours is in such a section, and our threads wait before
 * one until the fork is done, as they do in malloc(). Threads of the host that walk over the objects
 * themselves are not kept from it. APP context; in INIT there is one thread, and nothing waits.
 */
#ifndef SP_FORK_BARRIER_H
#define SP_FORK_BARRIER_H

#include <link.h>

/* May be nested. Bounded: where a fork takes longer than a second, the section begins nevertheless. */
void sp_fork_barrier_enter(void);
void sp_fork_barrier_leave(void);

/* dl_iterate_phdr() in such a section. */
int sp_fork_barrier_walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg);

/* APP: from now on forks wait. Before, and without __register_atfork(), they do not. */
void sp_fork_barrier_start(void);

#endif
