/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the clocks of a thread. Its file stays open as long as there are few, because opening it takes three times
 * as long as reading it.
 */
#ifndef SP_THREAD_TIMES_H
#define SP_THREAD_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "export/off_cpu/task.h"

/* Zero at first. */
struct sp_thread_times {
	int file; /* descriptor + 1; 0 = not open */
};

/* False if it has ended. */
bool sp_thread_times_read(struct sp_thread_times *t, const char *proc, uint32_t tid,
			  struct sp_task_times *out);
void sp_thread_times_close(struct sp_thread_times *t);

#endif
