/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local roots by their names: how long they last (SPANPROF_SLOW), and the CPU time of a random few
 * (SPANPROF_MEASURE_ROOTS, struct sp_root_cpu). A part of the region with a histogram of durations and
 * a threshold for each span name. The host adds the duration of each root when it ends. A root that
 * lasts as long as the threshold of its name, or longer, goes to the exporter as a record of its
 * own (struct sp_slow_root in record.h). The exporter reads the histograms and moves the
 * thresholds. Without the option the part has no bytes.
 *
 * A threshold is 0 at first, so that all roots of a process that ends after a moment become
 * records. A process with ten thousand roots a second would fill the ring before the exporter
 * comes, at its start or after an interval without roots. So as long as the exporter has not moved
 * the threshold of a name, the host raises it with every 64th record: to the duration that the
 * slowest 64 roots of that name reach, within the width of a bucket.
 *
 * A name keeps its place in all regions of a process and of its forked children, so the host finds
 * the place by the name's id. Names beyond SP_ROOT_NAMES share the last place.
 *
 * The exporter trusts no number here. The host reads one word that the exporter writes, the
 * threshold, whose worst value makes each root a record, or none.
 *
 * Contexts: APP writes, the exporter reads. Lock-free; no memory is allocated after
 * sp_root_durations_init().
 */
#ifndef SP_ROOT_DURATIONS_H
#define SP_ROOT_DURATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * A histogram has 16 buckets for each doubling of the duration, which are 6.3 to 3.2 % wide, so the
 * middle of a bucket is wrong by 3.1 % at most. Below 1,024 ns a bucket is 64 ns wide. The last
 * bucket has all durations from 39 hours on.
 */
#define SP_DURATION_UNIT_BITS 6U
#define SP_DURATION_STEP_BITS 4U
#define SP_DURATION_STEPS (1U << SP_DURATION_STEP_BITS)
#define SP_DURATION_BITS 47U
#define SP_DURATION_BUCKETS                                                                        \
	((SP_DURATION_BITS - SP_DURATION_UNIT_BITS - SP_DURATION_STEP_BITS + 1U)                   \
	 << SP_DURATION_STEP_BITS)

/* The bucket of that duration. */
static inline uint32_t sp_duration_bucket(uint64_t ns)
{
	uint64_t units = ns >> SP_DURATION_UNIT_BITS;
	uint32_t shift;

	if (units < SP_DURATION_STEPS)
		return (uint32_t)units;
	if (ns >> SP_DURATION_BITS != 0)
		return SP_DURATION_BUCKETS - 1;
	shift = 63 - (uint32_t)__builtin_clzll(units) - SP_DURATION_STEP_BITS;
	/* The highest bit of units >> shift adds one more doubling. */
	return shift * SP_DURATION_STEPS + (uint32_t)(units >> shift);
}

/* The shortest duration of that bucket; for SP_DURATION_BUCKETS the end of the last one. */
static inline uint64_t sp_duration_begin(uint32_t bucket)
{
	uint32_t shift = bucket / SP_DURATION_STEPS;

	if (shift == 0)
		return (uint64_t)bucket << SP_DURATION_UNIT_BITS;
	return (uint64_t)(SP_DURATION_STEPS + bucket % SP_DURATION_STEPS)
	       << (shift - 1 + SP_DURATION_UNIT_BITS);
}

#define SP_ROOT_NAMES 512U
#define SP_ROOT_PLACES (SP_ROOT_NAMES + 1) /* the last place is for all further names */

struct sp_root_name {
	/* 0 = the place is not used yet; at the last place any of its names. */
	_Atomic uint32_t name_id;
	/*
	 * The number of records since the exporter last wrote this word, and one of the two bits
	 * below.
	 */
	_Atomic uint32_t slow;
	/* Written by the exporter, and by the host until the exporter has moved it. */
	_Atomic uint64_t threshold_ns;
};
#define SP_ROOT_MOVED (UINT32_C(1) << 31) /* the exporter has moved the threshold */
/* the exporter has read the histogram, and wants a record of each root */
#define SP_ROOT_SEEN (UINT32_C(1) << 30)

struct sp_root_histogram {
	_Atomic uint64_t count[SP_DURATION_BUCKETS];
};

