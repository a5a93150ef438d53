/* SPDX-License-Identifier: Apache-2.0 */
/* An encoded profile, and what it counts. */
#ifndef SP_ENCODED_H
#define SP_ENCODED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"

struct sp_encoded {
	struct sp_bytes bytes;  /* pprof, malloc'ed */
	struct sp_bytes packed; /* the same with gzip, after sp_encoded_pack() */
	uint32_t end;           /* the first record after the profile */
	uint32_t records;       /* records in the profile; a record without a value is skipped */
	/* samples that it counts: of CPU time in a profile of CPU time, otherwise waits */
	uint64_t samples;
	uint32_t *counted; /* the same for each record in the profile, malloc'ed */
	size_t counted_cap;
	/* samples without frames, because their stack is too large for any profile */
	uint64_t others;
	/* samples with "(other)" in a label, because of the bound on series */
	uint64_t over_series;
	bool has_all_labels; /* a folder would get the same profile */
};

void sp_encoded_fini(struct sp_encoded *e);

/* Makes e->packed, once, however often it is called. 0 or -ENOMEM. */
int sp_encoded_pack(struct sp_encoded *e);

#endif
