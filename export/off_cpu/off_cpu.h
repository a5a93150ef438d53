/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how long those threads of one process wait that have had a span, by looking at them at random moments.
 * The threads get no signal and are not stopped.
 *
 * Context: the exporter, one thread. Data that the host writes can make only the host's own numbers wrong.
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

/* The average time between two looks at a thread, as long as there are few threads. */
#define SP_OFF_CPU_PERIOD_NS (20 * SP_NS_PER_MS)

/* A deadlock of more threads than this is not reported. */
#define SP_DEADLOCK_MAX 8U

/* What a look has found, and how much time it stands for. Pointers are valid during the call. */
struct sp_wait {
	const struct sp_thread_label *label;
	uint32_t tid;
	const char *leaf;   /* the system call and what it waits for; may contain any bytes */
	const uint64_t *pc; /* the stack below, as in a sample */
	uint32_t epoch;
	uint16_t depth;
	uint16_t flags;
	uint64_t ns;
	uint64_t at_ns; /* when the look was, by CLOCK_MONOTONIC */
	/* The span of the thread that holds the lock, and where that thread waits; NULL = unknown. */
	const struct sp_thread_label *owner;
	const uint64_t *owner_pc;
	uint16_t owner_depth; /* 0 = it runs, or its stack may not be seen */
};

/* The questions about the host's threads that the kernel answers. Unit tests answer them themselves. */
struct sp_off_cpu_kernel {
	uint64_t (*now_ns)(void *arg);
	uint64_t (*cpu_ns)(void *arg); /* of the calling thread */
	/* False: the thread has ended. */
	bool (*times)(void *arg, struct sp_task_file *file, uint32_t tid,
		      struct sp_task_times *out);
	/* 0; -ESRCH: the thread has ended; other negative errno: unknown this time. */
	int (*place)(void *arg, uint32_t tid, struct sp_task_place *out);
	/* As sp_wait_stacks_walk(). */
	int (*walk)(void *arg, uint32_t tid, const struct sp_task_place *place,
		    struct sp_sample *s);
	/* As sp_wait_stacks_read(). */
	bool (*memory)(void *arg, uint32_t tid, uint64_t at, void *out, size_t bytes);
	void *arg;
	uint64_t seed; /* for the moments of looks */
};

struct sp_off_cpu_hooks {
	void (*put)(void *arg, const struct sp_wait *w);
	/* A stack with this pc will be walked: reads the objects of the host. Returns the epoch of the walk. */
	uint32_t (*prepare)(void *arg, uint64_t pc);
	/*
	 * Each thread[i] waits for a lock of thread[i + 1], and the last thread for a lock of the first. Returns
	 * false if the next look is to call this again.
	 */
	bool (*deadlock)(void *arg, const struct sp_wait *thread, unsigned n);
	/* Whether a thread that is blocked at this pc may wait for a lock of glibc. */
	bool (*may_be_lock)(void *arg, uint64_t pc);
	void *arg;
	const struct sp_off_cpu_kernel *kernel; /* NULL = the kernel of this machine */
};

struct sp_off_cpu_results {
	uint32_t threads;    /* with a span at the last looks; an estimate if there are thousands */
	uint64_t ns;         /* put so far */
	const char *refusal; /* why stacks are missing; NULL = none is missing */
};

struct sp_off_cpu;

/* NULL when out of memory. ops and unwinder must outlive the result; hooks are copied. */
struct sp_off_cpu *sp_off_cpu_new(const struct sp_core_ops *ops, struct sp_unwinder *unwinder,
				  const struct sp_off_cpu_hooks *hooks);
void sp_off_cpu_free(struct sp_off_cpu *o);

/* Makes a round of looks if one is due. */
void sp_off_cpu_run(struct sp_off_cpu *o);

/* When the next round is due. */
uint64_t sp_off_cpu_due_ns(const struct sp_off_cpu *o);

void sp_off_cpu_results(const struct sp_off_cpu *o, struct sp_off_cpu_results *out);

#endif
