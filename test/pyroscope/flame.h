/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph in the querier's JSON form.
 */
#ifndef PD_FLAME_H
#define PD_FLAME_H

#include <jansson.h>

#include "test/pyroscope/record.h"

struct pd_flame {
	struct pd_arena arena;
	struct pd_flame_node *root;
	size_t nodes;
	int64_t total;
};

/* Adds a row's value of one sample type under the names of its frames. */
void pd_flame_add(struct pd_flame *f, const struct pd_record *r, const struct pd_row *row,
		  size_t sample_type);
json_t *pd_flame_json(const struct pd_flame *f); /* new reference */
void pd_flame_fini(struct pd_flame *f);

#endif
