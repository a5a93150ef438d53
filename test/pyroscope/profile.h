/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decoded pprof profile. Only the structure of protobuf was checked, so every index and id may
 * have any value. validate.c checks the rest.
 */
#ifndef PD_PROFILE_H
#define PD_PROFILE_H

#include "test/pyroscope/base.h"

struct pd_value_type {
	int64_t type;
	int64_t unit;
};

struct pd_label {
	int64_t key;
	int64_t str;
	int64_t num;
	int64_t num_unit;
};

struct pd_sample {
	const uint64_t *location_id; /* leaf first */
	size_t locations;
	const int64_t *value;
	size_t values;
	struct pd_label *label;
	size_t labels;
};

struct pd_mapping {
	uint64_t id;
	int64_t filename;
	int64_t build_id;
	bool has_functions;
};

struct pd_line {
	uint64_t function_id;
	int64_t line;
};

struct pd_location {
	uint64_t id;
	uint64_t mapping_id;
	uint64_t address;
	struct pd_line *line; /* innermost inlined function first */
	size_t lines;
};

struct pd_function {
	uint64_t id;
	int64_t name;
	int64_t system_name;
	int64_t filename;
};

/* Index of the item with an id; sorted by id. */
struct pd_index {
	uint64_t id;
	size_t at;
};

struct pd_profile {
	struct pd_value_type *sample_type;
	size_t sample_types;
	struct pd_sample *sample;
	size_t samples;
	struct pd_mapping *mapping;
	size_t mappings;
	struct pd_location *location;
	size_t locations;
	struct pd_function *function;
	size_t functions;
	struct pd_bytes *string;
	size_t strings;
	const int64_t *comment;
	size_t comments;
	struct pd_value_type period_type;
	bool has_period_type;
	int64_t period;
	int64_t time_nanos;
	int64_t duration_nanos;
	int64_t drop_frames;
	int64_t keep_frames;
	int64_t default_sample_type;
	struct pd_index *mapping_index;
	struct pd_index *location_index;
	struct pd_index *function_index;
};

/* All memory comes from the arena; strings point into in. 0 or -EBADMSG. */
int pd_profile_decode(struct pd_arena *a, struct pd_bytes in, struct pd_profile *p);

/*
 * Call this when mappings, locations and functions are complete: makes the indexes for the three
 * functions below.
 */
void pd_profile_index(struct pd_arena *a, struct pd_profile *p);

/* NULL when there is none with this id. */
const struct pd_mapping *pd_profile_mapping(const struct pd_profile *p, uint64_t id);
const struct pd_location *pd_profile_location(const struct pd_profile *p, uint64_t id);
const struct pd_function *pd_profile_function(const struct pd_profile *p, uint64_t id);

/* The string, empty when the index is out of range. */
struct pd_bytes pd_profile_string(const struct pd_profile *p, int64_t index);
bool pd_profile_has_string(const struct pd_profile *p, int64_t index);

#endif
