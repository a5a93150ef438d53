/* SPDX-License-Identifier: Apache-2.0 */
/* What was lost since the last upload, in words. */
#ifndef SP_LOSSES_H
#define SP_LOSSES_H

#include "export/export.h"

struct sp_losses {
	uint64_t told[SP_COUNTER_N]; /* the counters when they were told of last */
};

/* Says in one line which counters of losses grew, if any did. */
void sp_losses_tell(struct sp_losses *l, const struct sp_core_ops *ops);

#endif
