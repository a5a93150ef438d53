/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core for the exporter to talk to: records are put into a list, news() follows a script, logs
 * and counters are kept for the test to look at. One per process, as Criterion runs each test in
 * its own.
 */
#ifndef SP_CORE_DOUBLE_H
#define SP_CORE_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"

#define CORE_RECORDS 64
#define CORE_LOG_BYTES 16384

struct core_double {
	struct sp_core_ops ops;
	struct sp_config config;
	uint64_t counter[SP_COUNTER_N];
	struct sp_core_facts facts;
	char log[CORE_LOG_BYTES]; /* all messages, one per line */
	struct sp_record record[CORE_RECORDS];
	unsigned records;                   /* still in the ring */
	const struct sp_snapshot *snapshot; /* still in its ring, or NULL */
	bool is_stalled;                    /* it is behind one that is not complete yet */
	unsigned drained;
	unsigned events_wanted; /* how often all objects were to be told of again */
	const char *label[8];   /* text of label id 1, 2, ... */
	uint32_t flush_left;
	uint32_t flush_step; /* taken off flush_left each time it is asked for */
	bool pending;
	unsigned flushed;
	/* What news() returns; called with how often it was called before. */
	unsigned (*script)(unsigned call);
	unsigned asked;  /* how often news() was called */
	uint64_t due_ns; /* 0 = there is always something to be asked for */
	bool is_barred;  /* it has become somebody else */
	unsigned opened; /* how often somebody was about to open something */
	bool has_come;   /* the family has given it */
};

extern struct core_double core;

/* A family of the double alone, once, that waits for 0.1 ms. Who wants something else of it takes a copy. */
extern const struct sp_export_family core_family;

/* Everything back to the defaults: no records, no sinks, news() says stop at once. */
void core_reset(void);

/* Adds a sample with the given frames (NULL-terminated list of addresses, leaf first). */
struct sp_sample *core_sample(uint64_t span_id, uint32_t name_id, ...);

/* Adds CPU time that no sample stands for, of a thread that begins in start. */
struct sp_cpu_time *core_cpu_time(uint64_t span_id, const void *start, uint64_t ns);

bool core_logged(const char *part);

#endif
