/* SPDX-License-Identifier: Apache-2.0 */
/* See waits.h. Context: the exporter. */
#include "export/loop/waits.h"

#include <stdlib.h>
#include <string.h>

struct sp_waits {
	struct sp_waits_env env;
	struct sp_off_cpu *off_cpu;
	struct sp_stack_map *map;
	struct sp_bounded_names *names;
};

static uint32_t thread_of(const struct sp_waits *w, uint32_t tid)
{
	const struct sp_core_ops *ops = w->env.ops;
	char name[SP_THREAD_NAME_BYTES];

	if (w->env.threads == NULL)
		return 0;
	ops->thread_name(ops->arg, tid, name);
	return sp_thread_names_put(w->env.threads, name);
}

static void put(void *arg, const struct sp_wait *wait)
{
	struct sp_waits *w = arg;
	/* A host may write any number there. */
	struct sp_stack_labels labels = {
		.span_id = wait->label->span_id,
		.name_id = wait->label->name_id <= UINT32_MAX ? (uint32_t)wait->label->name_id : 0,
		.thread = thread_of(w, wait->tid),
	};
	const struct sp_stack_wait entry = {
		.labels = &labels,
		.stack =
			{
				.pc = wait->pc,
				.epoch = wait->epoch,
				.depth = wait->depth,
				.flags = wait->flags,
				.wait = sp_wait_names_put(w->names, wait->leaf),
			},
		.ns = wait->ns,
	};

	memcpy(labels.trace_id, wait->label->trace, sizeof(labels.trace_id));
	w->env.ops->counter_add(w->env.ops->arg, SP_COUNT_WAITS, 1);
	sp_stack_loss_count(w->env.ops, sp_stack_map_put_wait(w->map, &entry));
}

/* Reading the mappings takes the host's mmap lock: only where something new is on a stack. */
static uint32_t prepare(void *arg, uint64_t pc)
{
	struct sp_waits *w = arg;
	const struct sp_host_objects *host = sp_modules_host(w->env.modules);

	if (sp_host_objects_find(host, pc) == NULL && sp_host_objects_due(host) &&
	    w->env.ops->may_open(w->env.ops->arg))
		(void)sp_modules_refresh(w->env.modules);
	return sp_modules_epoch(w->env.modules);
}

struct sp_waits *sp_waits_new(const struct sp_waits_env *env)
{
	struct sp_waits *w = calloc(1, sizeof(*w));
	const struct sp_off_cpu_hooks hooks = {.put = put, .prepare = prepare, .arg = w};

	if (w == NULL)
		return NULL;
	w->env = *env;
	w->map = sp_stack_map_new(&sp_stack_limits_default);
	w->names = sp_wait_names_new(env->ops);
	w->off_cpu = sp_off_cpu_new(env->ops, env->unwinder, &hooks);
	if (w->map != NULL && w->names != NULL && w->off_cpu != NULL)
		return w;
	sp_waits_free(w);
	return NULL;
}

void sp_waits_free(struct sp_waits *w)
{
	if (w == NULL)
		return;
	sp_off_cpu_free(w->off_cpu);
	sp_bounded_names_free(w->names);
	sp_stack_map_free(w->map);
	free(w);
}

void sp_waits_run(struct sp_waits *w)
{
	if (w != NULL)
		sp_off_cpu_run(w->off_cpu);
}

void sp_waits_clear(struct sp_waits *w)
{
	if (w != NULL)
		sp_stack_map_clear(w->map);
}

bool sp_waits_take(struct sp_waits *w, struct sp_stack_map **map)
{
	struct sp_stack_map *empty = w != NULL ? sp_stack_map_new(&sp_stack_limits_default) : NULL;

	*map = NULL;
	if (empty == NULL)
		return w == NULL;
	*map = w->map;
	w->map = empty;
	return true;
}

uint64_t sp_waits_due_ns(const struct sp_waits *w)
{
	return w != NULL ? sp_off_cpu_due_ns(w->off_cpu) : UINT64_MAX;
}

const struct sp_stack_map *sp_waits_map(const struct sp_waits *w)
{
	return w != NULL ? w->map : NULL;
}

const struct sp_bounded_names *sp_waits_names(const struct sp_waits *w)
{
	return w != NULL ? w->names : NULL;
}

bool sp_waits_news(const struct sp_waits *w, struct sp_off_cpu_news *out)
{
	if (w != NULL)
		sp_off_cpu_news(w->off_cpu, out);
	return w != NULL;
}
