/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes an interval as as many profiles as the server's limits require. */
#ifndef SP_ENCODE_H
#define SP_ENCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "export/profile/encoded.h"
#include "export/profile/interval.h"
#include "export/profile/pprof.h"
#include "export/profile/series_labels.h"
#include "export/profile/slow_list.h"

/*
 * The limits of a server with its default configuration: 16,000 samples in one push, and 2 MiB uncompressed together
 * with the labels, because its rate limiter never lets more than one burst through.
 */
#define SP_ENCODE_SAMPLES 16000U
#define SP_ENCODE_BYTES (((size_t)2 << 20) - ((size_t)96 << 10))

/* The records of an interval for a profile of that type. */
struct sp_encode_range {
	const struct sp_interval *interval;
	enum sp_profile_type type;
	uint32_t from;
	uint32_t end;
	/* Of a profile that will be converted to OTLP (otlp.h), whose size counts for the limits then; NULL = it stays pprof. */
	const struct sp_bytes *resource;
	struct sp_series_labels
		*series; /* of a profile for a server (series_labels.h); NULL = for a folder */
};

/* All records of that type. */
struct sp_encode_range sp_encode_all(const struct sp_interval *interval, enum sp_profile_type type);

/* The number of samples that the profiles of the range count. */
uint64_t sp_encode_samples(const struct sp_encode_range *range);

/* The CPU time that an entry of the map of samples stands for. */
uint64_t sp_encode_cpu_ns(const struct sp_config *config, const struct sp_stack_entry *entry);

/*
 * Encodes the samples of slow roots one by one, each with its time (end_timestamp_ns) and its thread: CPU time and waits
 * in one profile of wall-clock time. 0; -ENOENT: the interval has no such sample; -ENOMEM. *left: how many samples had
 * no room. sp_encoded_fini() is right after either.
 */
#define SP_ENCODE_TIMES 200000U
#define SP_ENCODE_TIMES_BYTES ((size_t)16 << 20)
int sp_encode_times(const struct sp_interval *interval, const struct sp_slow_batch *slow,
		    struct sp_encoded *out, uint64_t *left);

/*
 * Encodes the first profile of the range, with as many of its records as the limits allow, but at least one. 0;
 * -ENOENT: the profile would be empty; -ENOMEM. sp_encoded_fini() is right after either.
 */
int sp_encode(const struct sp_encode_range *range, const struct sp_pprof_limits *limits,
	      struct sp_encoded *out);

#endif
