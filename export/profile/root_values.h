/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of attributes of local roots, which become labels of their samples (SPANPROF_SPAN_LABELS), and how long roots
 * lasted, which becomes the label latency (SPANPROF_SPAN_LATENCY). Both come when a root ends, after most of its samples. So a profile looks them up by the root's id when it is made. If the
 * root is still open then, its values are not known. Samples that come late, such as those with copied stacks, find
 * the values of their root for one more profile.
 */
#ifndef SP_ROOT_VALUES_H
#define SP_ROOT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "sampler/region/record.h"

#define SP_LATENCY_LABEL "latency"

/* Roots and bytes of texts for one profile; further roots are counted and have no values. */
#define SP_ROOT_VALUES_MAX 65536U
#define SP_ROOT_VALUES_TEXTS ((size_t)8 << 20)

struct sp_root_values;

/* How long a root lasted, compared with the other roots of its name: the values of the label `latency`. */
enum sp_latency {
	SP_LATENCY_UNKNOWN,
	SP_LATENCY_P50,  /* no longer than the median */
	SP_LATENCY_P90,  /* no longer than the 90th percentile */
	SP_LATENCY_P99,  /* no longer than the 99th percentile */
	SP_LATENCY_SLOW, /* longer; or at least the duration that SPANPROF_SLOW gives the name */
	SP_LATENCIES,
};
extern const char *const sp_latency_words[SP_LATENCIES]; /* NULL for SP_LATENCY_UNKNOWN */

/* A root has at most this many labels: values of attributes, and latency. */
#define SP_ROOT_LABELS_MAX (SP_SPAN_VALUES_MAX + 1)

/* The table of one process, by its configuration. NULL when out of memory. */
struct sp_root_values *sp_root_values_new(const struct sp_core_ops *ops);
void sp_root_values_free(struct sp_root_values *v);

/* A root has ended. The host may write anything that has the form of such a record. Does nothing for NULL. */
void sp_root_values_take(struct sp_root_values *v, const struct sp_span_values *record);

/*
 * A root with samples has ended, with that duration. Its values, if any, come later. The host may write anything here,
 * too. Does nothing for NULL.
 */
void sp_root_values_end(struct sp_root_values *v, const struct sp_root_end *end);

/*
 * Before a profile is made: asks for the latency of each root whose duration is known. Then sp_root_values_keep_id() may
 * name further roots whose samples keep their ids. Both do nothing for NULL.
 */
typedef enum sp_latency (*sp_root_latency_of)(void *arg, const struct sp_root_end *end);
void sp_root_values_decide(struct sp_root_values *v, sp_root_latency_of latency_of, void *arg);
void sp_root_values_keep_id(struct sp_root_values *v, uint64_t root_id);

/*
 * Whether a root has ended and was not slow, so that its samples need no ids (SPANPROF_SPAN_ID_SCOPE=slow). *alike: the
 * root whose labels are the same, if they are known, so that samples of both can be added up; else root_id.
 */
bool sp_root_values_is_usual(const struct sp_root_values *v, uint64_t root_id, uint64_t *alike);

/* A profile was made: forgets the roots of the profile before it. Does nothing for NULL. */
void sp_root_values_age(struct sp_root_values *v);

/* The attributes that are labels, latency among them, and their names (sp_attribute_name()). */
unsigned sp_root_values_attributes(const struct sp_root_values *v);
const char *sp_root_values_name(const struct sp_root_values *v, unsigned attribute);

/* The value of that root, valid until the next record is taken; never empty. NULL = unknown. */
const char *sp_root_values_get(const struct sp_root_values *v, uint64_t root_id, unsigned attribute,
			       size_t *len);

/*
 * Makes the names of the attributes in that list of keys (NULL = none), in its order, by sp_attribute_name(). A name is "" if it is
 * reserved, or used for another key already; then refused, if not NULL, is called. Returns the number of keys.
 */
typedef void (*sp_root_label_refused)(void *arg, const char *key, size_t len, const char *reason);
unsigned sp_root_labels(const char *keys, char name[SP_SPAN_VALUES_MAX][SP_SPAN_KEY_BYTES + 2],
			sp_root_label_refused refused, void *arg);

#endif
