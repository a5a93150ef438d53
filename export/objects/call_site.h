/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the call calls that has left a return address. Code is read from the files of the host's objects. Where
 * it calls by a slot for functions of other objects (a GOT), that slot is read from the host.
 */
#ifndef SP_CALL_SITE_H
#define SP_CALL_SITE_H

#include <stdint.h>

#include "export/objects/mapped.h"
#include "export/objects/unwind_snapshot.h"

struct sp_call_memory {
	struct sp_mapped *code;
	struct sp_unwinder_memory data;
};

enum sp_call {
	SP_CALL_NONE,  /* there is no call before that address */
	SP_CALL_KNOWN, /* of the function that begins at *target */
	SP_CALL_ANY,   /* by a pointer that is gone, or a slot that cannot be read */
};

enum sp_call sp_call_before(const struct sp_call_memory *m, uint64_t at, uint64_t *target);

#endif
