/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two words and Dekker's handshake: the background thread says that it works and then looks for
 * forks, a forking thread says that it forks and then looks for work. Contexts: BG and the handlers
 * of fork (APP); no lock that a child could inherit.
 */
#include "preload/fork_gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/compiler.h"
#include "sampler/monotonic.h"

/* Loading the exporter takes 5 to 20 ms; the symbols of a large object take longer at times. */
#define CLOSE_WAIT_NS (500 * SP_NS_PER_MS)

static _Atomic uint32_t working; /* futex of forking threads */
static _Atomic uint32_t forking; /* how many; futex of the background thread */

static void wait_while(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / SP_NS_PER_S),
			      .tv_nsec = (long)(ns % SP_NS_PER_S)};

	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void sp_fork_gate_enter(void)
{
	for (;;) {
		uint32_t forks;

		while ((forks = atomic_load_explicit(&forking, memory_order_acquire)) != 0)
			wait_while(&forking, forks, SP_NS_PER_S);
		/* pairs with sp_fork_gate_close(): one of the two sees the other */
		atomic_store_explicit(&working, 1, memory_order_seq_cst);
		if (atomic_load_explicit(&forking, memory_order_seq_cst) == 0)
			return;
		sp_fork_gate_leave();
	}
}

void sp_fork_gate_leave(void)
{
	atomic_store_explicit(&working, 0, memory_order_seq_cst);
	if (atomic_load_explicit(&forking, memory_order_seq_cst) != 0)
		wake(&working);
}

void sp_fork_gate_yield(void)
{
	if (atomic_load_explicit(&forking, memory_order_relaxed) == 0)
		return;
	sp_fork_gate_leave();
	sp_fork_gate_enter();
}

void sp_fork_gate_close(void)
{
	int saved = errno;
	uint64_t end = sp_monotonic_ns() + CLOSE_WAIT_NS;
	uint64_t now;

	atomic_fetch_add_explicit(&forking, 1, memory_order_seq_cst);
	while (atomic_load_explicit(&working, memory_order_seq_cst) != 0 &&
	       (now = sp_monotonic_ns()) < end)
		wait_while(&working, 1, end - now);
	errno = saved;
}

void sp_fork_gate_open(void)
{
	int saved = errno;

	if (atomic_fetch_sub_explicit(&forking, 1, memory_order_release) == 1)
		wake(&forking);
	errno = saved;
}

bool sp_fork_gate_forked(void)
{
	/* Nobody begins work while a fork is under way: this is how the fork found it. */
	bool clean = atomic_load_explicit(&working, memory_order_relaxed) == 0;

	atomic_store_explicit(&working, 0, memory_order_relaxed);
	atomic_store_explicit(&forking, 0, memory_order_relaxed);
	return clean;
}
