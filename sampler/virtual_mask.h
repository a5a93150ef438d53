/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual signal mask: the one that the host believes in. Threads that shall not be bothered by signals
 * block all of them (nginx's thread pool, HAProxy's workers, asio's), which means handlers of the host:
 * ours may run there, and has to, or the threads that do the work are never sampled. So where a
 * mask blocks nearly everything our signal is left out of what the kernel gets, and put back into
 * what the host reads.
 *
 * If somebody else sends that number to such a thread it is given back to the kernel, to wait as it
 * would have, and the thread blocks it for real from then on. A mask that names our signal and few
 * others is meant for it, and is obeyed.
 */
#ifndef SP_VIRTUAL_MASK_H
#define SP_VIRTUAL_MASK_H

#include <signal.h>
#include <stdbool.h>

#include "sampler/compiler.h"

struct sp_thread;

/*
 * APP. A set of the host's, as far as the kernel reads one: what lies behind its first word may not be
 * there. False if the kernel cannot read it. errno preserved.
 */
bool sp_virtual_mask_copy(const sigset_t *set, sigset_t *copy);

/* APP. The mask may be given to the kernel without our signal, in the calling thread. */
bool sp_virtual_mask_wanted(const sigset_t *set);

/*
 * Any context. The calling thread's mask in the kernel lacks that signal of ours (0 = none), unlike
 * the host's, as long as it blocks nearly everything: jumps and switches of contexts bring back older
 * masks, unseen. After a fallback it may be the former one.
 */
SP_SIGSAFE int sp_virtual_mask_differs(void);
/* APP. The same, after a look at the kernel's mask. errno preserved. */
bool sp_virtual_mask_differs_now(void);

/* APP, before the kernel gets a mask without our signal; and if it did not take it. */
void sp_virtual_mask_begin(void);
/* APP. The host has set our signal's bit itself since, or cleared it. */
void sp_virtual_mask_end(void);
/* APP. The kernel blocks it too, and the thread's timer is gone. errno preserved. */
void sp_virtual_mask_make_real(void);
/* APP, before exec, also in a child of vfork: the mask of the new program. errno preserved. */
void sp_virtual_mask_hand_on(void);
/* APP, the thread itself, newly enrolled: a mask that it was born with. errno preserved. */
void sp_virtual_mask_inherit(struct sp_thread *t);

/*
 * APP. The host reads signals of that set from a descriptor: which thread reads, and when, nobody
 * tells us. No mask differs from then on where a timer is.
 */
void sp_virtual_mask_read_by_descriptor(const sigset_t *set);
/* Any context. Such a descriptor exists for that signal (not for 0). */
SP_SIGSAFE bool sp_virtual_mask_forbidden(int signo);
/* APP. The host means that very signal: by such a descriptor, or the thread's mask names it among few. */
bool sp_virtual_mask_is_about(int signo);

/* SIG. A signal that is not ours: true if the host's mask blocks it, and it was given back. */
SP_SIGSAFE bool sp_virtual_mask_defer(int signo, const siginfo_t *si, void *ucontext);

/*
 * APP, the thread blocks our signal now. A timer goes, with what it has sent: another thread
 * may have made it between the end of the last one and the new mask, or from the mask of a wait, or the
 * host has a way to change masks that no hook sees. errno preserved.
 */
void sp_virtual_mask_leave_none(void);
/*
 * APP, before the thread waits for signals of that set. The kernel's mask is what the host believes
 * it to be, so that a signal of ours is never what the host gets. errno preserved.
 */
void sp_virtual_mask_before_wait(const sigset_t *set);

/*
 * For the parts of this noun, where the kernel blocks that signal and the timer is gone: what it had
 * sent before is gone too, for the host would meet it.
 */
SP_SIGSAFE void sp_virtual_mask_take_sent(int signo);
/* At least three quarters of all signals are blocked. */
SP_SIGSAFE bool sp_virtual_mask_blanket(const sigset_t *set);
SP_SIGSAFE void sp_virtual_mask_forbid(const sigset_t *set);

#endif
