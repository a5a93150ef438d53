/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of attributes of local roots, which are labels of their samples (SPANPROF_SPAN_LABELS). A root's values come
 * when it ends, after most of its samples, and are looked up by its id when a profile is made. Of a root that is open
 * then nothing is known; samples that come late, such as those whose stacks were copied, find the values of their
 * root for one more profile.
 */
#ifndef SP_ROOT_VALUES_H
#define SP_ROOT_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "sampler/region/record.h"

/* Of the roots of one profile; what is one too many is counted and has no values. */
#define SP_ROOT_VALUES_MAX 65536U
#define SP_ROOT_VALUES_TEXTS ((size_t)8 << 20)

struct sp_root_values;

/* Of one process, by its configuration. NULL when out of memory. */
struct sp_root_values *sp_root_values_new(const struct sp_core_ops *ops);
void sp_root_values_free(struct sp_root_values *v);

/* A root has ended. What a host says may be anything that has the form of such a record. No-op for NULL. */
void sp_root_values_take(struct sp_root_values *v, const struct sp_span_values *record);

/* A profile was made: what came before the one before it is forgotten. No-op for NULL. */
void sp_root_values_age(struct sp_root_values *v);

/* The attributes that are labels, and their names (sp_attribute_name()). */
unsigned sp_root_values_attributes(const struct sp_root_values *v);
const char *sp_root_values_name(const struct sp_root_values *v, unsigned attribute);

/* The value of that root, valid until the next record is taken; never empty. NULL = it is not known. */
const char *sp_root_values_get(const struct sp_root_values *v, uint64_t root_id, unsigned attribute,
			       size_t *len);

/*
 * The names of attributes for that list of keys, in its order, as sp_attribute_name() makes them. ""
 * where that name is no user's to choose, or another one's already; refused, if not NULL, is told so. How many keys.
 */
typedef void (*sp_root_label_refused)(void *arg, const char *key, size_t len, const char *reason);
unsigned sp_root_labels(const char *keys, char name[SP_SPAN_VALUES_MAX][SP_SPAN_KEY_BYTES + 2],
			sp_root_label_refused refused, void *arg);

#endif
