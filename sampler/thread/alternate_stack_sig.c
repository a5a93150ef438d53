/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with alternate signal stacks (signals.h): how much room such a stack has, which threads
 * share one, and which threads therefore have no timer.
 *
 * An alternate stack belongs to one thread: on a shared one two handlers that run at once overwrite
 * each other's frames. But a program whose only handler with SA_ONSTACK reports a fault and ends
 * the program may give all its threads the same stack (Varnish does). All threads get our signal
 * all the time, so no frame of ours may be on a shared stack.
 *
 * The kernel tells the address of a thread's alternate stack to that thread alone. So each thread
 * writes the address into its block at three moments: in the hook of sigaltstack(), when it gets a
 * timer, and in our handler. The handler finds the address in its context, even if the program made
 * the system call itself. A hash table leads from an address to the blocks that have it.
 *
 * The stored address of another thread may be outdated: the thread may have changed its stack by
 * the raw system call, and our handler may not have run there since. Then two threads seem to share
 * a stack and have no timer, until the next scan checks them again. The opposite mistake would end
 * the program.
 *
 * Runs in the signal handler and in hooked calls; sp_alternate_stack_own() and
 * sp_alternate_stack_init() are APP.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/counters.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/region/region.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* In linux/auxvec.h since 5.14. Older headers lack it, and older kernels do not report it (0). */
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
/*
 * The size of the kernel's frame if the kernel does not report it: x86-64 with AVX-512, arm64 with
 * SVE.
 */
#define FRAME_DEFAULT 4096U
/* No frame is larger; a distance beyond it means two different stacks. */
#define FRAME_MAX 65536U

static uint32_t frame_bound; /* reported by the kernel; written before the first timer exists */
static _Atomic uint32_t
	frame_measured; /* the largest frame seen, including our handler's entry; 0 = none */

void sp_alternate_stack_init(void)
{
	unsigned long told = getauxval(AT_MINSIGSTKSZ);

	frame_bound = told > 0 && told < FRAME_MAX ? (uint32_t)told : FRAME_DEFAULT;
}

static void measure(uintptr_t interrupted, uintptr_t frame)
{
	uintptr_t distance = interrupted - frame;

	if (distance < FRAME_MAX &&
	    distance > atomic_load_explicit(&frame_measured, memory_order_relaxed))
		atomic_store_explicit(&frame_measured, (uint32_t)distance, memory_order_relaxed);
}

SP_SIGSAFE size_t sp_alternate_stack_room(const void *ucontext, const void *frame)
{
	const ucontext_t *uc = ucontext;
	uintptr_t base = (uintptr_t)uc->uc_stack.ss_sp;
	uintptr_t here = (uintptr_t)frame;

	if (here - base < uc->uc_stack.ss_size)
		return here - base;
	measure(sp_arch_context_reg(ucontext, SP_ARCH_REG_SP), here);
	return SIZE_MAX;
}

static struct sp_alternate_stack told(const stack_t *stack)
{
	struct sp_alternate_stack s = {.at = 0};

	if ((stack->ss_flags & SS_DISABLE) == 0) {
		s.at = (uintptr_t)stack->ss_sp;
		s.bytes = stack->ss_size < UINT32_MAX ? (uint32_t)stack->ss_size : UINT32_MAX;
	}
	return s;
}

SP_SIGSAFE struct sp_alternate_stack sp_alternate_stack_of(const void *ucontext)
{
	return told(&((const ucontext_t *)ucontext)->uc_stack);
}

struct sp_alternate_stack sp_alternate_stack_own(void)
{
	stack_t now = {.ss_flags = SS_DISABLE};
	int saved = errno;

	(void)sp_syscall(SYS_sigaltstack, NULL, &now);
	errno = saved;
	return told(&now);
}

/* The measured size, or the bound before a measurement. */
static uint32_t frame_size(void)
{
	uint32_t frame = atomic_load_explicit(&frame_measured, memory_order_relaxed);

	return frame == 0 || frame > frame_bound ? frame_bound : frame;
}

SP_SIGSAFE bool sp_alternate_stack_holds_sample(uint32_t bytes)
{
	return bytes == 0 || bytes >= frame_size() + SP_HANDLER_ROOM_LEAST;
}

SP_SIGSAFE bool sp_alternate_stack_holds_walk(uint32_t bytes)
{
	uint32_t likely = frame_size() < FRAME_DEFAULT ? frame_size() : FRAME_DEFAULT;

	return bytes == 0 || (bytes >= frame_bound + SP_HANDLER_ROOM_LEAST &&
			      bytes >= likely + SP_HANDLER_ROOM_WALK);
}

/*
 * A block with an alternate stack has an entry in its window: the SP_ALTERNATE_WINDOW entries from
 * the address's hash on. There are twice as many entries as blocks, so if a window is full, its
 * blocks have the same address.
 */
