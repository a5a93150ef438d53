/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status of a process as JSON: how much is sampled, sent and lost, and what is wrong with it.
 */
#ifndef SP_STATUS_H
#define SP_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/off_cpu/off_cpu.h"
#include "export/profile/missing.h"
#include "export/push/push.h"

struct sp_status_server {
	const char *address; /* without user information */
	const struct sp_push_results *results;
	/* of this process; needed if there are several servers */
	const struct sp_delivery *delivery;
};

struct sp_status_input {
	const char *state; /* "active", "stopped" or "ending" */
	struct sp_status_server server[SP_SERVERS_MAX];
	unsigned servers;   /* 0 = nothing is pushed */
	uint64_t with_span; /* samples */
	uint64_t without_span;
	const struct sp_off_cpu_results *waits; /* NULL = no waits are collected */
	const struct sp_missing *missing;
	int file_error;       /* sp_file_sink_error(); 0 = no error, or no folder */
	uint64_t profiled_ns; /* CPU time that was taken from its rings; UINT64_MAX = unknown */
};

struct sp_status;

/* NULL when out of memory. */
struct sp_status *sp_status_new(const struct sp_core_ops *ops);
void sp_status_free(struct sp_status *s);

/*
 * The process has ended: from now on only the file that SPANPROF_STATUS_FILE names is written.
 * No-op for NULL.
 */
void sp_status_hide(struct sp_status *s);

/*
 * Replaces the status, whole or not at all. A failure is logged, limited. No-op for NULL. 0 or a
 * negative errno: -EPERM if nothing may be opened for the process.
 */
int sp_status_write(struct sp_status *s, const struct sp_status_input *in);

/*
 * Logs that profiling has begun, once the SDK of the process is known; with at_once, without
 * waiting for that. True = it is logged, or the log level excludes it. address: of n servers,
 * without secrets.
 */
bool sp_start_line_log(const struct sp_core_ops *ops, const char *const address[], unsigned n,
		       bool at_once);

/*
 * Logs that a program below the process runs without the profiler, if it has used much CPU time.
 * True = it is logged, and this need not be called again.
 */
bool sp_children_log(const struct sp_core_ops *ops);

/* The name of a signal as SPANPROF_SIGNAL takes it, "" for none. */
#define SP_SIGNAL_NAME 24
void sp_signal_name(int number, char out[SP_SIGNAL_NAME]);

#endif
