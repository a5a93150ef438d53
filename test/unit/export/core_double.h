/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core for the exporter: records come from a list, news() follows a script, and the test can read logs and
 * counters. One per process, because Criterion runs each test in its own.
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
	struct sp_core_cpu cpu;
	char log[CORE_LOG_BYTES]; /* all messages, one per line */
	struct sp_record record[CORE_RECORDS];
	unsigned records;                   /* records still in the ring */
	const struct sp_snapshot *snapshot; /* the snapshot still in its ring, or NULL */
	/* the snapshot is behind one that is not complete yet */
	bool is_stalled;
	unsigned drained;
	unsigned events_wanted;   /* how often the exporter asked for all objects */
	bool has_no_frame_tables; /* the exporter's last tell_frame_tables() */
	const char *label[8];     /* text of label id 1, 2, ... */
	uint32_t flush_left;
	uint32_t flush_step; /* subtracted from flush_left each time the exporter asks for it */
	bool pending;
	unsigned flushed;
	/* The result of news(); call is the number of earlier calls. */
	unsigned (*script)(unsigned call);
	unsigned asked;      /* how often news() was called */
	uint64_t due_ns;     /* 0 = always due */
	bool is_barred;      /* may_open() refuses */
	int64_t confined_ns; /* the host has confined itself at that moment */
	/* NULL = the host does not say how long roots last */
	struct sp_root_durations *roots;
	unsigned opened; /* calls of may_open() */
	bool has_come;   /* the family has returned it */
};

extern struct core_double core;

/* A family that has only the double, once, and waits 0.1 ms. A test that needs something else changes a copy. */
extern const struct sp_export_family core_family;

/* Resets everything to the defaults: no records, no sinks, news() returns SP_WAIT_STOP at once. */
void core_reset(void);

/* Adds a sample with the given frames (NULL-terminated list of addresses, leaf first). */
struct sp_sample *core_sample(uint64_t span_id, uint32_t name_id, ...);

/* Adds CPU time that no sample stands for, of a thread that began in start. */
struct sp_cpu_time *core_cpu_time(uint64_t span_id, const void *start, uint64_t ns);

bool core_logged(const char *part);

#endif
