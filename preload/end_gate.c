/* SPDX-License-Identifier: Apache-2.0 */
/* Closing the gate at the end of the process. Contexts: BG; APP and INIT where said. */
#include "preload/end_gate.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/compiler.h"
#include "sampler/cpu_clock.h"
#include "sampler/monotonic.h"
#include "sampler/timer.h"

/* Loading takes some ten milliseconds; a transfer looks at the gate that often. */
#define CLOSE_WAIT_NS (1 * SP_NS_PER_S)
/*
 * Where a crowded machine leaves the thread less of its time than this, and some, it is waited for
 * again: to go on means that its libraries are taken from under it.
 */
#define STARVED_NS (CLOSE_WAIT_NS / 2)
#define CLOSE_WAITS_MAX 10U

enum { IDLE, BUSY };

static _Atomic uint32_t work;   /* futex: IDLE while the background thread is in no library */
static _Atomic uint32_t worker; /* its id; 0 = it never was in one */
static _Atomic bool closed;

bool sp_end_gate_enter(void)
{
	/* another one after a leave */
	atomic_store_explicit(&worker, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);
	/* pairs with close(): either it sees this, or this sees its store */
	atomic_store_explicit(&work, BUSY, memory_order_seq_cst);
	if (!atomic_load_explicit(&closed, memory_order_seq_cst))
		return true;
	sp_end_gate_leave();
	return false;
}

void sp_end_gate_leave(void)
{
	atomic_store_explicit(&work, IDLE, memory_order_seq_cst);
	if (atomic_load_explicit(&closed, memory_order_seq_cst))
		(void)syscall(SYS_futex, &work, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void sp_end_gate_park(void)
{
	for (;;)
		(void)syscall(SYS_futex, &work, FUTEX_WAIT_PRIVATE, IDLE, NULL, NULL, 0);
}

/* The CPU time of the thread inside; 0 if it cannot be told. */
static uint64_t worker_ns(void)
{
	uint32_t tid = atomic_load_explicit(&worker, memory_order_relaxed);
	uint64_t ns = 0;

	(void)sp_cpu_clock_ns(SP_THREAD_CPU_CLOCK(tid), &ns);
	return ns;
}

static void wait_until(uint64_t end)
{
	uint64_t now;

	while (atomic_load_explicit(&work, memory_order_seq_cst) == BUSY &&
	       (now = sp_monotonic_ns()) < end) {
		struct timespec left = {.tv_sec = (time_t)((end - now) / SP_NS_PER_S),
					.tv_nsec = (long)((end - now) % SP_NS_PER_S)};

		(void)syscall(SYS_futex, &work, FUTEX_WAIT_PRIVATE, BUSY, &left, NULL, 0);
	}
}

void sp_end_gate_close(void)
{
	if (atomic_exchange_explicit(&closed, true, memory_order_seq_cst))
		return;
	for (unsigned i = 0; i < CLOSE_WAITS_MAX; i++) {
		uint64_t before = worker_ns();
		uint64_t got;

		wait_until(sp_monotonic_ns() + CLOSE_WAIT_NS);
		got = worker_ns() - before;
		if (atomic_load_explicit(&work, memory_order_seq_cst) == IDLE || got == 0 ||
		    got > STARVED_NS)
			return;
	}
}

void sp_end_gate_forked(void)
{
	atomic_store_explicit(&worker, 0, memory_order_relaxed);
	atomic_store_explicit(&work, IDLE, memory_order_relaxed);
	atomic_store_explicit(&closed, false, memory_order_relaxed);
}
