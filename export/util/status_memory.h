/* SPDX-License-Identifier: Apache-2.0 */
/* How the exporter's status of a process is found: it writes it, and spanprof-report reads it. */
#ifndef SP_STATUS_MEMORY_H
#define SP_STATUS_MEMORY_H

/* The name that the exporter gives itself, as far as the kernel keeps it. */
#define SP_STATUS_COMM "spanprof-export"

/* Before the number of its process, the name of the memory file that the exporter keeps open. */
#define SP_STATUS_MEMORY "spanprof-status-"

/* Problems that are told at most. */
#define SP_STATUS_PROBLEMS 16U

#endif
