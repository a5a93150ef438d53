/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter of a running process: another process, which has mapped the same shared memory. By name
 * or parent it cannot be told, as it has neither of its host's.
 */
#ifndef SP_RUN_EXPORTER_H
#define SP_RUN_EXPORTER_H

#include "scripts/run/process.h"

enum sp_exporter_of {
	SP_EXPORTER_OF_NONE, /* the process has no shared memory: it records nothing, or could not begin */
	SP_EXPORTER_OF_ENDED, /* it has some, and nobody else has */
	SP_EXPORTER_OF_FOUND,
};

/*
 * Reads the list of mappings of every process that we may look at, so before sp_process_enter(). The
 * position in p->maps is then at its beginning.
 */
enum sp_exporter_of sp_exporter_of(const struct sp_process *p);

#endif
