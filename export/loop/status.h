/* SPDX-License-Identifier: Apache-2.0 */
/* What is sampled, sent and lost of a process, and what is wrong with it, as JSON. */
#ifndef SP_STATUS_H
#define SP_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/off_cpu/off_cpu.h"
#include "export/push/push.h"

struct sp_status_input {
	const char *state;               /* "active", "stopped" or "ending" */
	const char *address;             /* of the server, without user information; NULL = none */
	const struct sp_push_news *news; /* NULL = nothing is pushed */
	uint64_t with_span;              /* samples */
	uint64_t without_span;
	const struct sp_off_cpu_news *waits; /* NULL = nobody wants them */
	int file_error;                      /* sp_file_sink_error(); 0 = there is no folder */
};

struct sp_status;

/* NULL when out of memory. */
struct sp_status *sp_status_new(const struct sp_core_ops *ops);
void sp_status_free(struct sp_status *s);

/* The process has ended: only the file that SPANPROF_STATUS_FILE names is written from now on. No-op for NULL. */
void sp_status_hide(struct sp_status *s);

/*
 * Replaces the status, whole or not at all. A failure is logged, limited. No-op for NULL. 0 or a
 * negative errno: -EPERM where nothing may be opened for the process.
 */
int sp_status_write(struct sp_status *s, const struct sp_status_input *in);

/*
 * Tells it once the SDK of the process is known, or at once if the process is not waited for any
 * longer. True = it is told, or nobody wants it. address: of the server, without secrets; NULL =
 * nothing is pushed.
 */
bool sp_start_line_tell(const struct sp_core_ops *ops, const char *address, bool at_once);

/* The name of a signal as SPANPROF_SIGNAL takes it, "" for none. */
#define SP_SIGNAL_NAME 24
void sp_signal_name(int number, char out[SP_SIGNAL_NAME]);

#endif