#define ENTRIES 32768U
#define ENTRY_BITS 15

_Static_assert(ENTRIES == 1U << ENTRY_BITS && ENTRIES == 2 * SP_THREADS_MAX, "as said above");

static _Atomic uint16_t entries[ENTRIES]; /* index of a block + 1; once set, never 0 again */

static uint32_t first_entry(uintptr_t at)
{
	/* Stacks usually lie on multiples of 16. */
	return (uint32_t)(at >> 4) * 2654435761U >> (32 - ENTRY_BITS);
}

static uintptr_t noted(const struct sp_thread *t)
{
	return atomic_load_explicit(&t->alternate_at, memory_order_seq_cst);
}

/*
 * The block in an entry; NULL if it belongs to no thread now, or if its address has another window.
 */
static struct sp_thread *holder(uint32_t entry)
{
	uint16_t n = atomic_load_explicit(&entries[entry], memory_order_seq_cst);
	struct sp_thread *t = n != 0 ? sp_thread_at(n - 1U) : NULL;

	if (t == NULL || noted(t) == 0 ||
	    (entry - first_entry(noted(t))) % ENTRIES >= SP_ALTERNATE_WINDOW)
		return NULL;
	return t;
}

/*
 * Makes the entry of a block. If the window is full, there is no entry, and
 * sp_alternate_stack_shared() counts the stack as shared.
 */
static void enter(const struct sp_thread *t, uintptr_t at)
{
	uint16_t mine = (uint16_t)(t->index + 1);

	for (uint32_t i = 0; i < SP_ALTERNATE_WINDOW; i++) {
		uint32_t entry = (first_entry(at) + i) % ENTRIES;
		uint16_t now = atomic_load_explicit(&entries[entry], memory_order_seq_cst);

		if (now == mine)
			return;
		if (holder(entry) == NULL && atomic_compare_exchange_strong_explicit(
						     &entries[entry], &now, mine,
						     memory_order_seq_cst, memory_order_relaxed))
			return;
	}
}

SP_SIGSAFE void sp_alternate_stack_store(struct sp_thread *t, const struct sp_alternate_stack *s)
{
	atomic_store_explicit(&t->alternate_bytes, s->bytes, memory_order_relaxed);
	if (noted(t) == s->at)
		return;
	/*
	 * The address is stored before the entry is made: if two threads store the same address,
	 * the later thread sees both blocks.
	 */
	atomic_store_explicit(&t->alternate_at, s->at, memory_order_seq_cst);
	if (s->at != 0)
		enter(t, s->at);
}

static uint32_t id_of(const struct sp_thread *t)
{
	return atomic_load_explicit(&t->tid, memory_order_seq_cst);
}

/*
 * Finds another living thread with t's alternate stack, from entry number *i of the window on; NULL
 * = none.
 */
static struct sp_thread *next_sharer(const struct sp_thread *t, uint32_t *i, bool *entered)
{
	uintptr_t at = noted(t);

	for (; *i < SP_ALTERNATE_WINDOW; (*i)++) {
		uint32_t entry = (first_entry(at) + *i) % ENTRIES;
		struct sp_thread *other = holder(entry);
		uint32_t tid = other != NULL ? id_of(other) : 0;

		if (atomic_load_explicit(&entries[entry], memory_order_seq_cst) == 0)
			return NULL;
		*entered |= other == t;
		if (other != NULL && noted(other) == at && tid != 0 && tid != id_of(t) &&
		    !sp_process_thread_is_gone(tid)) {
			(*i)++;
			return other;
		}
	}
	return NULL;
}

SP_SIGSAFE bool sp_alternate_stack_shared(const struct sp_thread *t)
{
	bool entered = false;
	uint32_t i = 0;

	if (noted(t) == 0 || sp_seccomp_is_on())
		return false;
	return next_sharer(t, &i, &entered) != NULL || !entered;
}

SP_SIGSAFE void sp_thread_disarm(struct sp_thread *t)
{
	int timer;

	if (sp_seccomp_is_on())
		return;
	/*
	 * Pairs with sp_thread_arm(). If two threads disarm t at once, the exchange gives the timer
	 * to one of them.
	 */
	timer = atomic_exchange_explicit(&t->timer, SP_THREAD_TIMER_NONE, memory_order_seq_cst);
	if (timer != SP_THREAD_TIMER_NONE)
		sp_thread_timer_drop(timer - 1);
}

SP_SIGSAFE void sp_thread_timer_delete(int id)
{
	int saved = errno;

	if (id >= 0)
		(void)sp_syscall(SYS_timer_delete, id);
	errno = saved;
}

SP_SIGSAFE void sp_thread_timer_drop(int id)
{
	sp_thread_timer_delete(id);
	atomic_fetch_sub_explicit(&sp_thread_table.armed, 1, memory_order_relaxed);
}

