/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up what handlers read of other publishers (foreign_context.h). Context: APP. */
#include "sampler/context/foreign_context.h"

#include <stddef.h>

#include "sampler/base/arch_sig.h"
#include "sampler/context/context_slot.h"
#include "sampler/context/foreign_context_sig.h"
#include "sampler/context/process_context.h"

/* Each reads the memory map of the process. */
#define LOOKS_MAX 4U

/* Both lie in storage that has the same distance from the thread pointer in every thread. */
static intptr_t own_variable(void)
{
	return (intptr_t)((uintptr_t)sp_context_slot() - sp_arch_thread_pointer());
}

void sp_foreign_context_start(const struct sp_foreign_context_setup *setup)
{
	struct sp_foreign_context_setup *now = &sp_foreign_context_setup;
	unsigned n = 0;

	*now = *setup;
	now->variable[n++] = own_variable();
	for (unsigned i = 0; i < setup->variables && n < SP_FOREIGN_VARIABLES; i++)
		if (setup->variable[i] != now->variable[0])
			now->variable[n++] = setup->variable[i];
	now->variables = n;
	/* pairs with sp_foreign_context_read() */
	atomic_store_explicit(&sp_foreign_context_on, true, memory_order_release);
}

void sp_foreign_context_set_root_key(int key)
{
	atomic_store_explicit(&sp_foreign_context_root_key, key, memory_order_relaxed);
}

void sp_foreign_context_look(void)
{
	static unsigned looks;

	if (looks == LOOKS_MAX ||
	    !atomic_load_explicit(&sp_foreign_context_seen, memory_order_relaxed) ||
	    atomic_load_explicit(&sp_foreign_context_root_key, memory_order_relaxed) >= 0)
		return;
	looks++;
	sp_foreign_context_set_root_key(sp_process_context_root_key());
}
