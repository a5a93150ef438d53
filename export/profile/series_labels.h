/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which labels of samples a server gets. Pyroscope keeps span_id and trace_id with each sample. Every other label of
 * a sample becomes a label of its series: each new value makes a new series, which the server indexes and keeps. So a
 * label whose values are unbounded is left out, such as blocked_by_span_id, which has a value for each holder of a
 * lock. The user can leave out any label, and the number of label sets is bounded for the life of a process. Folders
 * get all labels.
 */
#ifndef SP_SERIES_LABELS_H
#define SP_SERIES_LABELS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/profile/interval.h"

struct sp_series_labels;

/*
 * left_out: SPANPROF_LABELS (sp_label_is_left_out()); it must outlive the result. max: the greatest number of label
 * sets, without span_id and trace_id. NULL when out of memory.
 */
struct sp_series_labels *sp_series_labels_new(const char *left_out, uint32_t max);
void sp_series_labels_free(struct sp_series_labels *s);

/*
 * Removes the labels of one sample that the server does not get. If the set of its labels is new and there is no
 * room, its values are replaced by "(other)": first those of attributes, then the name of the thread, then the name
 * of the span. Sets with attributes take at most half of the room, and sets with names of threads three quarters, so
 * that spans keep their names. Returns whether a value was replaced.
 */
bool sp_series_labels_apply(struct sp_series_labels *s, struct sp_record_labels *labels);

#endif
