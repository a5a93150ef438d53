/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting time of the threads of one process that have a span, by looks at random instants. No signal, no stop.
 *
 * Context: the exporter, one thread. What the host writes is believed only as far as it can do no harm: it may
 * make numbers wrong that are its own.
 */
#ifndef SP_OFF_CPU_H
#define SP_OFF_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/objects/unwind_snapshot.h"
#include "export/off_cpu/task.h"
#include "sampler/region/thread_labels.h"

/* Between two looks at a thread, on the average, as long as there are few. */
#define SP_OFF_CPU_PERIOD_NS (20 * SP_NS_PER_MS)

/* Of more threads than this a deadlock is not told. */
#define SP_DEADLOCK_MAX 8U

/* What a look has found, and the time that it stands for. Pointers are valid during the call. */
struct sp_wait {
	const struct sp_thread_label *label;
	uint32_t tid;
	const char *leaf;   /* what it waited in and for; any bytes */
	const uint64_t *pc; /* the stack below, as in a sample */
	uint32_t epoch;
	uint16_t depth;
	uint16_t flags;
	uint64_t ns;
	/* In which span the lock is held that it waits for, and where that thread waits; NULL = nothing is known. */
	const struct sp_thread_label *owner;
	const uint64_t *owner_pc;
	uint16_t owner_depth; /* 0 = it runs, or may not be seen */
};

/* What there is to be seen of the host's threads. Tests have a kernel of their own. */
struct sp_off_cpu_kernel {
	uint64_t (*now_ns)(void *arg);
	uint64_t (*cpu_ns)(void *arg); /* of the calling thread */
	/* False: the thread has ended. */
	bool (*times)(void *arg, struct sp_task_file *file, uint32_t tid,
		      struct sp_task_times *out);
	/* 0; -ESRCH: the thread has ended; other negative errno: this time it is not known. */
	int (*place)(void *arg, uint32_t tid, struct sp_task_place *out);
	/* As sp_wait_stacks_walk(). */
	int (*walk)(void *arg, uint32_t tid, const struct sp_task_place *place,
		    struct sp_sample *s);
	/* As sp_wait_stacks_read(). */
	bool (*memory)(void *arg, uint32_t tid, uint64_t at, void *out, size_t bytes);
	void *arg;
	uint64_t seed; /* of the moments of looks */
};

struct sp_off_cpu_hooks {
	void (*put)(void *arg, const struct sp_wait *w);
	/* A stack will be walked that has this pc: the objects are to be known. The epoch of what follows. */
	uint32_t (*prepare)(void *arg, uint64_t pc);
	/*
	 * Each of these threads waits for a lock that the next one holds, and the last one for the first one's. False:
	 * the next look that finds it shall tell it again.
	 */
	bool (*deadlock)(void *arg, const struct sp_wait *thread, unsigned n);
	/* Who is blocked at this pc may wait for a lock of glibc. */
	bool (*may_be_lock)(void *arg, uint64_t pc);
	void *arg;
	const struct sp_off_cpu_kernel *kernel; /* NULL = that of this machine */
};

struct sp_off_cpu_news {
	uint32_t threads;    /* that had a span at the last looks; of some thousands an estimate */
	uint64_t ns;         /* put so far */
	const char *refusal; /* why stacks are missing; NULL = they are not */
};

struct sp_off_cpu;

/* NULL when out of memory. What is passed must outlive it; hooks are copied. */
struct sp_off_cpu *sp_off_cpu_new(const struct sp_core_ops *ops, struct sp_unwinder *unwinder,
				  const struct sp_off_cpu_hooks *hooks);
void sp_off_cpu_free(struct sp_off_cpu *o);

/* Looks if it is time to. */
void sp_off_cpu_run(struct sp_off_cpu *o);

/* When sp_off_cpu_run() has something to do. */
uint64_t sp_off_cpu_due_ns(const struct sp_off_cpu *o);

void sp_off_cpu_news(const struct sp_off_cpu *o, struct sp_off_cpu_news *out);

#endif
