/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when another exporter is started, and logs it. Context: APP. */
#include "preload/exporter/exporter_restart.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/exporter/exporter.h"
#include "preload/exporter/exporter_family.h"
#include "preload/exporter/exporter_process.h"
#include "sampler/base/fmt.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/region/region.h"
#include "sampler/sampling/region_swap.h"

/* After exporters that ended before their time. */
#define RESTARTS_MAX 3U

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

/*
 * An exporter that has ended with the process that started it is replaced at once, unless that is
 * this process: it is about to execute another program. If that fails, it goes on after this pause.
 */
#define EXEC_PAUSE_NS SP_NS_PER_S

static uint64_t pause_after(uint32_t state, bool ends)
{
	if (state != SP_EXPORTER_MOVED)
		return pause_ns[restarts];
	return !ends && atomic_load_explicit(&sp_region_now()->end_asked, memory_order_relaxed) != 0
		       ? EXEC_PAUSE_NS
		       : 0;
}

static bool is_due(uint32_t state, bool ends)
{
	uint64_t now = sp_monotonic_ns();

	if (due_ns == 0 || (ends && state == SP_EXPORTER_MOVED))
		due_ns = now + pause_after(state, ends);
	return now >= due_ns && sp_exporter_process_may_start();
}

static void tell(bool moved, bool had_none, const struct sp_region_loss *loss)
{
	bool none = loss->samples == 0 && loss->waits == 0;
	enum sp_log_level level = none ? SP_LOG_INFO : SP_LOG_WARN;
	char lost[96] = "";
	char waits[40] = "";

	if (loss->waits != 0)
		(void)sp_fmt_snprintf(waits, sizeof(waits), ", %llu waits",
				      (unsigned long long)loss->waits);
	if (!none || (!moved && !had_none))
		(void)sp_fmt_snprintf(lost, sizeof(lost),
				      ", what it had not sent is lost: %llu samples%s",
				      (unsigned long long)loss->samples, waits);
	if (moved)
		sp_log(level,
		       "the program's exporter ended with the process that had started it: "
		       "started another one%s",
		       lost);
	else if (had_none)
		sp_log(level,
		       "the program's exporter does not serve this process: started another one%s",
		       lost);
	else
		sp_log(SP_LOG_WARN, "the exporter ended; started again (%u of %u times)%s",
		       restarts, RESTARTS_MAX, lost);
}

enum sp_restart sp_exporter_restart(const struct sp_config *cfg, bool ends)
{
	uint32_t now = atomic_load_explicit(&sp_region_now()->exporter, memory_order_acquire);
	bool refused = now == SP_EXPORTER_REFUSED;
	bool moved = now == SP_EXPORTER_MOVED;
	/*
	 * Or this process was not taken in by the exporter that it joined, and has given up
	 * waiting.
	 */
	bool had_none = refused || atomic_load_explicit(&sp_region_now()->exporter_pid,
							memory_order_relaxed) == 0;
	struct sp_region_loss loss = {0};
	int fd;

	/* One that never worked is not started again: it would fail in the same way. */
	if (!moved && ((!refused && now != SP_EXPORTER_GONE) || restarts == RESTARTS_MAX))
		return SP_RESTART_NEVER;
	if (!refused && !is_due(now, ends))
		return SP_RESTART_LATER;
	if (refused)
		sp_exporter_family_leave();
	/* Only what may happen again for the same reason is counted. */
	restarts += !moved;
	due_ns = 0;
	fd = sp_region_swap(&loss);
	/* Too many regions: what was to be replaced is gone for good, and is told of as such. */
	if (fd < 0 && moved)
		atomic_store_explicit(&sp_region_now()->exporter, SP_EXPORTER_GONE,
				      memory_order_relaxed);
	if (fd < 0 || sp_exporter_start(cfg, fd) != 0)
		return SP_RESTART_NEVER;
	tell(moved, had_none, &loss);
	return SP_RESTART_DONE;
}

void sp_exporter_restart_forked(void)
{
	restarts = 0;
	due_ns = 0;
}
