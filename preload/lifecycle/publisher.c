/* SPDX-License-Identifier: Apache-2.0 */
/* See publisher.h. Context: INIT, APP. */
#include "preload/lifecycle/publisher.h"

#include <stdatomic.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/lifecycle/sdk.h"
#include "sampler/base/text.h"
#include "sampler/context/context_slot.h"
#include "sampler/context/foreign_context.h"
#include "sampler/context/process_context.h"
#include "sampler/context/thread_context.h"

static struct sp_elf_tls at_start;
static _Atomic bool is_read;
static _Atomic bool is_announced; /* by a process context */

static bool is_announced_now(void)
{
	return atomic_load_explicit(&is_announced, memory_order_relaxed);
}

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
	bool reads;

	sp_thread_context_init(config, at_start.before_ours);
	reads = forced ||
		(config->active_span == SP_ACTIVE_AUTO && (at_start.n != 0 || is_announced_now()));
	atomic_store_explicit(&is_read, reads, memory_order_relaxed);
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
	return atomic_load_explicit(&is_read, memory_order_relaxed);
}

/* Profiles go where that library's spans do, unless a variable says otherwise. */
static void take_service(const char *service)
{
	char text[sizeof("service.name=") + 3UL * SP_PROCESS_CONTEXT_SERVICE_MAX] = "service.name=";
	size_t n = strlen(text);

	if (service[0] == '\0' || sp_sdk_service_is_made_up(service, strlen(service)))
		return;
	for (size_t i = 0; service[i] != '\0'; i++)
		n += sp_text_percent(text + n, service[i]);
	text[n] = '\0';
	sp_sdk_resource(service, text);
}

bool sp_publisher_announced(uintptr_t at, bool has_name)
{
	struct sp_process_context_threads threads;

	if (!has_name && !sp_process_context_is_at(at))
		return false;
	sp_process_context_made_by_program();
	if (!sp_config_allows_context())
		return false;
	sp_process_context_read(at, &threads);
	if (!threads.published)
		return false;
	take_service(threads.service);
	if (threads.root_key >= 0)
		sp_foreign_context_set_root_key(threads.root_key);
	atomic_store_explicit(&is_announced, true, memory_order_relaxed);
	return true;
}

void sp_publisher_read_on(void)
{
	atomic_store_explicit(&is_read, true, memory_order_relaxed);
}
