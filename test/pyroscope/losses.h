/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that the server changes or drops although it answers 200. A loss is data that the user will
 * not find; a note is a change that keeps the data. Tests demand that there are no losses.
 */
#ifndef PD_LOSSES_H
#define PD_LOSSES_H

#include <jansson.h>
#include <stdint.h>

#define PD_FOR_EACH_LOSS(X)                                                                        \
	X(numeric_labels)         /* sample labels without a string */                             \
	X(empty_labels)           /* labels whose value is "" */                                   \
	X(repeated_sample_labels) /* the same key twice on one sample; the first wins */           \
	X(shadowed_sample_labels) /* the series has the label already and wins */                  \
	X(invalid_span_ids)       /* not 16 hex digits, or zero: sample without a span */          \
	X(invalid_trace_ids)      /* not 32 hex digits, or zero */                                 \
	X(session_ids)            /* __session_id__ on the series */                               \
	X(default_service_names)  /* no service_name: unknown_service */                           \
	X(replaced_times)         /* no time_nanos: now */                                         \
	X(truncated_stacks)       /* deeper than the limit: leaf frames cut */                     \
	X(truncated_frames)                                                                        \
	X(cut_strings)        /* longer than the limit: head cut */                                \
	X(negative_samples)   /* a value below zero */                                             \
	X(zero_samples)       /* no value but zeros */                                             \
	X(unresolved_samples) /* a location that is missing or unusable */                         \
	X(unusable_locations) /* no line and no address, or a dangling function or mapping */      \
	X(empty_profiles)     /* nothing left to store */                                          \
	X(empty_ingests)      /* /ingest without a profile part that is a file */

#define PD_FOR_EACH_NOTE(X)                                                                        \
	X(merged_samples)          /* equal stack and labels: values added */                      \
	X(renamed_profile_ids)     /* profile_id became span_id */                                 \
	X(locations_without_lines) /* no frame in a flame graph */                                 \
	X(unsafe_label_names)      /* refused by servers before 2.0 */

struct pd_losses {
#define PD_FIELD(name) uint64_t name;
	PD_FOR_EACH_LOSS(PD_FIELD)
	PD_FOR_EACH_NOTE(PD_FIELD)
#undef PD_FIELD
};

void pd_losses_add(struct pd_losses *to, const struct pd_losses *more);
uint64_t pd_losses_total(const struct pd_losses *l);     /* losses only */
json_t *pd_losses_json(const struct pd_losses *l);       /* new reference; with "total" */
json_t *pd_losses_notes_json(const struct pd_losses *l); /* new reference */

#endif
