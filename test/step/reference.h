/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libunwind as the second opinion of the single-step oracle. Loaded with dlopen(RTLD_LOCAL),
 * because as a needed library it would replace libgcc's exception handling in the workloads.
 * Called by the SIGTRAP handler, one thread only.
 */
#ifndef STEP_REFERENCE_H
#define STEP_REFERENCE_H

#include <stdint.h>

/* 0, or -1 with a line on stderr if libunwind cannot be used. */
int reference_init(void);

/* Unchanged return addresses, leaf first. `ucontext` is a signal handler's third argument. Returns their number. */
unsigned reference_walk(const void *ucontext, uint64_t *pc, unsigned max);

#endif
