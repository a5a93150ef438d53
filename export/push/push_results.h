/* SPDX-License-Identifier: Apache-2.0 */
/* The results of the last attempts to send to a server, and messages about them. */
#ifndef SP_PUSH_RESULTS_H
#define SP_PUSH_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/push/reply.h"
#include "export/util/log.h"
#include "export/util/losses.h"

/*
 * The server refuses profiles that began more than an hour ago by its clock, or more than ten
 * minutes in its future.
 */
#define SP_PUSH_SKEW_AHEAD_MS INT64_C(3600000)
#define SP_PUSH_SKEW_BEHIND_MS INT64_C(600000)

#define SP_PUSH_ERROR SP_LOSSES_WORDS
#define SP_PUSH_KINDS 8U

/*
 * The results of the last attempts, for the log and the status file. Initially all zero except the
 * name.
 */
struct sp_push_results {
	const char *name; /* of the server, for messages; NULL = it is the only one */
	uint64_t attempts;
	/* HTTP; 0 = no answer, or no attempt yet */
	int last_status;
	char last_error[SP_PUSH_ERROR]; /* printable; "" after a success */
	size_t remedy_at; /* where "; " and the remedy begin in last_error; its end if there is no remedy */
	int64_t last_success_ms; /* since the epoch; 0 = never */
	bool has_skew;           /* the server sent its time */
	int64_t skew_ms;         /* the server's clock minus ours */
	/* a message reported that the clocks differ too much, and they still do */
	bool said_skew;
	/* a message reported a failed push, and none has succeeded since */
	bool said_failure;
	/* One limit for each kind of failure, so that one kind does not silence another. */
	struct sp_export_log_site said_unreachable;
	struct {
		int status;
		struct sp_export_log_site site;
	} said[SP_PUSH_KINDS];
};

/* Takes the result of each attempt. */
void sp_push_results_add(struct sp_push_results *n, const struct sp_core_ops *ops,
			 const struct sp_reply *r);

/*
 * Logs that the last attempt failed, limited for each kind of answer. again: another attempt
 * follows.
 */
void sp_push_results_warn(struct sp_push_results *n, const struct sp_core_ops *ops,
			  const struct sp_reply *r, uint64_t now_ns, bool again);

/* Logs the first success after a failure that was logged. */
void sp_push_results_log_success(struct sp_push_results *n, const struct sp_core_ops *ops);

/* Logs the remark that a server of OTLP may send with a success. */
void sp_push_results_log_remark(struct sp_push_results *n, const struct sp_core_ops *ops,
				const struct sp_reply *r, uint64_t now_ns);

#endif
