/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the exporter's loop (loop/main.c) and the processes that it works for. Samples, names and
 * counters of each process come through its sp_core_ops; processes come and go by sp_export_family. exporter/
 * implements both on the regions that hosts share with us, and unit tests by a double. Both threads of the exporter
 * call these functions, each while it has the turn (util/turn.h). The first argument of each function is the arg
 * beside it.
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
#include "sampler/region/region.h"
#include "sampler/region/root_durations.h"
#include "sampler/region/sdk_texts.h"
#include "sampler/region/thread_labels.h"

/* Bits returned by sp_core_ops.news */
#define SP_WAIT_FLUSH                                                                              \
	1U              /* the host is about to end or exec, or has done so: queue the profiles, or
                            send them within the time that flush_left_ms() gives, then call
                            flushed() */
#define SP_WAIT_STOP 2U /* the host has ended: nothing more will come */
#define SP_WAIT_END                                                                                \
	4U /* the exporter has to end with this process: as SP_WAIT_FLUSH, but for all processes,
                            within this one's time */
#define SP_WAIT_RESTS                                                                              \
	8U /* alone: the host has done nothing since the last call, so rings that were empty still
                            are */

/* Facts about the host for the status file. */
#define SP_CORE_SDKS_MAX 8U
#define SP_CORE_FACTS_MAX 16U
/*
 * The exporter sends this signal to a thread of the host, which then looks for threads that we do not know. It is
 * always glibc's SIGSETXID, whatever the region says: another signal may be the program's.
 */
#define SP_ROUSING_SIGNAL 33

struct sp_core_facts {
	bool sampling;     /* false: sampling has stopped, the log says why */
	int signal_number; /* the signal that samples */
	uint32_t threads_armed;
	uint32_t threads_unarmed; /* threads of the host without a timer, by the last scan */
	/* Reasons of threads without a timer, as of now: */
	uint32_t threads_limit;   /* half of RLIMIT_SIGPENDING is in use */
	uint32_t threads_refused; /* the kernel refused a timer */
	uint32_t
		threads_unseen; /* threads of the host that use CPU time, and that no hook and no signal of ours
                                 * has met */
	uint32_t spans_open;
	const char *
		confined; /* how the host has confined itself since it was first served, as a sentence;
                           * NULL = it has not */
	/*
	 * Why there are no records of allocations: SP_ALLOCATIONS_ABSENT, SANITIZED or HIDDEN; otherwise no reason is
	 * known.
	 */
	enum sp_allocations_object allocations;
	const char *thread_context; /* who publishes it, in a word of spanprof(7); NULL = unknown */
	unsigned sdks;              /* SDKs that recorded spans, or that we did not understand */
	struct {
		const char *name;
		const char *method;
		/* The SDK's first instance; "" = unknown */
		char object[SP_SDK_OBJECT_MAX];
		char release[SP_SDK_RELEASE_MAX];
		char service[SP_SDK_SERVICE_MAX]; /* the name that the program has given it */
		uint32_t instances;
		uint64_t spans_started;
		/* assumptions about the SDK that proved wrong, and what the profiler does instead */
		unsigned unknowns;
		struct {
			const char *fact;
			const char *instead;
			bool is_harmless; /* another mechanism gives the same result */
			bool is_limit;    /* a limit of the profiler, whatever the SDK's release */
		} unknown[SP_CORE_FACTS_MAX];
	} sdk[SP_CORE_SDKS_MAX];
};

/* Why a process that the host started has no profile. */
enum sp_unprofiled {
	SP_UNPROFILED_NOT, /* it has a profile, or its state is not known */
	SP_UNPROFILED_ENVIRONMENT,
	SP_UNPROFILED_SECURE,
	SP_UNPROFILED_STATIC,
	SP_UNPROFILED_OTHER,
	SP_UNPROFILED_UNSEEN, /* it may have one */
};

/*
 * CPU time of the host and of the processes that it has started, as the kernel counted it at the last look_below().
 */
#define SP_PROGRAMS_MAX 8U
#define SP_PROGRAM_NAME 16U
struct sp_core_cpu {
	uint64_t own_ns;
	uint64_t before_ns;  /* the part before profiling began */
	uint64_t waited_ns;  /* of ended processes for which their parents have waited */
	uint64_t unknown_ns; /* the part of processes that no look_below() has seen and no exporter
                             * has served */
	bool is_cut_off;     /* it has ended without a message to us */
	bool is_live;        /* own_ns was read just now */
	unsigned programs;
	struct sp_core_program {
		char name[SP_PROGRAM_NAME]; /* any bytes, but it ends with a NUL */
		enum sp_unprofiled why;
		uint32_t processes;
		uint64_t ns;
	} program[SP_PROGRAMS_MAX];
};

struct sp_core_ops {
	void *arg;
	const struct sp_config *config; /* constant, valid until exit */
	uint32_t pid;                   /* the host's */
	const char *proc;               /* the folder of the host in /proc */
	/* the memory map of the host, open, if the one in `proc` may not be read; or -1 */
	int maps;
	const char *version; /* "0.1.0" */
	/* Where our own objects are mapped in the host; 0 = not there. */
	uint64_t own_object[SP_REGION_OBJECTS];

