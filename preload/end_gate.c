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
#include "sampler/monotonic.h"

/* Loading takes some ten milliseconds; a transfer looks at the gate that often. */
#define CLOSE_WAIT_NS (1 * SP_NS_PER_S)

enum { IDLE, BUSY };

static _Atomic uint32_t work; /* futex: IDLE while the background thread is in no library */
static _Atomic bool closed;

bool sp_end_gate_enter(void)
{
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

void sp_end_gate_close(void)
{
	uint64_t end = sp_monotonic_ns() + CLOSE_WAIT_NS;
	uint64_t now;

	if (atomic_exchange_explicit(&closed, true, memory_order_seq_cst))
		return;
	while (atomic_load_explicit(&work, memory_order_seq_cst) == BUSY &&
	       (now = sp_monotonic_ns()) < end) {
		struct timespec left = {.tv_sec = (time_t)((end - now) / SP_NS_PER_S),
					.tv_nsec = (long)((end - now) % SP_NS_PER_S)};

		(void)syscall(SYS_futex, &work, FUTEX_WAIT_PRIVATE, BUSY, &left, NULL, 0);
	}
}

void sp_end_gate_forked(void)
{
	atomic_store_explicit(&work, IDLE, memory_order_relaxed);
	atomic_store_explicit(&closed, false, memory_order_relaxed);
}
