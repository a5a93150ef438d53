/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name parameter of /ingest: app{key=value,key2=value2}. There is no escaping.
 */
#ifndef PD_LABELSET_H
#define PD_LABELSET_H

#include "test/pyroscope/labels.h"

/*
 * labels: __name__ = the application, then the pairs; the last one of equal keys wins. All text
 * points into name. 0 or -1 with the error set.
 */
int pd_labelset_parse(struct pd_arena *a, struct pd_bytes name, struct pd_labels *labels,
		      struct pd_error *e);

#endif
