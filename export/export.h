/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door between the exporter's loop and the processes that it works for. Samples, names and counters
 * of each come through its sp_core_ops, and processes come and go by sp_export_family; exporter/
 * implements both on the regions that hosts share with us, and tests by a double. One thread, but for
 * what says otherwise. The first argument of each function is the arg beside it.
 */
#ifndef SP_EXPORT_H
#define SP_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/config.h"
#include "sampler/counters.h"
#include "sampler/log.h"
#include "sampler/record.h"
#include "sampler/snapshot.h"

/* Bits returned by sp_core_ops.news */
#define SP_WAIT_FLUSH                                                                              \
	1U              /* the host is about to end or exec, or has: queue what there is, or send it
                            within the time flush_left_ms() gives, then call flushed() */
#define SP_WAIT_STOP 2U /* the host has ended: nothing more will come */
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
	void *arg;
	const struct sp_config *config; /* constant, valid until exit */
	uint32_t pid;                   /* the host's */
	const char *proc;               /* the host's folder in /proc */
	int maps; /* its memory map, open, for where the folder's may not be read; or -1 */
	const char *version; /* "0.1.0" */

	/*
	 * Calls put for each record in the ring, at most max, and removes it. The record is only valid
	 * during the call. Returns how many there were. A module event tells which object the samples
	 * behind it mean (module_event.h).
	 */
	unsigned (*drain)(void *self, void (*put)(const struct sp_record *record, void *arg),
			  void *arg, unsigned max);

	/* The same for samples whose stack is still to be walked (unwind_snapshot.h). */
	unsigned (*drain_snapshots)(void *self, void (*put)(const struct sp_snapshot *s, void *arg),
				    void *arg, unsigned max);

	/* Objects are told of once; from now on all are told of again. */
	void (*repeat_events)(void *self);

	/* Text of a span name id (names.h). Valid until exit. */
	const char *(*span_name_text)(void *self, uint32_t id, size_t *len);

	uint64_t (*counter_read)(void *self, enum sp_counter c);
	void (*counter_add)(void *self, enum sp_counter c, uint64_t n);

	void (*facts)(void *self, struct sp_core_facts *out);

	/* The name of a thread of the host; all NUL if it is gone. */
	void (*thread_name)(void *self, uint32_t tid, char name[SP_THREAD_NAME_BYTES]);

	/* The message is complete, without prefix or newline. */
	void (*log)(void *self, enum sp_log_level level, const char *message);

	/*
	 * Looks after the host: SP_WAIT_ bits for what it asks for, or 0. Never waits. Call it at least
	 * once a second and drain after each return.
	 */
	unsigned (*news)(void *self);

	/* Milliseconds left of the flush in progress; 0 = no flush in progress or out of time. A
	 * transfer in progress polls it together with flush_pending(). */
	uint32_t (*flush_left_ms)(void *self);

	/* 1 while a flush or stop was asked for and not yet answered. */
	int (*flush_pending)(void *self);

	/* Answers SP_WAIT_FLUSH; the host's end goes on. */
	void (*flushed)(void *self);
};

/* The processes of an exporter: the one that has started it, and those that have joined it since. */
struct sp_export_family {
	void *arg;

	/* Sleeps up to timeout_ms, or until a process has news or a new one has come. */
	void (*wait)(void *self, uint32_t timeout_ms);

	/* One that has come, to be served from now on; valid until left(). NULL = there is none. */
	const struct sp_core_ops *(*next)(void *self);

	/* It has ended, and something of it is queued: its counters and facts alone are asked for. */
	void (*ended)(void *self, const struct sp_core_ops *ops);

	/* No more is done for it; error is a negative errno if it never was served, as without memory. */
	void (*left)(void *self, const struct sp_core_ops *ops, int error);

	/* Asked when nobody is served: whether somebody may come. Once false, nobody can. */
	bool (*open)(void *self);
};

/*
 * Runs until all processes have ended and nobody may come. There must be one at the beginning, and its
 * configuration is that of all. 0, or a negative errno when nothing could be sent from the start: -ENOMEM,
 * or -EINVAL for an address that cannot be used.
 */
int sp_export_run(const struct sp_export_family *family);

#endif
