/* SPDX-License-Identifier: Apache-2.0 */
/* One pprof profile within limits, and the request that carries it to the server. */
#ifndef SP_PPROF_H
#define SP_PPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/region/record.h"

/* The types of profiles that are made: what a server calls them, and what they are summed in. */

enum sp_profile_type {
	SP_PROFILE_CPU, /* the first, so that nothing has to be said for it */
	SP_PROFILE_OFF_CPU,
	SP_PROFILE_WALL,   /* both of them */
	SP_PROFILE_MEMORY, /* allocations */
	SP_PROFILE_IN_USE, /* what is still there of them */
	SP_PROFILE_TYPES
};

struct sp_profile_type_names {
	const char *series; /* __name__ */
	const char *count;  /* the first value of a sample, without a unit */
	const char *sample; /* the second one */
	const char *unit;   /* and its unit */
	/* Both "" where nothing is sampled by a period; Pyroscope needs the message all the same. */
	const char *period;
	const char *period_unit;
	const char *suffix; /* of a file's name */
};

/* Pyroscope's id of a type is "series:sample:unit:period:period_unit", or with count in place of sample. */
static inline const struct sp_profile_type_names *sp_profile_type_names(enum sp_profile_type type)
{
	static const struct sp_profile_type_names names[SP_PROFILE_TYPES] = {
		[SP_PROFILE_CPU] = {"process_cpu", "samples", "cpu", "nanoseconds", "cpu",
				    "nanoseconds", ""},
		[SP_PROFILE_OFF_CPU] = {"off_cpu", "samples", "off_cpu", "nanoseconds", "", "",
					"-off_cpu"},
		[SP_PROFILE_WALL] = {"wall", "samples", "wall", "nanoseconds", "wall",
				     "nanoseconds", "-wall"},
		[SP_PROFILE_MEMORY] = {"memory", "alloc_objects", "alloc_space", "bytes", "space",
				       "bytes", "-memory"},
		[SP_PROFILE_IN_USE] = {"memory", "inuse_objects", "inuse_space", "bytes", "space",
				       "bytes", "-inuse"},
	};

	return &names[type];
}

/* Its values are bytes, and its samples blocks of memory. */
static inline bool sp_profile_type_is_of_memory(enum sp_profile_type type)
{
	return type == SP_PROFILE_MEMORY || type == SP_PROFILE_IN_USE;
}

/* Its samples are looks at waiting threads, which are counted as waits. */
static inline bool sp_profile_type_is_of_waits(enum sp_profile_type type)
{
	return type == SP_PROFILE_OFF_CPU || type == SP_PROFILE_WALL;
}

struct sp_bytes {
	uint8_t *data; /* malloc'ed */
	size_t len;
};

struct sp_pprof_limits {
	uint32_t samples;
	size_t bytes; /* of the packed, uncompressed profile */
};

struct sp_pprof_times {
	int64_t period_ns;   /* in the unit of the type's period */
	int64_t time_ns;     /* since the epoch, begin of the interval */
	int64_t duration_ns; /* of the interval */
	enum sp_profile_type type;
	const struct sp_profile_type_names *names; /* NULL = those of the type */
	const struct sp_bytes
		*resource; /* NULL = it is not for OTLP (otlp.h), where names have dots */
};

struct sp_pprof_mapping {
	uint64_t start;
	uint64_t limit;
	uint64_t offset;
	const char *file;
	const char *build_id; /* hex, "" = none */
	bool functions;       /* its locations have functions */
	bool lines;           /* ... with files, lines and inlined functions, as far as known */
};

/* One function of a location, innermost first. */
struct sp_pprof_line {
	uint64_t function;
	int64_t line; /* 0 = unknown */
};

/*
 * The labels of a sample: X(name), which is the key in a profile. What else has to know them is made from this list:
 * the names that the labels of a series may not have, and the tests of the way from the ring to the report.
 */
// clang-format off
#define SP_FOR_EACH_SAMPLE_LABEL(X) \
	X(span_id) \
	X(span_name) \
	X(trace_id) \
	X(thread_name) \
	X(blocked_by_span_id)
