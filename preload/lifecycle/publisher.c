/* SPDX-License-Identifier: Apache-2.0 */
/* See publisher.h. Context: INIT, APP. */
#include "preload/lifecycle/publisher.h"

#include "preload/elf/elf_walk.h"
#include "sampler/context/context_slot.h"
#include "sampler/context/foreign_context.h"
#include "sampler/context/thread_context.h"

static struct sp_elf_tls at_start;
static bool is_read;

void sp_publisher_look(void)
{
	struct sp_elf_tls other;

	sp_elf_find_tls(SP_CONTEXT_SYMBOL, &other);
	/* Most programs have none, and need no page of memory to remember that. */
	if (other.n != 0 || sp_config_wants_context())
		at_start = other;
}

bool sp_publisher_found(void)
{
	return at_start.n != 0;
}

void sp_publisher_prepare(const struct sp_config *config)
{
	struct sp_foreign_context_setup setup = {.variables = 0};
	bool forced = config->active_span == SP_ACTIVE_CONTEXT;

	sp_thread_context_init(config, at_start.n, at_start.before_ours);
	is_read = forced || (config->active_span == SP_ACTIVE_AUTO && at_start.n != 0);
	if (!forced && config->active_span != SP_ACTIVE_AUTO)
		return;
	for (; setup.variables < at_start.listed; setup.variables++)
		setup.variable[setup.variables] = at_start.at[setup.variables];
	setup.tls_begin = at_start.begin;
	setup.tls_end = at_start.end;
	sp_foreign_context_start(&setup);
}

bool sp_publisher_is_read(void)
{
	return is_read;
}
