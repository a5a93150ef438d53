/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Corrects the CPU time of span names in the samples of an interval by the CPU time of measured roots
 * (sampler/span/root_cpu.h). The kernel looks for expired CPU timers at its tick alone, so a timer that
 * expires in a short root is noticed in a later one, which is longer as a rule: samples give short roots
 * too little time, and those that last about a tick too much.
 *
 * For each name with enough measured roots, the number of its roots times their mean CPU time is an
 * estimate of its time, without bias and with a known error. Samples have an error by chance and, for
 * roots that are short against the tick, a bias. How much bias there is, is estimated from all names
 * together: by how much the two differ beyond chance. A name gets the mean of both, weighted by the inverse
 * of their squared errors. The sum of all samples is the CPU time of the process, which is exact and stays:
 * all names, and samples without one, share what is over or missing then in proportion to their squared
 * errors. (This is post-stratification, with a sample of the strata's means; and the least squares under
 * one condition.) The number of samples of a stack does not change.
 *
 * Nothing that the host says is trusted: sums of its part of the region may be any numbers.
 *
 * Context: the exporter, with its turn.
 */
#ifndef SP_NAME_TIMES_H
#define SP_NAME_TIMES_H

#include <stdint.h>

#include "export/export.h"
#include "export/profile/stack_map.h"

struct sp_name_times;

/* Of a process that lives. NULL when out of memory. */
struct sp_name_times *sp_name_times_new(const struct sp_core_ops *ops);
void sp_name_times_free(struct sp_name_times *t);

/* To be called when all samples of an interval are in the map; it has lasted that long. No-op for NULL. */
void sp_name_times_correct(struct sp_name_times *t, struct sp_stack_map *map, uint64_t duration_ns);

#endif
