/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setup of the table of announced objects, and what happens to it when the process forks or gets a
 * new ring. Contexts: APP, forked child.
 */
#include "sampler/unwind/module_event.h"

static const _Atomic uint32_t never;

void sp_module_event_move(struct sp_ring *ring, const _Atomic uint32_t *again)
{
	atomic_store_explicit(&sp_module_event_state.again, again != NULL ? again : &never,
			      memory_order_relaxed);
	/* both pair with the acquires in sp_module_event_note(): what is told anew goes to the new ring */
	atomic_store_explicit(&sp_module_event_state.ring, ring, memory_order_release);
	atomic_fetch_add_explicit(&sp_module_event_state.moves, 1, memory_order_release);
}

void sp_module_event_forked(void)
{
	atomic_store_explicit(&sp_module_event_state.again, &never, memory_order_relaxed);
	atomic_fetch_add_explicit(&sp_module_event_state.moves, 1, memory_order_relaxed);
}
