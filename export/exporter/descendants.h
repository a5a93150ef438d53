/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time of processes below a host that are not profiled. A program may execute others with a
 * cleaned environment or with other rights, and thereby without the profiler. No code of ours runs
 * in such a process, so the exporter looks from outside.
 */
#ifndef SP_DESCENDANTS_H
#define SP_DESCENDANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/exporter/host.h"

struct sp_descendants;

/* NULL = out of memory. */
struct sp_descendants *sp_descendants_new(void);
void sp_descendants_free(struct sp_descendants *d);

/*
 * Looks at the processes below the host, down to profiled processes: those report the processes
 * below them themselves. Limited in processes and in CPU time; skips what the exporter may not read.
 * is_served: whether this exporter serves the process, whose memory map may be closed to us. No-op
 * for NULL.
 */
void sp_descendants_scan(struct sp_descendants *d, const struct sp_host *h,
			 bool (*is_served)(void *arg, uint32_t pid), void *arg);

/*
 * A process that this exporter serves ends. ns: its CPU time, including that of the children that
 * it has waited for. No-op for NULL.
 */
void sp_descendants_ended(struct sp_descendants *d, uint32_t pid, uint64_t ns);

/* The results so far. All zero for NULL. */
void sp_descendants_results(const struct sp_descendants *d, struct sp_core_cpu *out);

#endif
