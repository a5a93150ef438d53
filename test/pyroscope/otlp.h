/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decoded request in OTLP, and the rules that it must obey: those of the text of
 * opentelemetry-proto, and those of the checker of OpenTelemetry's profiling group, which also
 * refuses duplicates and unreferenced elements.
 */
#ifndef PD_OTLP_H
#define PD_OTLP_H

#include "test/pyroscope/base.h"

/* The dictionary's tables, in the order of its fields, which are numbered from 1. */
enum pd_otlp_table {
	PD_MAPPINGS,
	PD_LOCATIONS,
	PD_FUNCTIONS,
	PD_LINKS,
	PD_STRINGS,
	PD_ATTRIBUTES,
	PD_STACKS,
	PD_TABLES
};

struct pd_otlp_line {
	uint64_t function;
	int64_t line;
	int64_t column;
};

struct pd_otlp_element {
	struct pd_bytes raw;
	uint64_t v[5];   /* its numbers, indexed by field */
	uint64_t *index; /* indices of attributes; of a stack: of its locations */
	size_t indexes;
	struct pd_otlp_line *line; /* of a location */
	size_t lines;
	struct pd_bytes id[2]; /* a link: trace and span */
	struct pd_bytes text;  /* an attribute with a text */
	bool has_value, is_text;
};

struct pd_otlp_sample {
	struct pd_bytes raw;
	uint64_t stack, link;
	uint64_t *attribute;
	size_t attributes;
	int64_t *value;
	size_t values;
	size_t times;
};

struct pd_otlp_profile {
	bool has_type, has_period_type;
	uint64_t type[3]; /* type and unit of the values, indexed by field */
	uint64_t period_type[3];
	int64_t period;
	uint64_t time_ns, duration_ns;
	uint64_t *attribute;
	size_t attributes;
	struct pd_otlp_sample *sample;
	size_t samples;
	size_t resource; /* index of its resource */
};

struct pd_otlp_pair {
	struct pd_bytes key;
	struct pd_bytes value;
	bool is_plain; /* key and value are no references, and the value is a text */
};

struct pd_otlp_resource {
	struct pd_otlp_pair *pair;
	size_t pairs;
	size_t scopes;
};

struct pd_otlp {
	struct pd_otlp_element *table[PD_TABLES];
	size_t n[PD_TABLES];
	bool has_dictionary;
	struct pd_otlp_resource *resource;
	size_t resources;
	struct pd_otlp_profile *profile;
	size_t profiles;
};

/* Decodes a request. All memory comes from the arena; texts point into `in`. 0 or -EBADMSG. */
int pd_otlp_decode(struct pd_arena *a, struct pd_bytes in, struct pd_otlp *o);

/*
 * Checks the rules. 0, or -1 with the broken rule as error. lenient: only those rules without which
 * the request cannot be read.
 */
int pd_otlp_judge(const struct pd_otlp *o, bool lenient, struct pd_error *e);

#endif
