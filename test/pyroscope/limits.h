/* SPDX-License-Identifier: Apache-2.0 */
/* The server's limits with their defaults, in one struct so that a test can set smaller ones. */
#ifndef PD_LIMITS_H
#define PD_LIMITS_H

#include <stddef.h>
#include <stdint.h>

struct pd_limits {
	size_t profile_bytes;     /* validation.max-profile-size-bytes */
	size_t samples;           /* validation.max-profile-stacktrace-samples */
	size_t sample_labels;     /* validation.max-profile-stacktrace-sample-labels */
	size_t stack_depth;       /* validation.max-profile-stacktrace-depth */
	size_t string_bytes;      /* validation.max-profile-symbol-value-length */
	size_t label_name_bytes;  /* validation.max-length-label-name */
	size_t label_value_bytes; /* validation.max-length-label-value */
	size_t label_names;       /* validation.max-label-names-per-series */
	size_t burst_bytes;       /* distributor.ingestion-burst-size-mb */
	size_t rate_bytes;        /* distributor.ingestion-rate-limit-mb, per second */
	size_t body_bytes;        /* distributor.ingestion-body-limit-mb */
	int64_t older_ns;         /* validation.reject-older-than */
	int64_t newer_ns;         /* validation.reject-newer-than */
	/* a limit of the double: bytes that it stores before it refuses profiles */
	size_t stored_bytes;
};

extern const struct pd_limits pd_limits_default;

#endif
