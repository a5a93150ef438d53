/* SPDX-License-Identifier: Apache-2.0 */
/* What the exporter may ask of the core. BG context. */
#ifndef SP_CORE_OPS_H
#define SP_CORE_OPS_H

#include "export/export.h"

/* All but what the background thread adds: how the exporter waits, and whether to flush. */
void sp_core_ops_init(struct sp_core_ops *ops, const struct sp_config *config);

#endif
