/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual signal mask: the mask that the host believes a thread to have, where the kernel's
 * differs.
 *
 * Programs block all signals in their worker threads (nginx's thread pool, HAProxy, asio), because
 * their own handlers shall not run there. Our signal would be blocked as well, and exactly the
 * threads that do the work would never be sampled. So if a mask blocks nearly everything, our
 * signal is left out of the mask that the kernel gets, and put back into what the host reads.
 *
 * If somebody else sends that signal to such a thread, it is given back to the kernel, where it
 * waits as it would have without us, and from then on the thread really blocks it. A mask that
 * names our signal and few others is meant for this signal, and is obeyed.
 */
#ifndef SP_VIRTUAL_MASK_H
#define SP_VIRTUAL_MASK_H

#include <signal.h>
#include <stdbool.h>

#include "sampler/base/compiler.h"

struct sp_thread;

/*
 * APP. Copies a set of the host. Only the first word is copied, because the kernel reads no more
 * and the memory behind it may not be mapped. False if the kernel cannot read it. errno preserved.
 */
bool sp_virtual_mask_copy(const sigset_t *set, sigset_t *copy);

/* APP. In the calling thread, the kernel may be given this mask without our signal. */
bool sp_virtual_mask_wanted(const sigset_t *set);

/*
 * Any context. The signal of ours that the host's mask of the calling thread blocks and the
 * kernel's does not; 0 = none. This holds only while the kernel's mask blocks nearly everything:
 * longjmp() and swapcontext() restore older masks without a hook. After a fallback it may be the
 * former signal.
 */
SP_SIGSAFE int sp_virtual_mask_differs(void);
/* APP. Whether they really differ now, by the kernel's mask. errno preserved. */
bool sp_virtual_mask_differs_now(void);

/* APP. Notes the difference. To be called before the kernel gets a mask without our signal. */
void sp_virtual_mask_begin(void);
/*
 * APP. There is no difference any more: the host has set or cleared our signal itself, or the
 * kernel refused the mask.
 */
void sp_virtual_mask_end(void);
/*
 * APP. Makes the kernel block the signal as well; the thread's timer is deleted. errno preserved.
 */
void sp_virtual_mask_make_real(void);
/*
 * APP, before exec, also in a child of vfork: the new program inherits the mask that the host
 * believes in. errno preserved.
 */
void sp_virtual_mask_hand_on(void);
/*
 * APP, the thread itself, newly enrolled: treats the mask that it was born with. errno preserved.
 */
void sp_virtual_mask_inherit(struct sp_thread *t);

/*
 * APP. The host reads signals of that set from a descriptor. Which thread reads, and when, is
 * unknown. So from now on no mask of a thread with a timer differs in these signals.
 */
void sp_virtual_mask_read_by_descriptor(const sigset_t *set);
/* Any context. Such a descriptor exists for that signal (not for 0). */
SP_SIGSAFE bool sp_virtual_mask_forbidden(int signo);
/*
 * APP. The host uses this very signal: it reads it from a descriptor, or the calling thread's mask
 * names it among few.
 */
bool sp_virtual_mask_is_about(int signo);

/*
 * SIG. For a signal that is not from our timers: true if the host's mask blocks it and it was given
 * back to the kernel.
 */
SP_SIGSAFE bool sp_virtual_mask_defer(int signo, const siginfo_t *si, void *ucontext);

/*
 * APP, the thread blocks our signal now: deletes its timer and takes back the signal that it has
 * sent. There can be one: another thread may have armed this one between the end of the last timer
 * and the new mask, or the host may change masks in a way that no hook sees. errno preserved.
 */
void sp_virtual_mask_leave_none(void);
/*
 * APP, before the thread waits for signals of that set: makes the kernel's mask what the host
 * believes it to be, so that the host never receives a signal of ours. errno preserved.
 */
void sp_virtual_mask_before_wait(const sigset_t *set);

/*
 * For virtual_mask.c and virtual_mask_sig.c, when the kernel blocks the signal and the timer is
 * deleted: removes a pending signal of our timer, which the host would receive otherwise.
 */
SP_SIGSAFE void sp_virtual_mask_take_sent(int signo);
/* At least three quarters of all signals are blocked. */
SP_SIGSAFE bool sp_virtual_mask_blanket(const sigset_t *set);
SP_SIGSAFE void sp_virtual_mask_forbid(const sigset_t *set);

#endif
