/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label that a CPU sample of the calling thread would have at this instant. The probe makes the profiler's own
 * signal handler take one: it sends the thread the signal that its timer would send, and reads the sample from the
 * thread's block. It finds the hidden names in the symbol table of the preloaded object, which must not be stripped.
 */
#ifndef TEST_CONFORMANCE_PROBE_H
#define TEST_CONFORMANCE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define PROBE_NAME_MAX 256

struct probe_label {
	uint8_t span_id[8]; /* all zero = none */
	uint8_t trace_id[16];
	char name[PROBE_NAME_MAX]; /* "" = none */
};

/*
 * False if the process runs without the profiler. In other cases, such as an object without the names or a handler
 * that takes no sample, the process ends with a message and status 97.
 */
bool probe_present(void);

/* The label of a sample of this thread, all zero for none. */
void probe_sample(struct probe_label *out);

/*
 * Takes that many samples of this thread, which will be in the profile. Returns the CPU time that they count there: 0
 * if the profiler does not know the thread, which then has no samples.
 */
uint64_t probe_samples(unsigned count);

/* The number of spans that the profiler takes for open, in the whole process. */
unsigned probe_open_spans(void);

#endif