/*
 * The CPU time of the parts of roots with one name (sampler/span/root_cpu.h). All parts are counted,
 * and each is measured with the probability 2^-shift, so a measured part stands for 2^shift parts:
 * its weight. Sums are modulo 2^64 and only grow. A reader may see a part in some of them and not
 * yet in the others.
 */
struct sp_root_cpu {
	_Atomic uint64_t parts; /* that have begun */
	/* How often parts are chosen. Nobody but the host needs it. */
	_Atomic uint32_t shift;
	_Atomic uint32_t chosen; /* since that time, by CLOCK_MONOTONIC_COARSE */
	_Atomic uint64_t since_ns;
	/* Parts with a time that is not measured or belongs to another name: the sums are no estimate. */
	_Atomic uint64_t unsure;
	/* Of measured parts that have ended: */
	_Atomic uint64_t measured;
	_Atomic uint64_t weights;
	_Atomic uint64_t squares; /* of weights */
	_Atomic uint64_t ns;      /* weight * CPU time */
	_Atomic uint64_t squared; /* weight * the square of the CPU time in units of 1,024 ns */
	uint64_t unused[6];       /* two names share no cache line */
};
#define SP_ROOT_CPU_SHIFT_MAX 20U

/* Only those pages of the histograms take memory in which somebody has counted or read. */
struct sp_root_durations {
	struct sp_root_cpu cpu[SP_ROOT_PLACES];
	struct sp_root_name name[SP_ROOT_PLACES];
	struct sp_root_histogram histogram[SP_ROOT_PLACES];
};

/* APP, at activation, when there is a table of names. Idempotent. 0 or -ENOMEM. */
int sp_root_durations_init(void);

/*
 * APP, INIT. Uses that part, all zero at first, from now on; NULL, or a part that is too small:
 * none.
 */
void sp_root_durations_use(void *part, uint64_t bytes);

/*
 * APP. Copies histograms and thresholds into a region that is not used yet. A root that ends
 * meanwhile may be missing there. CPU times are not copied: the samples that they belong to are lost.
 */
void sp_root_durations_copy(const struct sp_root_durations *from, struct sp_root_durations *to);

/*
 * APP. Adds a root with that name that has lasted `ns`. True: that is not below the name's
 * threshold, and *place is the name's.
 */
bool sp_root_durations_add(uint32_t name_id, uint64_t ns, uint32_t *place);

/*
 * Those of the present part; NULL = none, or nobody measures. And by the id of a name its place + 1; 0 = it
 * has none yet.
 */
SP_HIDDEN _Atomic(struct sp_root_cpu *) sp_root_cpu_now;
SP_HIDDEN _Atomic uint16_t *_Atomic sp_root_places;

/* APP, after sp_root_durations_init(): CPU times are measured from now on. */
void sp_root_cpu_measure(void);

/* The rare part of sp_root_cpu_of(): a name without a place. */
struct sp_root_cpu *sp_root_cpu_claim(uint32_t name_id);

/*
 * APP. name_id is of sp_names_intern(), or 0. NULL: nothing is measured, or there is no such name. Names
 * without a place of their own share the last one, which nobody reads.
 */
static inline __attribute__((always_inline)) struct sp_root_cpu *sp_root_cpu_of(uint32_t name_id)
{
	struct sp_root_cpu *all = atomic_load_explicit(&sp_root_cpu_now, memory_order_acquire);
	uint32_t at;

	if (all == NULL)
		return NULL;
	at = atomic_load_explicit(
		&atomic_load_explicit(&sp_root_places, memory_order_acquire)[name_id],
		memory_order_relaxed);
	return __builtin_expect(at != 0, 1) ? &all[at - 1] : sp_root_cpu_claim(name_id);
}

/* APP. A part was measured that was chosen with that shift. */
void sp_root_cpu_add(uint32_t name_id, uint32_t shift, uint64_t ns);

/*
 * APP, after a part was chosen, and once more for each further two readings of the clock. Moves the
 * shift of the name, so that about 10 parts of a name, and 96 of all names, are chosen in 250 ms.
 * now_ns is of CLOCK_MONOTONIC_COARSE.
 */
void sp_root_cpu_adapt(struct sp_root_cpu *c, uint64_t now_ns);

#endif
