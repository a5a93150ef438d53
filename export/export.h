/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the exporter's loop (loop/main.c) and the processes that it works for. Samples,
 * names and counters of each process come through its sp_core_ops; processes come and go by
 * sp_export_family. exporter/ implements both on the regions that hosts share with us, and unit
 * tests by a double. All of it is called with the exporter's turn (util/turn.h), by either of its two threads. The
 * first argument of each function is the arg beside it.
 */
#ifndef SP_EXPORT_H
#define SP_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/config/config.h"
#include "sampler/region/record.h"
#include "sampler/region/sdk_texts.h"
#include "sampler/region/thread_labels.h"

/* Bits returned by sp_core_ops.news */
#define SP_WAIT_FLUSH                                                                              \
	1U              /* the host is about to end or exec, or has: queue what there is, or send it
                            within the time flush_left_ms() gives, then call flushed() */
#define SP_WAIT_STOP 2U /* the host has ended: nothing more will come */
#define SP_WAIT_END                                                                                \
	4U /* the exporter has to end with this process: with SP_WAIT_FLUSH, and for
                            all processes, within the time of this one */
#define SP_WAIT_RESTS                                                                              \
	8U /* alone: the host has done nothing since the last call, so what was empty
                            then is empty now */

/* Facts about the host for the status file. */
#define SP_CORE_SDKS_MAX 8U
#define SP_CORE_FACTS_MAX 16U
struct sp_core_facts {
	bool sampling;     /* false: it has stopped, the log says why */
	int signal_number; /* in use for sampling */
	uint32_t threads_armed;
	uint32_t threads_unarmed; /* of the host, by the last scan */
	/* of these, now: */
	uint32_t threads_limit;   /* half of RLIMIT_SIGPENDING is in use */
	uint32_t threads_refused; /* by the kernel */
	uint32_t spans_open;
	const char *thread_context; /* who publishes it, in a word of spanprof(7); NULL = unknown */
	unsigned sdks;              /* SDKs with recorded spans, or that were not understood */
	struct {
		const char *name;
		const char *method;
		/* of the first instance; "" = unknown */
		char object[SP_SDK_OBJECT_MAX];
		char release[SP_SDK_RELEASE_MAX];
		uint32_t instances;
		uint64_t spans_started;
		unsigned unknowns; /* facts of it that proved wrong, and what happens instead */
		struct {
			const char *fact;
			const char *instead;
			bool is_harmless; /* there is another way to the same */
			bool is_limit;    /* of ours, whatever the release */
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
	 * behind it mean (struct sp_module_event).
	 */
	unsigned (*drain)(void *self, void (*put)(const struct sp_record *record, void *arg),
			  void *arg, unsigned max);

	/*
	 * The same for samples whose stack is not yet walked (unwind_snapshot.h). *is_all: all that were begun before
	 * the call have been handed out. One that is not complete yet hides those behind it.
	 */
	unsigned (*drain_snapshots)(void *self, void (*put)(const struct sp_snapshot *s, void *arg),
				    void *arg, unsigned max, bool *is_all);

	/* All objects are announced again from now on. */
	void (*repeat_events)(void *self);

	/* Text of a span name id (names.h). Valid until exit. */
	const char *(*span_name_text)(void *self, uint32_t id, size_t *len);

	uint64_t (*counter_read)(void *self, enum sp_counter c);
	void (*counter_add)(void *self, enum sp_counter c, uint64_t n);

	void (*facts)(void *self, struct sp_core_facts *out);

	/*
	 * The labels of the host's threads. The host writes them; what its threads waited for is written there
	 * for the host to read. *places: for how many threads there is room. NULL = it shows none, or nothing of
	 * it may be read now.
	 */
	struct sp_thread_labels_part *(*thread_labels)(void *self, uint32_t *places);

	/* Asks the host to give us leave to look at its waiting threads, as Yama wants it. */
	void (*ask_tracer)(void *self);

	/* True until the host has done what ask_tracer() asked for. */
	bool (*is_tracer_asked)(void *self);

	/* The name of a thread of the host; all NUL if it is gone. */
	void (*thread_name)(void *self, uint32_t tid, char name[SP_THREAD_NAME_BYTES]);

	/*
	 * To be asked immediately before anything is opened that the host has named, or sent for it, by the thread
	 * that does so, as rights are each thread's own. False: we have more rights than it has, and cannot give them
	 * up. It is not served any more then, as news() tells.
	 */
	bool (*may_open)(void *self);

	/* The message is complete, without prefix or newline. */
	void (*log)(void *self, enum sp_log_level level, const char *message);

	/*
	 * Checks the host: SP_WAIT_ bits for what it asks for, or 0. Never waits. To be called when
	 * due_ns() has passed, by CLOCK_MONOTONIC; drain after each call.
	 */
	unsigned (*news)(void *self);
	uint64_t (*due_ns)(
		void *self); /* cheap; 0 = the host has asked for something, or has ended */

	/*
	 * Milliseconds left of the flush in progress; 0 = no flush is in progress, or its time is
	 * over. A transfer polls this together with flush_pending().
	 */
	uint32_t (*flush_left_ms)(void *self);

	/* 1 while a flush or stop was asked for and not yet answered. */
	int (*flush_pending)(void *self);

	/* Answers SP_WAIT_FLUSH, so that the host goes on. */
	void (*flushed)(void *self);
};

/* The processes of an exporter: the one that has started it, and those that joined it later. */
struct sp_export_family {
	void *arg;
	bool ends_process; /* after the run, which then leaves threads and memory to the kernel */

	/*
	 * Sleeps up to timeout_ms, or until a process has news, a new one has come, or wake() was called; the turn is
	 * given away meanwhile.
	 */
	void (*wait)(void *self, uint32_t timeout_ms);
	void (*wake)(void *self);

	/*
	 * A process that has come and is to be served from now on; valid until left(). NULL = none.
	 */
	const struct sp_core_ops *(*next)(void *self);

	/*
	 * The process has ended, and a profile of it is still queued: only its counters and facts
	 * are used.
	 */
	void (*ended)(void *self, const struct sp_core_ops *ops);

	/*
	 * Nothing more is done for the process. error is a negative errno if it was never served.
	 */
	void (*left)(void *self, const struct sp_core_ops *ops, int error);

	/*
	 * Called when no process is served: whether one may still come. Once false, it stays false.
	 */
	bool (*open)(void *self);
};

/*
 * Runs until all processes have ended and none may come. There must be one at the beginning, and
 * its configuration applies to all. 0, or a negative errno if nothing can be sent: -ENOMEM, or
 * -EINVAL for an unusable address.
 */
int sp_export_run(const struct sp_export_family *family);

#endif
