/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spreads symbolization over time: the exporter shares the host's processors, and rings must be
 * drained meanwhile. So it works for a few milliseconds at a time and then sleeps four times as
 * long. Context: the exporter.
 */
#include "export/loop/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/interval.h"
#include "export/symbols/builds.h"
#include "export/symbols/debuginfod.h"
#include "export/util/clock.h"
#include "export/util/log.h"

#define SP_SLICE_NS (4 * SP_NS_PER_MS)
#define SP_PAUSE_MS 16U
#define SP_PREPARE_MIN_NS SP_NS_PER_S
/*
 * The share of its CPU time that a process which ends may spend on debug files: a short process
 * shall not unpack a C library's debug information, which takes 40 ms, for the lines of a few
 * functions.
 */
#define SP_END_SHARE 1000U
#define SP_ROUNDS 4U /* for samples that were drained meanwhile */

struct sp_symbols {
	const struct sp_core_ops *ops;
	struct sp_symbolizer *symbolizer;
	struct sp_debuginfod *debuginfod;
	sp_symbols_pause pause;
	void *arg;
	bool preparing;
	struct sp_symbolizer_losses counted;
};

static bool go_on(void *arg)
{
	struct sp_symbols *s = arg;

	return s->pause(s->arg, 0);
}

/* Only while a profile is prepared, when there is time to wait for a server. */
static int fetch(void *arg, const uint8_t *id, size_t id_len, char *path, size_t cap)
{
	struct sp_symbols *s = arg;

	if (!s->preparing || s->ops->flush_pending(s->ops->arg))
		return -EAGAIN;
	return sp_debuginfod_fetch(s->debuginfod, id, id_len, path, cap);
}

struct sp_symbols *sp_symbols_new(const struct sp_core_ops *ops, sp_symbols_pause pause, void *arg)
{
	struct sp_symbols *s = calloc(1, sizeof(*s));
	const char *urls = ops->config->debuginfod_urls;
	struct sp_symbolizer_options options = sp_symbolizer_options_default;

	if (s == NULL)
		return NULL;
	s->ops = ops;
	s->pause = pause;
	s->arg = arg;
	if (urls != NULL && urls[0] != '\0' && ops->config->symbolize != SP_SYMBOLIZE_OFF) {
		s->debuginfod = sp_debuginfod_new(go_on, s);
		if (s->debuginfod == NULL)
			sp_export_log(ops, SP_LOG_WARN,
				      "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 cannot be "
				      "loaded: install it");
	}
	options.mode = ops->config->symbolize;
	options.fetch = s->debuginfod != NULL ? fetch : NULL;
	options.fetch_arg = s;
	s->symbolizer = sp_symbolizer_new(NULL, &options);
	if (s->symbolizer == NULL) {
		sp_symbols_free(s);
		return NULL;
	}
	return s;
}

void sp_symbols_free(struct sp_symbols *s)
{
	if (s == NULL)
		return;
	sp_symbolizer_free(s->symbolizer);
	sp_debuginfod_free(s->debuginfod);
	free(s);
}

struct sp_symbolizer *sp_symbols_symbolizer(const struct sp_symbols *s)
{
	return s->symbolizer;
}

static void count_losses(struct sp_symbols *s)
{
	const struct sp_core_ops *ops = s->ops;
	struct sp_symbolizer_losses now;

	sp_symbolizer_losses(s->symbolizer, &now);
	ops->counter_add(ops->arg, SP_COUNT_SYMBOLS_CHANGED, now.changed - s->counted.changed);
	ops->counter_add(ops->arg, SP_COUNT_LINES_OVER_LIMIT,
			 now.over_limit - s->counted.over_limit);
	ops->counter_add(ops->arg, SP_COUNT_LINES_LATE, now.late - s->counted.late);
	if (now.over_limit != 0 && s->counted.over_limit == 0)
		sp_export_log(ops, SP_LOG_INFO,
			      "an object has no lines: its debug information is compressed and "
			      "needs more than %u MiB of memory",
			      (unsigned)(SP_BUILD_UNPACKED_MAX >> 20));
	if (now.changed != s->counted.changed)
		sp_export_log(ops, SP_LOG_WARN,
			      "functions of an object have no names: its file was cut off or "
			      "overwritten while it was in use; replace such files by rename");
	s->counted = now;
}

static uint64_t time_for(const struct sp_core_ops *ops)
{
	uint64_t ns = ops->config->upload_interval_ms * SP_NS_PER_MS / 4;

	if (ops->flush_pending(ops->arg))
		return ops->flush_left_ms(ops->arg) * SP_NS_PER_MS / 4;
	return ns > SP_PREPARE_MIN_NS ? ns : SP_PREPARE_MIN_NS;
}

/* At the end of the process there is nothing to spare the host, but time is short. */
static bool rest(struct sp_symbols *s, bool flushing, uint64_t end)
{
	return sp_clock_mono_ns() < end && (flushing || s->pause(s->arg, SP_PAUSE_MS));
}

void sp_symbols_prepare(struct sp_symbols *s, const struct sp_core_ops *ops,
			struct sp_modules *modules,
			const struct sp_stack_map *const map[SP_SYMBOLS_MAPS])
{
	uint64_t end = sp_clock_mono_ns() + time_for(ops);
	bool flushing = ops->flush_pending(ops->arg) != 0;
	bool again = true;

	s->ops = ops;
	sp_symbolizer_turn_to(s->symbolizer, modules);
	sp_symbolizer_begin(s->symbolizer);
	sp_symbolizer_spend(s->symbolizer,
			    flushing ? sp_clock_process_ns() / SP_END_SHARE : UINT64_MAX);
	s->preparing = true;
	for (unsigned round = 0; again && round < SP_ROUNDS; round++) {
		bool more = true;

		for (unsigned i = 0; i < SP_SYMBOLS_MAPS; i++)
			sp_interval_want(s->symbolizer, map[i]);
		again = false;
		while (more && sp_symbolizer_step(s->symbolizer, SP_SLICE_NS))
			again = more = rest(s, flushing, end);
	}
	s->preparing = false;
	sp_symbolizer_end(s->symbolizer);
	count_losses(s);
}
