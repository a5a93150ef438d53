/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds the lock that a thread of the host waits for. */
#ifndef SP_LOCK_OWNER_H
#define SP_LOCK_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/off_cpu/task.h"

/* Memory of the host. False unless all bytes could be read. */
struct sp_lock_memory {
	bool (*read)(void *arg, uint64_t at, void *out, size_t bytes);
	void *arg;
};

/* The place may be a wait for a lock of the C library. It costs no look into the host. */
bool sp_lock_may_have_owner(const struct sp_task_place *place);

/*
 * The number of the thread that holds the lock at this moment; 0 = nobody does, it is not known, or it is no such
 * lock. It is for the caller to see that there is such a thread, that the wait is one of glibc's, and that it goes on
 * after this was called.
 */
uint32_t sp_lock_owner(const struct sp_task_place *place, const struct sp_lock_memory *memory);

#endif
