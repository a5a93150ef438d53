/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door between the exporter's loop and what it works for: samples, names, counters and waits come
 * through sp_core_ops, which exporter/ implements on the region that a host shares with us, and tests by
 * a double. One thread, but for what says otherwise.
 */
#ifndef SP_EXPORT_H
#define SP_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/config.h"
#include "sampler/counters.h"
#include "sampler/log.h"
#include "sampler/sample.h"
#include "sampler/sighting.h"
#include "sampler/snapshot.h"

/* Bits returned by sp_core_ops.wait */
#define SP_WAIT_FLUSH                                                                              \
	1U              /* the host is about to end or exec, or has: send what there is, within the
                            time flush_left_ms() gives, then call flushed() */
#define SP_WAIT_STOP 2U /* return from sp_export_run as soon as possible */
/* What only the core knows, for the status file. */
#define SP_CORE_SDKS_MAX 8U
#define SP_CORE_FACTS_MAX 16U
struct sp_core_facts {
	bool sampling;     /* false: it was given up, the log says why */
	int signal_number; /* in use for sampling */
	uint32_t threads_armed;
	uint32_t threads_unarmed; /* of the host, by the last scan */
	/* of these, now: */
	uint32_t threads_blocking; /* they block our signal */
	uint32_t threads_limit;    /* half of RLIMIT_SIGPENDING is in use */
	uint32_t threads_refused;  /* by the kernel */
	uint32_t spans_open;
	unsigned sdks; /* those with recorded spans, and those not understood */
	struct {
		const char *name;
		const char *method;
		uint64_t spans_started;
		unsigned unknowns; /* what of it is not understood, and what happens instead */
		struct {
			const char *fact;
			const char *instead;
		} unknown[SP_CORE_FACTS_MAX];
	} sdk[SP_CORE_SDKS_MAX];
};

struct sp_core_ops {
	const struct sp_config *config; /* constant, valid until exit */
	uint32_t pid;                   /* the host's */
	const char *proc;               /* the host\'s folder in /proc */
	int maps; /* its memory map, open, for where the folder\'s may not be read; or -1 */
	const char *version; /* "0.1.0" */

	/*
	 * Calls put for each sample in the ring, at most max, and removes it. The sample is only
	 * valid during the call. Returns how many there were. A record with SP_SAMPLE_OBJECT tells
	 * which object the samples behind it mean (sighting.h).
	 */
	unsigned (*drain)(void (*put)(const struct sp_sample *s, void *arg), void *arg,
			  unsigned max);

	/* The same for samples whose stack is still to be walked (unwind_snapshot.h). */
	unsigned (*drain_snapshots)(void (*put)(const struct sp_snapshot *s, void *arg), void *arg,
				    unsigned max);

	/* Objects are told of once; from now on all are told of again. */
	void (*sight_again)(void);

	/* Text of a span name id (label.h). Valid until exit. */
	const char *(*label_text)(uint32_t id, size_t *len);

	uint64_t (*counter_read)(enum sp_counter c);
	void (*counter_add)(enum sp_counter c, uint64_t n); /* any thread of the exporter */

	void (*facts)(struct sp_core_facts *out);

	/* The name of a thread of the host; all NUL if it is gone. */
	void (*thread_name)(uint32_t tid, char name[SP_THREAD_NAME_BYTES]);

	/* The message is complete, without prefix or newline. */
	void (*log)(enum sp_log_level level, const char *message);

	/*
	 * Looks after the host and sleeps up to timeout_ms or until a flush or stop is asked for. Returns
	 * SP_WAIT_ bits, 0 on time-out. Call it at least once a second and drain after each return.
	 */
	unsigned (*wait)(uint32_t timeout_ms);

	/* Milliseconds left of the flush in progress; 0 = no flush in progress or out of time. A
	 * transfer in progress polls it together with flush_pending(). Any thread. */
	uint32_t (*flush_left_ms)(void);

	/* 1 while a flush or stop was asked for and not yet answered. Any thread. */
	int (*flush_pending)(void);

	/* Answers SP_WAIT_FLUSH; the host's end goes on. */
	void (*flushed)(void);
};

/*
 * Runs until told to stop. 0, or a negative errno when it could not start: -ENOMEM, -EINVAL for an
 * address that cannot be used, -EIO for libcurl.
 */
int sp_export_run(const struct sp_core_ops *ops);

#endif
