/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the profiler in a process (state.h): its end by a failure, and when a start that
 * failed is tried again. Contexts: APP, INIT, and SIG at the first sample of a forked child.
 */
#include "preload/lifecycle/state.h"

#include <errno.h>

#include "preload/exporter/exporter.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/thread/thread.h"

_Atomic int sp_lifecycle_state = SP_LIFECYCLE_OFF;
struct sp_config sp_lifecycle_settings;
_Atomic bool sp_lifecycle_ended;
SP_TLS uintptr_t sp_reentrancy_guard_frame;

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

const char *sp_lifecycle_reason(int err)
{
	switch (-err) {
	case ENOMEM:
		return "out of memory or address space";
	case EMFILE:
	case ENFILE:
		return "out of descriptors";
	case EAGAIN:
		return "no more processes are allowed";
	case EBUSY:
		return "the former exporter has not ended yet";
	case EADDRNOTAVAIL:
		return "too many exporters have ended within a minute";
	case EFBIG:
		return "RLIMIT_FSIZE is too low";
	default:
		return "a system call was refused";
	}
}

/*
 * A server at a peak of connections may have no descriptor left, and a container may be at its
 * limit of processes for a moment. A start that fails for such a reason is tried again, after 1
 * second, 2, 4 and so on, for about four minutes in all. If the reason persists, the log says so.
 */
#define TRIES_MAX 8U
#define PAUSE_NS SP_NS_PER_S

static unsigned tries; /* failed starts since an exporter worked */
/* the time of the next try, by the coarse clock; 0 = none has failed */
static _Atomic uint64_t not_before;

bool sp_lifecycle_put_off(int err)
{
	if (!sp_exporter_error_passes(err) || tries == TRIES_MAX)
		return false;
	if (tries == 0)
		sp_log(SP_LOG_WARN, "cannot set up sampling (%s): trying again for some minutes",
		       sp_lifecycle_reason(err));
	atomic_store_explicit(&not_before, sp_monotonic_coarse_ns() + (PAUSE_NS << tries++),
			      memory_order_relaxed);
	return true;
}

bool sp_lifecycle_was_put_off(void)
{
	return atomic_load_explicit(&not_before, memory_order_relaxed) != 0;
}

bool sp_lifecycle_is_put_off(void)
{
	return sp_lifecycle_was_put_off() &&
	       sp_monotonic_coarse_ns() < atomic_load_explicit(&not_before, memory_order_relaxed);
}

void sp_lifecycle_has_started(void)
{
	tries = 0;
	atomic_store_explicit(&not_before, 0, memory_order_relaxed);
}
