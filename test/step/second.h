/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's walk in the oracle: the handler's own code takes snapshots at some of the steps, and they are walked
 * after the workload has ended, as the exporter does. One thread.
 */
#ifndef STEP_SECOND_H
#define STEP_SECOND_H

#include <stdbool.h>

#include "test/step/stepper.h"

/* 0, or -1 if memory is short or libunwind is missing. */
int second_init(void);

/* Signal context. required: libunwind was right in the live process, so the snapshot must be too. */
void second_take(const void *ucontext, const struct stepper_truth *truth, bool required);

struct second_result {
	unsigned long taken;
	unsigned long exact; /* or right as far as the copied part of the stack reaches */
	unsigned long gone;  /* through an object that has been unloaded since: not judged */
	unsigned long worse; /* wrong, and the caller required a right one */
};

/* Walks the snapshots since the last call. Prints the first few that are wrong. */
struct second_result second_judge(void);

#endif
