/* SPDX-License-Identifier: Apache-2.0 */
/* Context: the exporter. */
#include "export/loop/waits.h"

#include <stdlib.h>
#include <string.h>

#include "export/util/log.h"

struct sp_waits {
	struct sp_waits_env env;
	struct sp_off_cpu *off_cpu;
	struct sp_stack_map *map;
	struct sp_bounded_names *names;
	struct sp_interval_thread deadlock[SP_DEADLOCK_MAX];
	unsigned deadlocked; /* in this interval; 0 = none */
	uint64_t pc[SP_FRAMES_MAX];
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

/* The index comes from the host's memory, where any number may be. */
static uint32_t name_of(const struct sp_thread_label *label)
{
	return label->name_id < SP_STACK_OWNER_UNNAMED ? label->name_id : 0;
}

/* The function in which a thread waits: not the function of the C library, but its caller. */
static uint64_t function_of(const struct sp_waits *w, const uint64_t *pc, unsigned depth)
{
	const struct sp_host_objects *host = sp_modules_host(w->env.modules);
	const struct sp_host_object *leaf = sp_host_objects_find(host, pc[0]);

	for (unsigned i = 1; i < depth; i++)
		if (sp_host_objects_find(host, pc[i]) != leaf)
			return pc[i];
	return pc[0];
}

static void put_owner(struct sp_waits *w, const struct sp_wait *wait,
		      struct sp_stack_labels *labels, struct sp_stack *stack)
{
	labels->blocked_by_span_id = wait->owner->span_id;
	stack->owner = name_of(wait->owner) != 0 ? name_of(wait->owner) : SP_STACK_OWNER_UNNAMED;
	if (wait->owner_depth == 0)
		return;
	if (stack->depth == SP_FRAMES_MAX) {
		stack->depth--;
		stack->flags |= SP_SAMPLE_TRUNCATED;
	}
	w->pc[0] = function_of(w, wait->owner_pc, wait->owner_depth);
	if (stack->depth != 0)
		memcpy(w->pc + 1, stack->pc, stack->depth * sizeof(w->pc[0]));
	stack->pc = w->pc;
	stack->depth++;
	stack->has_owner_pc = true;
}

static void put(void *arg, const struct sp_wait *wait)
{
	struct sp_waits *w = arg;
	struct sp_stack_labels labels = {
		.span_id = wait->label->span_id,
		.root_id = wait->label->root_id,
		.name_id = name_of(wait->label),
		.thread = thread_of(w, wait->tid),
	};
	struct sp_stack_wait entry = {
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
	if (wait->owner != NULL)
		put_owner(w, wait, &labels, &entry.stack);
	w->env.ops->counter_add(w->env.ops->arg, SP_COUNT_WAITS, 1);
	sp_stack_loss_count(w->env.ops, sp_stack_map_put_wait(w->map, &entry));
	if (w->env.ops->config->slow != NULL &&
	    !sp_stack_map_put_time(w->map, &(struct sp_stack_time){.monotonic_ns = wait->at_ns,
								   .ns = wait->ns,
								   .tid = wait->tid}))
		w->env.ops->counter_add(w->env.ops->arg, SP_COUNT_TIMES_OVER, 1);
}

/* True = the deadlock is taken. Without room here it is in the next interval. */
static bool take_deadlock(void *arg, const struct sp_wait *thread, unsigned n)
{
	struct sp_waits *w = arg;
	const struct sp_core_ops *ops = w->env.ops;

	if (w->deadlocked != 0)
		return false;
	for (unsigned i = 0; i < n; i++) {
		struct sp_interval_thread *t = &w->deadlock[i];

		*t = (struct sp_interval_thread){
			.tid = thread[i].tid,
			.name_id = name_of(thread[i].label),
			.epoch = thread[i].epoch,
			.pc = thread[i].depth != 0 ? function_of(w, thread[i].pc, thread[i].depth)
						   : 0,
		};
		ops->thread_name(ops->arg, t->tid, t->name);
	}
	w->deadlocked = n;
	return true;
}

/*
 * Reads the mappings if `pc` is in no object that we know: that takes the host's mmap lock. Code
 * without an object, because its file is gone or there never was one, is asked for once.
 */
static uint32_t prepare(void *arg, uint64_t pc)
{
	struct sp_waits *w = arg;
	const struct sp_host_objects *host = sp_modules_host(w->env.modules);

	if (sp_host_objects_map(host, pc) == NULL && sp_host_objects_due(host) &&
	    w->env.ops->may_open(w->env.ops->arg) && w->env.ops->confined_ns(w->env.ops->arg) == 0)
		(void)sp_modules_refresh(w->env.modules);
	return sp_modules_epoch(w->env.modules);
}

/*
 * Whether the code at pc may be a lock of glibc. The code of glibc's function syscall() is no lock:
 * programs wait for words of their own by it. It is known by the instruction before the system
 * call, which loads the sixth argument of the system call; syscall() got it as its seventh.
 */
static bool may_be_lock(void *arg, uint64_t pc)
{
#if defined(__x86_64__)
	/* mov 8(%rsp),%r9; syscall */
	static const uint8_t by_syscall[] = {0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05};
#else
	/* mov x6, x7; svc #0 */
	static const uint8_t by_syscall[] = {0xe6, 0x03, 0x07, 0xaa, 0x01, 0x00, 0x00, 0xd4};
#endif
	static const char *const names[] = {"libc.so.6", "libc-2.", "libpthread.so.0",
					    "libpthread-2."};
	struct sp_waits *w = arg;
	struct sp_host_objects *host = sp_modules_host(w->env.modules);
	const struct sp_host_object *object = sp_host_objects_find(host, pc);
	uint8_t code[sizeof(by_syscall)];
	const char *name;
	bool is_glibc = false;

	if (object == NULL || object->file->mapped == NULL)
		return false;
	name = sp_text_file_name(object->file->mapped);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		is_glibc = is_glibc || strncmp(name, names[i], strlen(names[i])) == 0;
	return is_glibc && sp_host_objects_read(host, pc - sizeof(code), code, sizeof(code)) &&
	       memcmp(code, by_syscall, sizeof(code)) != 0;
}

struct sp_waits *sp_waits_new(const struct sp_waits_env *env)
{
	struct sp_waits *w = calloc(1, sizeof(*w));
	const struct sp_off_cpu_hooks hooks = {.put = put,
					       .prepare = prepare,
					       .may_be_lock = may_be_lock,
					       .deadlock = take_deadlock,
					       .arg = w};

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
	if (w == NULL)
		return;
	sp_stack_map_clear(w->map);
	sp_wait_names_clear(w->names);
	w->deadlocked = 0;
}

bool sp_waits_take(struct sp_waits *w, struct sp_interval_parts *parts)
{
	struct sp_stack_map *empty = w != NULL ? sp_stack_map_new(&sp_stack_limits_default) : NULL;

	if (empty == NULL)
		return w == NULL;
	parts->map[SP_MAP_WAITS] = w->map;
	parts->wait_names = w->names;
	parts->deadlock = w->deadlock;
	parts->deadlocked = w->deadlocked;
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

bool sp_waits_results(const struct sp_waits *w, struct sp_off_cpu_results *out)
{
	if (w != NULL)
		sp_off_cpu_results(w->off_cpu, out);
	return w != NULL;
}
