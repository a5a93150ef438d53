/* SPDX-License-Identifier: Apache-2.0 */
/* One CPU sample, as the signal handler wrote it into the ring. Self-contained: no pointers. */
#ifndef SP_SAMPLE_H
#define SP_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/base/thread_name.h"

#define SP_FRAMES_MAX 496U

/* struct sp_sample.flags */
#define SP_SAMPLE_ROOTED 1U    /* the walk reached the thread's outermost frame */
#define SP_SAMPLE_TRUNCATED 2U /* the depth limit cut root-most frames */
#define SP_SAMPLE_OFF_STACK 4U /* sp was outside the thread's stack (coroutine, alternate stack) */
/* Inside the handler only: the call frame information is of a form that the exporter may read. */
#define SP_SAMPLE_RETRY 8U
/* Inside the handler only: an object that frames are in could not be told of (module_event.h). */
#define SP_SAMPLE_UNTOLD 16U

struct sp_sample {
	/* The 8 bytes of the label's span id as they lie in memory; 0 = no span was active. */
	uint64_t span_id;
	uint8_t trace_id[16]; /* W3C byte order; all zero = none */
	uint32_t name_id;     /* span name, see names.h; 0 = none */
	uint32_t tid;         /* kernel thread id */
	uint32_t weight;      /* sampling periods it stands for (1 + overruns) */
	uint16_t depth;       /* valid entries of pc[] */
	uint16_t flags;
	char thread_name
		[SP_THREAD_NAME_BYTES]; /* when sampled; all NUL = unknown, or not asked for */
	/*
	 * Leaf first. Each value lies inside the instruction that was executing: for callers it is
	 * the return address minus one, so that a symbol or line lookup needs no correction.
	 */
	uint64_t pc[SP_FRAMES_MAX];
};

#define SP_SAMPLE_HEAD_WORDS (offsetof(struct sp_sample, pc) / sizeof(uint64_t))

/* What is used of a sample of that depth. */
static inline uint64_t sp_sample_bytes(uint32_t depth)
{
	return offsetof(struct sp_sample, pc) + depth * sizeof(uint64_t);
}

_Static_assert(offsetof(struct sp_sample, pc) % 8 == 0, "records are whole words");
_Static_assert(sizeof(struct sp_sample) <= 4096, "a sample must fit one page");

#endif
