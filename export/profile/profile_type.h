/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of profiles, one row each: what a type is called at a server, in a folder and in a report, and which
 * records of an interval it has. README.md lists what a new type needs besides its row.
 */
#ifndef SP_PROFILE_TYPE_H
#define SP_PROFILE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "export/export.h"

enum sp_profile_type {
	SP_PROFILE_CPU, /* first, so that it is the type in a zeroed struct */
	SP_PROFILE_OFF_CPU,
	SP_PROFILE_WALL,   /* CPU time and waiting time */
	SP_PROFILE_MEMORY, /* allocations */
	SP_PROFILE_IN_USE, /* allocations that were not freed yet */
	SP_PROFILE_TYPES
};

/* The maps of an interval, by the kind of their records. */
enum sp_interval_map {
	SP_MAP_SAMPLES,
	SP_MAP_WAITS,
	SP_MAP_ALLOCATIONS,
	SP_MAP_IN_USE,
	SP_MAPS,
};

struct sp_profile_type_names {
	const char *series; /* __name__ */
	const char *count;  /* name of a sample's first value, which has no unit */
	const char *sample; /* name of the second value */
	const char *unit;   /* its unit */
	/* Both "" if samples have no period; Pyroscope needs the message even then. */
	const char *period;
	const char *period_unit;
	const char *suffix; /* of a file's name */
};

struct sp_profile_type_row {
	/* Pyroscope's id of a type is "series:sample:unit:period:period_unit", or with count in place of sample. */
	struct sp_profile_type_names names;
	enum sp_interval_map first, last; /* the maps whose records it has */
	size_t wanted_at; /* the bool of struct sp_config that asks for it; 0 = it is always made */
	bool is_of_memory; /* its values are bytes and its samples blocks of memory */
	bool is_of_waits; /* its samples are looks at waiting threads, which are counted as waits */
	const char *variable; /* what a program needs for it, for the report; NULL = nothing */
	const char *time;     /* what a report calls its values: "CPU" time */
};

_Static_assert(offsetof(struct sp_config, off_cpu) != 0 && offsetof(struct sp_config, wall) != 0 &&
		       offsetof(struct sp_config, alloc) != 0,
	       "0 means always");

/* The row of SP_PROFILE_TYPES has no names. */
static inline const struct sp_profile_type_row *sp_profile_type_row(enum sp_profile_type type)
{
	static const struct sp_profile_type_row row[SP_PROFILE_TYPES + 1] = {
		[SP_PROFILE_CPU] = {.names = {"process_cpu", "samples", "cpu", "nanoseconds", "cpu",
					      "nanoseconds", ""},
				    .first = SP_MAP_SAMPLES,
				    .last = SP_MAP_SAMPLES,
				    .time = "CPU"},
		[SP_PROFILE_OFF_CPU] = {.names = {"off_cpu", "samples", "off_cpu", "nanoseconds",
						  "", "", "-off_cpu"},
					.first = SP_MAP_WAITS,
					.last = SP_MAP_WAITS,
					.wanted_at = offsetof(struct sp_config, off_cpu),
					.is_of_waits = true,
					.variable = "SPANPROF_OFF_CPU=true",
					.time = "off-CPU"},
		[SP_PROFILE_WALL] = {.names = {"wall", "samples", "wall", "nanoseconds", "wall",
					       "nanoseconds", "-wall"},
				     .first = SP_MAP_SAMPLES,
				     .last = SP_MAP_WAITS,
				     .wanted_at = offsetof(struct sp_config, wall),
				     .is_of_waits = true,
				     .variable = "SPANPROF_WALL=true",
				     .time = "wall"},
		[SP_PROFILE_MEMORY] = {.names = {"memory", "alloc_objects", "alloc_space", "bytes",
						 "space", "bytes", "-memory"},
				       .first = SP_MAP_ALLOCATIONS,
				       .last = SP_MAP_ALLOCATIONS,
				       .wanted_at = offsetof(struct sp_config, alloc),
				       .is_of_memory = true,
				       .variable = "SPANPROF_ALLOC=true",
				       .time = "allocated"},
		[SP_PROFILE_IN_USE] = {.names = {"memory", "inuse_objects", "inuse_space", "bytes",
						 "space", "bytes", "-inuse"},
				       .first = SP_MAP_IN_USE,
				       .last = SP_MAP_IN_USE,
				       .wanted_at = offsetof(struct sp_config, alloc),
				       .is_of_memory = true,
				       .variable = "SPANPROF_ALLOC=true",
				       .time = "in use"},
		[SP_PROFILE_TYPES] = {.names = {"", "", "", "", "", "", ""}},
	};

	return &row[type];
}

static inline bool sp_profile_type_is_wanted(enum sp_profile_type type, const struct sp_config *c)
{
	size_t at = sp_profile_type_row(type)->wanted_at;

	return at == 0 || *(const bool *)((const char *)c + at);
}

/* The type whose values have that name in a profile; SP_PROFILE_TYPES = another program's. */
static inline enum sp_profile_type sp_profile_type_find(const char *sample)
{
	unsigned type = 0;

	while (type < SP_PROFILE_TYPES &&
	       strcmp(sp_profile_type_row((enum sp_profile_type)type)->names.sample, sample) != 0)
		type++;
	return (enum sp_profile_type)type;
}

#endif
