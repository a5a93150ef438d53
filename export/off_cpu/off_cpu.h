/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting time of the threads of one process that have a span. 50 times a second each of them is looked at: its
 * clocks tell how long it was not on a processor, and how much of that it waited for one; where it stands
 * still, the kernel tells in which system call. No signal, no stop.
 *
 * The time is exact, whatever is seen: what a thread did not compute is put somewhere. Time that cannot be put
 * to a stack waits for the thread's next wait in the same span, and becomes "[unseen waits]" when the span
 * ends before that.
 *
 * Context: the exporter, one thread. What the host writes is believed only as far as it can do no harm: it may
 * make numbers wrong that are its own.
 */
#ifndef SP_OFF_CPU_H
#define SP_OFF_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/objects/unwind_snapshot.h"
#include "sampler/region/thread_labels.h"

#define SP_OFF_CPU_PERIOD_NS (20 * SP_NS_PER_MS)

/* Some time of a wait. Pointers are valid during the call. */
struct sp_wait {
	const struct sp_thread_label *label; /* all 0 = none */
	uint32_t tid;
	const char *leaf;   /* what it waited in and for; any bytes */
	const uint64_t *pc; /* the stack below, as in a sample */
	uint32_t epoch;
	uint16_t depth;
	uint16_t flags;
	bool begins; /* a new wait, or more of the last one */
	uint64_t ns;
};

struct sp_off_cpu_hooks {
	void (*put)(void *arg, const struct sp_wait *w);
	/* A stack will be walked that has this pc: the objects are to be known. The epoch of what follows. */
	uint32_t (*prepare)(void *arg, uint64_t pc);
	void *arg;
};

struct sp_off_cpu_news {
	uint32_t threads;    /* that had a span at the last look */
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

/* Looks at all threads, as a profile is about to end. */
void sp_off_cpu_settle(struct sp_off_cpu *o);

/* Milliseconds until sp_off_cpu_run() has something to do. */
uint64_t sp_off_cpu_due_ns(const struct sp_off_cpu *o);

void sp_off_cpu_news(const struct sp_off_cpu *o, struct sp_off_cpu_news *out);

#endif
