/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the profiler in a process (state.h). Contexts: INIT, APP. */
#include "preload/lifecycle/state.h"

#include <errno.h>

#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/thread/thread.h"

_Atomic int sp_lifecycle_state = SP_LIFECYCLE_OFF;
struct sp_config sp_lifecycle_settings;
_Atomic bool sp_lifecycle_ended;
SP_TLS uintptr_t sp_reentrancy_guard_frame;

enum sp_lifecycle_state sp_lifecycle_here(void)
{
	int now = atomic_load_explicit(&sp_lifecycle_state, memory_order_acquire);
	int saved = errno;
	bool ours;

	if (sp_seccomp_is_on())
		return SP_LIFECYCLE_OFF;
	if (now == SP_LIFECYCLE_OFF || now == SP_LIFECYCLE_ASLEEP)
		return (enum sp_lifecycle_state)now;
	ours = sp_process_is_ours();
	errno = saved;
	return ours ? (enum sp_lifecycle_state)now : SP_LIFECYCLE_OFF;
}

static void turn_off(enum sp_lifecycle_state how)
{
	atomic_store_explicit(&sp_lifecycle_state, (int)how, memory_order_relaxed);
	sp_thread_disarm_all();
	sp_thread_unpublish();
}

void sp_lifecycle_stop(void)
{
	turn_off(SP_LIFECYCLE_STOPPED);
}

void sp_lifecycle_fail(void)
{
	turn_off(SP_LIFECYCLE_FAILED);
}
