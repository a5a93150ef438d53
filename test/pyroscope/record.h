/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One accepted profile as the server stores it: its samples are cleaned, merged and split into
 * series, and each has its span and trace columns.
 */
#ifndef PD_RECORD_H
#define PD_RECORD_H

#include <jansson.h>

#include "test/pyroscope/validate.h"

struct pd_row {
	const uint64_t *location_id; /* leaf first */
	size_t locations;
	int64_t *value;   /* one per sample type */
	uint64_t span_id; /* 0 = none */
	uint8_t trace_id[16];
	bool has_trace;
	struct pd_labels labels; /* sorted labels of the sample alone */
	size_t series;
};

struct pd_series {
	struct pd_labels labels; /* sorted labels of series and sample together */
};

struct pd_record {
	struct pd_arena arena;
	struct pd_record *next;
	uint64_t number; /* 1, 2, 3 ... in order of acceptance */
	char *tenant;
	char *id;            /* RawSample.ID */
	struct pd_bytes raw; /* the uncompressed pprof; the strings below point into it */
	struct pd_profile profile;
	struct pd_labels labels; /* as sent, plus service_name */
	struct pd_row *row;
	size_t rows;
	struct pd_series *series;
	size_t series_count;
	struct pd_losses losses;
	json_t *headers; /* headers of the request with the profile */
};

struct pd_record *pd_record_new(void);
void pd_record_free(struct pd_record *r);

/*
 * Fills row and series from profile and labels as the server's normalisation and split do, and
 * checks every resulting label set. Call it after validation. 0 or -1 with the error set.
 */
int pd_record_split(const struct pd_limits *limits, struct pd_record *r, struct pd_error *e);

/* "process_cpu:cpu:nanoseconds:cpu:nanoseconds" of one sample type. */
void pd_record_type(const struct pd_record *r, size_t sample_type, struct pd_text *out);

#endif
