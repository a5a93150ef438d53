/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the thread that holds the lock for which a thread of the host waits. */
#ifndef SP_LOCK_OWNER_H
#define SP_LOCK_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/off_cpu/task.h"

/* Reads memory of the host. False unless all bytes could be read. */
struct sp_lock_memory {
	bool (*read)(void *arg, uint64_t at, void *out, size_t bytes);
	void *arg;
};

/* Whether the thread may wait for a lock of the C library. Reads nothing from the host. */
bool sp_lock_may_have_owner(const struct sp_task_place *place);

/*
 * The id of the thread that holds the lock at this moment; 0 = no thread does, the holder is not known, or the word
 * is no such lock. The caller has to check that the thread exists, that the waiting code is glibc's, and that the
 * thread still waits after this call.
 */
uint32_t sp_lock_owner(const struct sp_task_place *place, const struct sp_lock_memory *memory);

#endif
