/* SPDX-License-Identifier: Apache-2.0 */
/* The types of profiles that are made: what a server calls them, and what they are summed in. */
#ifndef SP_PROFILE_TYPE_H
#define SP_PROFILE_TYPE_H

enum sp_profile_type {
	SP_PROFILE_CPU, /* the first, so that nothing has to be said for it */
	SP_PROFILE_OFF_CPU,
	SP_PROFILE_WALL, /* both of them */
	SP_PROFILE_TYPES
};

struct sp_profile_type_names {
	const char *series; /* __name__ */
	const char *sample; /* the sample type in nanoseconds */
	/* Both "" where nothing is sampled by a period; Pyroscope needs the message all the same. */
	const char *period;
	const char *period_unit;
	const char *suffix; /* of a file's name */
};

/* Pyroscope's id of a type is "series:sample:nanoseconds:period:period_unit". */
static inline const struct sp_profile_type_names *sp_profile_type_names(enum sp_profile_type type)
{
	static const struct sp_profile_type_names names[SP_PROFILE_TYPES] = {
		[SP_PROFILE_CPU] = {"process_cpu", "cpu", "cpu", "nanoseconds", ""},
		[SP_PROFILE_OFF_CPU] = {"off_cpu", "off_cpu", "", "", "-off_cpu"},
		[SP_PROFILE_WALL] = {"wall", "wall", "wall", "nanoseconds", "-wall"},
	};

	return &names[type];
}

#endif
