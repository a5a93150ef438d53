/* SPDX-License-Identifier: Apache-2.0 */
/* One pprof profile within limits, and the request that sends it to the server. */
#ifndef SP_PPROF_H
#define SP_PPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/profile_type.h"
#include "sampler/region/record.h"

struct sp_bytes {
	uint8_t *data; /* malloc'ed */
	size_t len;
};

struct sp_pprof_limits {
	uint32_t samples;
	size_t bytes; /* size of the packed, uncompressed profile */
};

struct sp_pprof_times {
	int64_t period_ns;   /* in the unit of the type's period */
	int64_t time_ns;     /* since the epoch, begin of the interval */
	int64_t duration_ns; /* of the interval */
	enum sp_profile_type type;
	const struct sp_profile_type_names *names; /* NULL = the names of the type */
	const struct sp_bytes
		*resource; /* NULL = not for OTLP (otlp.h), where label names have dots */
};

struct sp_pprof_mapping {
	uint64_t start;
	uint64_t limit;
	uint64_t offset;
	const char *file;
	const char *build_id; /* hex, "" = none */
	bool functions;       /* its locations have functions */
	/* and these have files, lines and inlined functions, as far as known */
	bool lines;
};

/* One function of a location, innermost first. */
struct sp_pprof_line {
	uint64_t function;
	int64_t line; /* 0 = unknown */
};

/*
 * The labels of a sample: X(name) with the key in a profile. This list also defines the reserved names of series
 * labels, and the tests of labels from the ring to the report.
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

/* The labels of the list, values of attributes, and latency. */
#define SP_SAMPLE_LABELS_MAX                                                                       \
	(0 SP_FOR_EACH_SAMPLE_LABEL(SP_SAMPLE_LABEL_ONE_) + SP_SPAN_VALUES_MAX + 1)
// NOLINTNEXTLINE(bugprone-macro-parentheses): one summand of a sum
#define SP_SAMPLE_LABEL_ONE_(name) +1

/*
 * Makes the name of a label from any name. Older servers refuse every name but [a-zA-Z_][a-zA-Z0-9_]*, so other
 * characters become underscores. Returns the length, 0 for an empty name.
 */
#define SP_LABEL_NAME_MAX 1024U
size_t sp_label_name(char out[SP_LABEL_NAME_MAX], const char *name, size_t len);

/*
 * The same for OTLP, where an attribute keeps the dots of its name ("http.route"). Pyroscope 2.2 keeps the dots too,
 * or makes underscores of them if -validation.disable-label-sanitization is false; then it refuses the whole request
 * if a name has another character that labels may not have.
 */
size_t sp_attribute_name(char out[SP_LABEL_NAME_MAX], const char *name, size_t len);

/* Whether both names mean one label: "http.route" is "http_route" for servers without dots in names. */
bool sp_label_is(const char *a, const char *b);

/* Why a user may not choose that name for a label; NULL = the name is free. */
const char *sp_label_refusal(const char *name);

/*
 * Whether a server gets no label of that name: the list, which is SPANPROF_LABELS, has it with an empty value ("pid=").
 * "process.pid" is "pid", and "host.name" is "hostname". NULL = the list is empty.
 */
bool sp_label_is_left_out(const char *list, const char *name);

struct sp_pprof_sample {
	uint64_t *location; /* ids, leaf first; not modified */
	size_t locations;
	int64_t count; /* the first value */
	int64_t ns;    /* the second value, in the unit of its type */
	/* A label with the value NULL is left out. The name of a label has the same address in all samples. */
	const struct sp_label *label;
	size_t labels; /* at most SP_SAMPLE_LABELS_MAX */
	/* Numbers that are labels of a sample with a time (slow_times.h). */
	int64_t end_ns; /* since the epoch; 0 = neither is a label */
	int64_t thread_id;
};

#define SP_LABEL_END "end_timestamp_ns"
#define SP_LABEL_THREAD_ID "thread_id"

/* A point to go back to. */
struct sp_pprof_mark {
	uint32_t samples, mappings, functions, locations, strings;
	size_t packed, bytes;
};

struct sp_pprof;

/* NULL when out of memory. Call the functions below for comments first, then for mappings and so on in any order. */
struct sp_pprof *sp_pprof_new(const struct sp_pprof_limits *limits,
			      const struct sp_pprof_times *times);
void sp_pprof_free(struct sp_pprof *p);

/*
 * These return 0 or -ENOMEM, and ids from 1. Equal functions get equal ids; the caller must ask only once for each
 * mapping and location. Strings are cleaned and cut.
 */
int sp_pprof_comment(struct sp_pprof *p, const char *text);
int sp_pprof_mapping(struct sp_pprof *p, const struct sp_pprof_mapping *m, uint64_t *id);
int sp_pprof_function(struct sp_pprof *p, const char *name, const char *system_name,
		      const char *file, uint64_t *id);
int sp_pprof_location(struct sp_pprof *p, uint64_t mapping, uint64_t address,
		      const struct sp_pprof_line *line, size_t lines, uint64_t *id);

/* The same, and -E2BIG if the profile with this sample would exceed a limit. */
int sp_pprof_sample(struct sp_pprof *p, const struct sp_pprof_sample *s);

/* Mark a state, and undo everything since it; after a rewind the profile may only be packed. */
void sp_pprof_mark(const struct sp_pprof *p, struct sp_pprof_mark *mark);
void sp_pprof_rewind(struct sp_pprof *p, const struct sp_pprof_mark *mark);

uint32_t sp_pprof_samples(const struct sp_pprof *p);

/* The profile as protobuf, once: afterwards it may only be freed. Equal calls give equal bytes. 0 or
 * -ENOMEM. */
int sp_pprof_pack(struct sp_pprof *p, struct sp_bytes *out);

/*
 * The begin of a push request with one series and one profile. The bytes of the profile, which are so many, are all of the
 * rest. 0 or -ENOMEM.
 */
int sp_pprof_request_head(const struct sp_label *labels, size_t n, const char *id,
			  size_t profile_len, struct sp_bytes *out);

/* The profile of such a request. 0, -EINVAL for another one and without memory to read it, or -ENOMEM; free profile->data. */
int sp_pprof_of_request(const struct sp_bytes *request, struct sp_bytes *profile);

#endif
