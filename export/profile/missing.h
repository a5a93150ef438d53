/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of a process whose functions have no names or no lines, with the CPU time that was spent in them and
 * the reason. They tell a user why there is an address in place of a function.
 */
#ifndef SP_MISSING_H
#define SP_MISSING_H

#include "export/profile/interval.h"

/* Objects that are listed separately. */
#define SP_MISSING_MAX 128U

struct sp_missing_object {
	char *file; /* malloc'ed */
	uint8_t build_id[SP_BUILD_ID_MAX];
	size_t build_id_len;
	enum sp_lack lack;   /* in the last interval with samples in it */
	bool has_unnamed;    /* functions without names were seen in stacks */
	uint64_t ns;         /* of samples whose innermost function is in the object */
	uint64_t unnamed_ns; /* the part of it in functions without a name */
};

/* Zero it at first use. */
struct sp_missing {
	struct sp_missing_object *object; /* the object with the most time first */
	size_t n, cap;
	uint64_t ns;       /* CPU time of all samples, in any object */
	uint64_t other_ns; /* of objects for which there was no room */
	uint64_t changes;  /* counts changes of this struct */
};

/* Adds the CPU time of an interval whose frames are named. When memory is short, the time is added to other_ns. */
void sp_missing_add(struct sp_missing *m, const struct sp_interval *i);
void sp_missing_fini(struct sp_missing *m);

#endif
