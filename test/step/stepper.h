/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function one instruction at a time (EFLAGS.TF, SIGTRAP). A shadow call stack, kept by decoding call
 * instructions and watching sp, knows the true backtrace.
 * One thread, x86-64 only.
 */
#ifndef STEP_STEPPER_H
#define STEP_STEPPER_H

#include <stdint.h>

#define STEPPER_DEPTH 512U

/* The truth at one stop: return addresses, leaf first; pc[0] is the next instruction to run. */
struct stepper_truth {
	unsigned depth;
	uint64_t pc[STEPPER_DEPTH];
};

/*
 * Called in signal context at every stop, with the interrupted ucontext. Nonzero stops stepping;
 * the function then finishes at full speed.
 */
typedef int stepper_check_fn(const void *ucontext, const struct stepper_truth *truth);

void stepper_init(stepper_check_fn *check);

/*
 * Steps through fn(). outer[] holds the return addresses above its caller's frame,
 * innermost first.
 */
void stepper_run(void (*fn)(void), const uint64_t *outer, unsigned outer_depth);

/* How often the shadow stack was full, so that the truth was unknown. */
unsigned long stepper_overflows(void);

#endif