// clang-format on

struct sp_label {
	const char *name;
	const char *value;
};

/* Those of the list, and values of attributes. */
#define SP_SAMPLE_LABELS_MAX (0 SP_FOR_EACH_SAMPLE_LABEL(SP_SAMPLE_LABEL_ONE_) + SP_SPAN_VALUES_MAX)
// NOLINTNEXTLINE(bugprone-macro-parentheses): one summand of a sum
#define SP_SAMPLE_LABEL_ONE_(name) +1

/*
 * The name of a label that is made of any other name. Older servers refuse everything but
 * [a-zA-Z_][a-zA-Z0-9_]*; what is something else becomes an underscore. Returns its length, 0 for an empty name.
 */
#define SP_LABEL_NAME_MAX 1024U
size_t sp_label_name(char out[SP_LABEL_NAME_MAX], const char *name, size_t len);

/*
 * The same for OTLP, where an attribute keeps the dots of its name ("http.route"). Pyroscope 2.2 keeps them as well,
 * or, where -validation.disable-label-sanitization is false, makes underscores of them; then it refuses all of a request
 * in which a name has another character that no label may have.
 */
size_t sp_attribute_name(char out[SP_LABEL_NAME_MAX], const char *name, size_t len);

/* Whether both are one label: "http.route" is "http_route" where dots are no part of a name. */
bool sp_label_is(const char *a, const char *b);

/* Why no user may choose that name for a label; NULL = it is free. */
const char *sp_label_refusal(const char *name);

struct sp_pprof_sample {
	uint64_t *location; /* ids, leaf first; not written to */
	size_t locations;
	int64_t count; /* the first value */
	int64_t ns;    /* the second one, in the unit of its type */
	/* A value of NULL = none. The name of a label is at the same address in all samples. */
	const struct sp_label *label;
	size_t labels; /* at most SP_SAMPLE_LABELS_MAX */
};

/* A point to go back to. */
struct sp_pprof_mark {
	uint32_t samples, mappings, functions, locations, strings;
	size_t packed, bytes;
};

struct sp_pprof;

/* NULL when out of memory. Comments are added first, then mappings and so on in any order. */
struct sp_pprof *sp_pprof_new(const struct sp_pprof_limits *limits,
			      const struct sp_pprof_times *times);
void sp_pprof_free(struct sp_pprof *p);

/* These return 0 or -ENOMEM, and ids from 1. Equal functions get equal ids; the caller asks only
 * once for each mapping and location. Strings are cleaned and cut. */
int sp_pprof_comment(struct sp_pprof *p, const char *text);
int sp_pprof_mapping(struct sp_pprof *p, const struct sp_pprof_mapping *m, uint64_t *id);
int sp_pprof_function(struct sp_pprof *p, const char *name, const char *system_name,
		      const char *file, uint64_t *id);
int sp_pprof_location(struct sp_pprof *p, uint64_t mapping, uint64_t address,
		      const struct sp_pprof_line *line, size_t lines, uint64_t *id);

/* As above, and -E2BIG when the profile with this sample would exceed a limit. */
int sp_pprof_sample(struct sp_pprof *p, const struct sp_pprof_sample *s);

/* Mark a state, and undo everything since; after a rewind the profile may only be packed. */
void sp_pprof_mark(const struct sp_pprof *p, struct sp_pprof_mark *mark);
void sp_pprof_rewind(struct sp_pprof *p, const struct sp_pprof_mark *mark);

uint32_t sp_pprof_samples(const struct sp_pprof *p);

/* The profile as protobuf, once: afterwards it may only be freed. Equal calls give equal bytes. 0 or
 * -ENOMEM. */
int sp_pprof_pack(struct sp_pprof *p, struct sp_bytes *out);

/* A push request with one series and one profile. 0 or -ENOMEM. */
int sp_pprof_request(const struct sp_label *labels, size_t n, const char *id,
		     const struct sp_bytes *profile, struct sp_bytes *out);

#endif