	/*
	 * Calls put for each record in the ring, for at most max records, and removes them. The record is only valid
	 * during the call. Returns the number of records. A module event says which object the addresses of the
	 * following samples belong to (struct sp_module_event).
	 */
	unsigned (*drain)(void *self, void (*put)(const struct sp_record *record, void *arg),
			  void *arg, unsigned max);

	/*
	 * The same for samples whose stack is not yet walked (unwind_snapshot.h). *is_all: every sample that was
	 * begun before this call has been handed out. A sample that is not complete yet hides the later ones.
	 */
	unsigned (*drain_snapshots)(void *self, void (*put)(const struct sp_snapshot *s, void *arg),
				    void *arg, unsigned max, bool *is_all);

	/* The host announces all its objects again from now on. */
	void (*repeat_events)(void *self);

	/*
	 * Says whether files of the host's objects have call frame information to which no table in the host's memory
	 * leads. As long as that is possible, the handler copies the stack of a sample in code without such a table.
	 * At first it is assumed.
	 */
	void (*tell_frame_tables)(void *self, bool are_there);

	/* Text of a span name id (names.h). Valid until exit. */
	const char *(*span_name_text)(void *self, uint32_t id, size_t *len);

	uint64_t (*counter_read)(void *self, enum sp_counter c);
	void (*counter_add)(void *self, enum sp_counter c, uint64_t n);

	void (*facts)(void *self, struct sp_core_facts *out);

	/* Reads which processes run below the host, as long as the host lives. Takes a few milliseconds of CPU time at most. */
	void (*look_below)(void *self);
	/* The results of look_below(). */
	void (*cpu)(void *self, struct sp_core_cpu *out);

	/*
	 * The labels of the host's threads. The host writes them. The exporter writes what the threads waited for,
	 * for the host to read. *places: the capacity, in threads. NULL = the host shows none, or the exporter may
	 * not read them now.
	 */
	struct sp_thread_labels_part *(*thread_labels)(void *self, uint32_t *places);

	/* How long the host's local roots last. NULL = it does not say, or nothing of it may be read now. */
	struct sp_root_durations *(*root_durations)(void *self);

	/* Asks the host for permission to trace its waiting threads, as Yama requires it. */
	void (*ask_tracer)(void *self);

	/* True until the host has answered ask_tracer(). */
	bool (*is_tracer_asked)(void *self);

	/* The name of a thread of the host; all NUL if it is gone. */
	void (*thread_name)(void *self, uint32_t tid, char name[SP_THREAD_NAME_BYTES]);

	/*
	 * Call this on the same thread immediately before a file is opened that the host has named, or before
	 * something is sent for the host: each thread has its own rights. False: we have more rights than the host,
	 * and cannot give them up. The host is not served any more then, and news() says so.
	 */
	bool (*may_open)(void *self);

	/*
	 * The moment (CLOCK_REALTIME) at which the last may_open() found that the host had confined itself; 0: the
	 * host has not. An attacker in the host may have written all later data. So nothing more of the host is read,
	 * and a file that may_open() allows is read only if it has not changed since that moment.
	 */
	int64_t (*confined_ns)(void *self);

	/* The message is complete, without prefix or newline. */
	void (*log)(void *self, enum sp_log_level level, const char *message);

	/*
	 * Returns the SP_WAIT_ bits of the host's requests, or 0. Never waits. Call it when due_ns() has passed, by
	 * CLOCK_MONOTONIC, and drain after each call.
	 */
	unsigned (*news)(void *self);
	uint64_t (*due_ns)(
		void *self); /* cheap; 0 = the host has requested something, or has ended */

	/*
	 * Milliseconds left of the flush in progress; 0 = no flush is in progress, or its time is over. A transfer
	 * polls this together with flush_pending().
	 */
	uint32_t (*flush_left_ms)(void *self);

	/* 1 from a request to flush or stop until its answer. */
	int (*flush_pending)(void *self);

	/* Answers SP_WAIT_FLUSH, so that the host goes on. */
	void (*flushed)(void *self);
};

/* The processes of an exporter: the process that started it, and the processes that joined it later. */
struct sp_export_family {
	void *arg;
	/* true: the process ends after the run, and leaves threads and memory to the kernel */
	bool ends_process;

	/*
	 * Sleeps until timeout_ms are over, a process requests something, a new process has come, or wake() is
	 * called. Gives the turn away meanwhile.
	 */
	void (*wait)(void *self, uint32_t timeout_ms);
	void (*wake)(void *self);

	/* A new process, which the caller serves from now on; valid until left(). NULL = none. */
	const struct sp_core_ops *(*next)(void *self);

	/* The process has ended while a profile of it is queued: from now on only its counters and facts are used. */
	void (*ended)(void *self, const struct sp_core_ops *ops);

	/* The loop has no more work for the process. error is a negative errno if the process was never served. */
	void (*left)(void *self, const struct sp_core_ops *ops, int error);

	/*
	 * Called when no process is served: whether another process may still come. After the first false it returns
	 * false for ever.
	 */
	bool (*open)(void *self);
};

/*
 * Runs until all processes have ended and no other one may come. At the beginning there must be one process, and its
 * configuration applies to all. Returns 0, or a negative errno if no profile can be sent: -ENOMEM, or -EINVAL for an
 * unusable address.
 */
int sp_export_run(const struct sp_export_family *family);

#endif
