/* SPDX-License-Identifier: Apache-2.0 */
/* The time between two looks at a thread, cut by the labels that it had. */
#ifndef SP_LABEL_PARTS_H
#define SP_LABEL_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/region/thread_labels.h"

struct sp_label_part {
	struct sp_thread_label label; /* all 0 = it is forgotten which one it was */
	uint64_t ns;
	bool is_first; /* the label that it had at the last look */
	bool is_now;   /* the label that it has now; of the last part only */
	bool is_quiet; /* set by the caller: at its begin or end the thread was seen waiting */
};

/* One more than labels: time of which the label is forgotten. Time without a label is in none. */
#define SP_LABEL_PARTS_MAX (SP_THREAD_LABELS_KEPT + 1)

struct sp_label_parts {
	struct sp_label_part part[SP_LABEL_PARTS_MAX];
	unsigned n;
	uint64_t window_ns;
};

struct sp_label_window {
	uint64_t from_ns;
	uint64_t until_ns; /* not before from_ns */
	uint32_t known;    /* labels that were there at its begin */
	bool had_label;    /* the last of these was active then */
};

/* Times are what a host wrote: whatever they are, the parts lie in the window and do not overlap. */
void sp_label_parts_cut(const struct sp_thread_labels_copy *c, const struct sp_label_window *w,
			struct sp_label_parts *out);

/* Of a time: what the thread was not on a processor. */
struct sp_spent {
	uint64_t off_ns;   /* blocked */
	uint64_t delay_ns; /* waiting for a processor */
};

/*
 * When in the window a thread computed is not known. It was not in quiet parts, as far as there is other time in
 * which it can have been: that matters for spans that wait from end to end while the thread computes between
 * them.
 */
struct sp_split {
	struct sp_spent quiet;
	uint64_t quiet_ns;
	struct sp_spent other;
	uint64_t other_ns; /* with the time that is in no part */
};

void sp_label_parts_divide(const struct sp_label_parts *p, const struct sp_spent *spent,
			   struct sp_split *out);

/* What of it is the part's. */
void sp_label_part_share(const struct sp_label_part *part, const struct sp_split *split,
			 struct sp_spent *out);

#endif
