/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One word says where the thread is, another one how many calls of the host want it away. Whoever
 * turns the first from "away" to "present" is the one who sees to it that there is a thread: the
 * host's call that is over, or the thread itself if nobody wanted it away any more when it was about
 * to go. Contexts: APP and BG; no lock that a child of a fork could inherit.
 */
#include "preload/leave_gate.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/compiler.h"
#include "sampler/monotonic.h"

/*
 * An upload that is under way gets a tenth of it (export/main.c), and loading takes some 20 ms where
 * the machine is idle. Not to wait would be worse: the call fails, or ends the program.
 */
#define CLOSE_WAIT_NS (5 * SP_NS_PER_S)
/* The end of an idle thread takes about that long. */
#define LOOK_NS (50 * 1000L)

enum { ABSENT, PRESENT, AWAY };

static _Atomic int place;
static _Atomic unsigned wanted_away;
static _Atomic int thread_id;

void sp_leave_gate_present(void)
{
	atomic_store_explicit(&thread_id, 0, memory_order_relaxed);
	atomic_store_explicit(&place, PRESENT, memory_order_seq_cst);
}

void sp_leave_gate_absent(void)
{
	atomic_store_explicit(&place, ABSENT, memory_order_seq_cst);
}

bool sp_leave_gate_is_present(void)
{
	return atomic_load_explicit(&place, memory_order_seq_cst) == PRESENT;
}

void sp_leave_gate_arrived(void)
{
	atomic_store_explicit(&thread_id, (int)syscall(SYS_gettid), memory_order_relaxed);
}

bool sp_leave_gate_asked(void)
{
	return atomic_load_explicit(&wanted_away, memory_order_seq_cst) != 0;
}

static bool come_back(void)
{
	int away = AWAY;

	return atomic_compare_exchange_strong_explicit(&place, &away, PRESENT, memory_order_seq_cst,
						       memory_order_seq_cst);
}

bool sp_leave_gate_go(void)
{
	/* pairs with open(): either it sees "away", or this sees that nobody wants it */
	atomic_store_explicit(&place, AWAY, memory_order_seq_cst);
	return sp_leave_gate_asked() || !come_back();
}

/* The C library takes a thread off its list before the kernel does, which is asked here. */
static bool has_ended(void)
{
	int tid = atomic_load_explicit(&thread_id, memory_order_relaxed);

	return !sp_leave_gate_is_present() &&
	       (tid == 0 || (syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH));
}

bool sp_leave_gate_close(void (*wake)(void))
{
	const struct timespec look = {0, LOOK_NS};
	uint64_t end = sp_monotonic_ns() + CLOSE_WAIT_NS;

	atomic_fetch_add_explicit(&wanted_away, 1, memory_order_seq_cst);
	while (!has_ended()) {
		if (sp_monotonic_ns() >= end)
			return false;
		/* again and again: it may have been about to fall asleep */
		wake();
		(void)syscall(SYS_nanosleep, &look, NULL);
	}
	return true;
}

bool sp_leave_gate_open(void)
{
	return atomic_fetch_sub_explicit(&wanted_away, 1, memory_order_seq_cst) == 1 && come_back();
}

void sp_leave_gate_forked(void)
{
	atomic_store_explicit(&wanted_away, 0, memory_order_relaxed);
	sp_leave_gate_absent();
}