/* A thread is counted once for each reason in a row, however often a timer is tried. */
SP_SIGSAFE void sp_thread_unarmed_count(struct sp_thread *t, enum sp_unarmed why)
{
	static const enum sp_counter counter[SP_UNARMED_N] = {
		[SP_UNARMED_LIMIT] = SP_COUNT_UNARMED_LIMIT,
		[SP_UNARMED_REFUSED] = SP_COUNT_UNARMED_REFUSED,
		[SP_UNARMED_STACK] = SP_COUNT_UNARMED_STACK,
		[SP_UNARMED_SHARED] = SP_COUNT_UNARMED_SHARED,
	};
	uint8_t before = atomic_exchange_explicit(&t->unarmed, (uint8_t)why, memory_order_relaxed);

	if (why == SP_UNARMED_NOT)
		return;
	if (why == SP_UNARMED_STACK || why == SP_UNARMED_SHARED)
		atomic_store_explicit(&sp_region_now()->threads_unfit, 1, memory_order_relaxed);
	/* CPU time that the thread uses without a timer is in no sample. */
	atomic_store_explicit(&t->account.outside, true, memory_order_relaxed);
	if (before != why && counter[why] != 0)
		sp_count(counter[why]);
}

static void disarm_unfit(struct sp_thread *t, enum sp_unarmed why)
{
	sp_thread_disarm(t);
	sp_thread_unarmed_count(t, why);
}

/*
 * A thread that was alone on its alternate stack has a timer. When another thread gets the same
 * stack, both lose their timers.
 */
static void disarm_sharers(const struct sp_thread *t)
{
	struct sp_thread *other;
	bool entered = false;
	uint32_t i = 0;

	while ((other = next_sharer(t, &i, &entered)) != NULL)
		disarm_unfit(other, SP_UNARMED_SHARED);
}

SP_SIGSAFE enum sp_unarmed sp_thread_unfit(const struct sp_thread *t)
{
	uint32_t bytes = atomic_load_explicit(&t->stack_bytes, memory_order_relaxed);
	uint32_t alternate = atomic_load_explicit(&t->alternate_bytes, memory_order_relaxed);
	bool shared;

	if (bytes != 0 && bytes < SP_THREAD_STACK_LEAST)
		return SP_UNARMED_STACK;
	if (!sp_signals_on_alternate_stack())
		return SP_UNARMED_NOT;
	shared = sp_alternate_stack_shared(t);
	if ((!shared && sp_alternate_stack_holds_walk(alternate)) ||
	    sp_signals_quit_alternate_stack())
		return SP_UNARMED_NOT;
	if (shared) {
		disarm_sharers(t);
		return SP_UNARMED_SHARED;
	}
	return sp_alternate_stack_holds_sample(alternate) ? SP_UNARMED_NOT : SP_UNARMED_STACK;
}

SP_SIGSAFE void sp_thread_disarm_unfit(void)
{
	uint32_t n = atomic_load_explicit(&sp_thread_table.used, memory_order_acquire);

	if (!sp_process_is_ours())
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct sp_thread *t = sp_thread_at(i);
		enum sp_unarmed why;

		/* The stack of an ended thread does not count. */
		if (id_of(t) == 0)
			continue;
		why = sp_thread_unfit(t);
		if (why != SP_UNARMED_NOT)
			disarm_unfit(t, why);
	}
}

SP_SIGSAFE bool sp_thread_alternate_seen(struct sp_thread *t, const void *ucontext,
					 const void *frame)
{
	struct sp_alternate_stack now = sp_alternate_stack_of(ucontext);
	enum sp_unarmed why;

	if (noted(t) == now.at &&
	    atomic_load_explicit(&t->alternate_bytes, memory_order_relaxed) == now.bytes)
		return true;
	/*
	 * A handler of the program runs on the stack and was installed with SS_AUTODISARM:
	 * meanwhile the kernel says that the thread has no alternate stack.
	 */
	if (now.at == 0 && sp_thread_alternate_room(t, frame) != SIZE_MAX)
		return true;
	sp_alternate_stack_store(t, &now);
	/*
	 * A runtime that makes raw system calls may have set its handlers together with the stack.
	 */
	sp_signals_check(false);
	why = sp_thread_unfit(t);
	if (why != SP_UNARMED_NOT)
		disarm_unfit(t, why);
	return why == SP_UNARMED_NOT;
}

SP_SIGSAFE size_t sp_thread_alternate_room(const struct sp_thread *t, const void *frame)
{
	size_t below = (uintptr_t)frame - noted(t);

	return below < atomic_load_explicit(&t->alternate_bytes, memory_order_relaxed) ? below
										       : SIZE_MAX;
}
