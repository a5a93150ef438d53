/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second chance under the oracle: snapshots taken at some of the steps by the handler's own
 * code, and walked after the workload has ended, as the exporter does. One thread.
 */
#ifndef STEP_SECOND_H
#define STEP_SECOND_H

#include <stdbool.h>

#include "test/step/stepper.h"

/* 0, or -1 without memory or libunwind. */
int second_init(void);

/* Signal context. required: libunwind was right in the live process, so the snapshot must be too. */
void second_take(const void *ucontext, const struct stepper_truth *truth, bool required);

struct second_result {
	unsigned long taken;
	unsigned long exact; /* or right as far as the copied part of the stack goes */
	unsigned long gone;  /* through an object that has been unloaded since: not judged */
	unsigned long worse; /* wrong where it had to be right */
};

/* Walks what was taken since the last call. The first few that are wrong are printed. */
struct second_result second_judge(void);

#endif
