/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when another exporter is started, and logs it. Context: APP. */
#include "preload/exporter/exporter_restart.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/exporter/exporter.h"
#include "preload/exporter/exporter_family.h"
#include "preload/exporter/exporter_process.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/region/region.h"
#include "sampler/sampling/region_swap.h"

/* Each exporter takes a region, and the first one has one. */
#define RESTARTS_MAX (SP_REGIONS_MAX - 1)

/*
 * The first restart is immediate: the process may be about to end, with samples that nobody has
 * taken.
 */
static const uint64_t pause_ns[RESTARTS_MAX] = {
	0,
	1 * SP_NS_PER_S,
	10 * SP_NS_PER_S,
};

static unsigned restarts;
static uint64_t due_ns; /* of the next restart; 0 = none is needed so far */

static bool is_due(void)
{
	uint64_t now = sp_monotonic_ns();

	if (due_ns == 0)
		due_ns = now + pause_ns[restarts];
	return now >= due_ns && sp_exporter_process_may_start();
}

static void tell(bool had_none, uint64_t lost)
{
	if (had_none && lost == 0)
		sp_log(SP_LOG_INFO, "the program's exporter does not serve this process: "
				    "started another one");
	else if (had_none)
		sp_log(SP_LOG_WARN,
		       "the program's exporter does not serve this process any more: "
		       "started another one, what it had not sent is lost: %llu samples",
		       (unsigned long long)lost);
	else
		sp_log(SP_LOG_WARN,
		       "the exporter ended; started again (%u of %u times), what it had not sent "
		       "is lost: %llu samples",
		       restarts, RESTARTS_MAX, (unsigned long long)lost);
}

enum sp_restart sp_exporter_restart(const struct sp_config *cfg)
{
	uint32_t now = atomic_load_explicit(&sp_region_now()->exporter, memory_order_acquire);
	bool refused = now == SP_EXPORTER_REFUSED;
	/*
	 * Or this process was not taken in by the exporter that it joined, and has given up
	 * waiting.
	 */
	bool had_none = refused || atomic_load_explicit(&sp_region_now()->exporter_pid,
							memory_order_relaxed) == 0;
	uint64_t lost = 0;
	int fd;

	/* One that never worked is not started again: it would fail in the same way. */
	if ((!refused && now != SP_EXPORTER_GONE) || restarts == RESTARTS_MAX)
		return SP_RESTART_NEVER;
	if (!refused && !is_due())
		return SP_RESTART_LATER;
	if (refused)
		sp_exporter_family_leave();
	restarts++;
	due_ns = 0;
	fd = sp_region_swap(cfg->server_address != NULL, &lost);
	if (fd < 0 || sp_exporter_start(cfg, fd) != 0)
		return SP_RESTART_NEVER;
	tell(had_none, lost);
	return SP_RESTART_DONE;
}

void sp_exporter_restart_forked(void)
{
	restarts = 0;
	due_ns = 0;
}
