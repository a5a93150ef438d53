/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes what an interval holds as as many profiles as the server's limits require. */
#ifndef SP_ENCODE_H
#define SP_ENCODE_H

#include <stdint.h>

#include "export/profile/interval.h"
#include "export/profile/pprof.h"

/*
 * What a default server takes in one push: 16,000 samples, and 2 MiB uncompressed together with
 * the labels, because its rate limiter never lets more than one burst through.
 */
#define SP_ENCODE_SAMPLES 16000U
#define SP_ENCODE_BYTES (((size_t)2 << 20) - ((size_t)96 << 10))

/* Records of an interval, as a profile of that type. */
struct sp_encode_range {
	const struct sp_interval *interval;
	enum sp_profile_type type;
	uint32_t from;
	uint32_t end;
	const struct sp_bytes *resource; /* of a profile in OTLP (otlp.h); NULL = in pprof */
};

struct sp_encoded {
	struct sp_bytes bytes; /* malloc'ed */
	uint32_t end;          /* the first record that is not in it */
	uint32_t records;      /* that are in it: those that have nothing to tell are passed over */
	uint64_t samples; /* that it stands for: of CPU time in a profile of CPU time, else waits */
	uint64_t others;  /* samples whose stack is too large for any profile, and has no frames */
};

/* All records of that type. */
struct sp_encode_range sp_encode_all(const struct sp_interval *interval, enum sp_profile_type type);

/* Samples that profiles of the range stand for. */
uint64_t sp_encode_samples(const struct sp_encode_range *range);

/*
 * The first profile of the range, of as many of its records as the limits allow, but at least one. 0; -ENOENT:
 * there is nothing in it; -ESTALE: the interval was given up; -ENOMEM.
 */
int sp_encode(const struct sp_encode_range *range, const struct sp_pprof_limits *limits,
	      struct sp_encoded *out);

#endif
