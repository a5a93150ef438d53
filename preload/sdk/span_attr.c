/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which attributes a span gets, and formats them (span_attr.h). APP context. */
#include "preload/sdk/span_attr.h"

#include <string.h>

#include "preload/lifecycle/lifecycle.h"
#include "preload/sdk/profile_url.h"
#include "sampler/base/compiler.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/region/names.h"
#include "sampler/span/slow_roots.h"
#include "sampler/span/span.h"
#include "sampler/span/span_times.h"
#include "sampler/span/span_values.h"

/* The keys of our attributes: first the kinds of URLs, then the others. */
enum { KEY_ID = SP_URL_DIFF + 1, KEY_CPU_TIME, KEY_TIMES, KEY_N };
static const char *const keys[KEY_N] = {
	[SP_URL_PROFILE] = "pyroscope.profile.url",
	[SP_URL_BASELINE] = "pyroscope.profile.baseline.url",
	[SP_URL_DIFF] = "pyroscope.profile.diff.url",
	[KEY_ID] = "pyroscope.profile.id",
	[KEY_CPU_TIME] = "spanprof.cpu_time_ns",
};
_Static_assert(KEY_N <= 8, "a byte has a bit for each");

/*
 * These keys share one bit: if a program sets one of them itself, we set none, because its times
 * are not ours.
 */
enum { OFF_CPU, RUNNABLE, FAULTS, VOLUNTARY, INVOLUNTARY, ALLOCATED, TIMES_N };
static const char *const times_keys[TIMES_N] = {
	[OFF_CPU] = "spanprof.off_cpu_time_ns",
	[RUNNABLE] = "spanprof.runnable_time_ns",
	[FAULTS] = "spanprof.page_faults.major",
	[VOLUNTARY] = "spanprof.context_switches.voluntary",
	[INVOLUNTARY] = SP_SPAN_ATTR_LONGEST,
	[ALLOCATED] = "spanprof.allocated_bytes",
};

static bool is_key(const char *ours, const char *key, size_t len)
{
	return ours != NULL && strlen(ours) == len && memcmp(ours, key, len) == 0;
}

uint8_t sp_span_attr_find_key(const char *key, size_t len)
{
	for (unsigned i = 0; i < KEY_N; i++) {
		if (is_key(keys[i], key, len))
			return (uint8_t)(1U << i);
	}
	for (unsigned i = 0; i < TIMES_N; i++) {
		if (is_key(times_keys[i], key, len))
			return (uint8_t)(1U << KEY_TIMES);
	}
	return 0;
}

enum sp_span_attr_when sp_span_attr_when(void)
{
	const struct sp_config *cfg = sp_lifecycle_config();

	if (cfg->span_cpu_time || cfg->span_times)
		return SP_SPAN_ATTR_EACH;
	/*
	 * Values label samples, but samples do not carry the id of their root, so no mark in the
	 * span table says which roots have samples.
	 */
	if (sp_span_values_on() && cfg->span_id_scope != SP_SCOPE_ROOT)
		return SP_SPAN_ATTR_EACH;
	if (cfg->attributes == SP_ATTRIBUTES_NEVER || cfg->span_id_scope == SP_SCOPE_NONE)
		return sp_span_values_on() || cfg->alloc ? SP_SPAN_ATTR_NOTED : SP_SPAN_ATTR_NONE;
	return cfg->attributes == SP_ATTRIBUTES_ALWAYS ? SP_SPAN_ATTR_EACH : SP_SPAN_ATTR_NOTED;
}

unsigned sp_span_attr_wanted(const struct sp_span_record *r)
{
	const struct sp_config *cfg = sp_lifecycle_config();
	/* samples can carry this span's id, so a link to them works */
	bool labelled = cfg->span_id_scope == SP_SCOPE_ALL ||
			(cfg->span_id_scope == SP_SCOPE_ROOT && sp_span_is_root(r) &&
			 (!cfg->slow_ids || sp_slow_roots_was_slow(r->ref)));
	unsigned wanted = 0;

	if (cfg->attributes != SP_ATTRIBUTES_NEVER && labelled &&
	    (cfg->attributes == SP_ATTRIBUTES_ALWAYS || sp_span_table_has_mark(r) ||
	     sp_span_table_has_allocation(r)))
		wanted = SP_SPAN_ATTR_LINK;
	if ((cfg->span_cpu_time || cfg->span_times) && sp_span_is_root(r) && !sp_seccomp_is_on())
		wanted |= SP_SPAN_ATTR_TIMES;
	return wanted;
}

/* Whether the program has not set the attribute itself. */
static bool is_free(const struct sp_span_record *r, unsigned key)
{
	return (sp_span_keys(r) & 1U << key) == 0;
}

#define HOUR_NS (3600 * SP_NS_PER_S)

static uint64_t before(uint64_t ns, uint64_t by)
{
	return ns > by ? ns - by : 0;
}

/*
 * The server finds a profile by its start time alone. A profile lasts for one upload interval, and
 * longer if a push delays its end. So the time range reaches that much beyond the span on both
 * sides. The range of the baseline, the hour before the span, reaches that much further back.
 */
static void set_range(struct sp_profile_url *l, const struct sp_config *cfg)
{
	uint64_t pad = ((uint64_t)cfg->upload_interval_ms + cfg->push_timeout_ms) * SP_NS_PER_MS;

	if (l->kind == SP_URL_PROFILE) {
		l->from_ns = before(l->start_ns, pad);
		l->until_ns = l->end_ns + pad;
	} else {
		l->from_ns = before(l->start_ns, HOUR_NS + pad);
		l->until_ns = l->start_ns;
	}
}

static uint32_t name_of(const struct sp_span_record *r, const struct sp_config *cfg,
			enum sp_profile_url_kind kind)
{
	/* The baseline is found by the label span_name, which may be the root's name. */
	return kind != SP_URL_PROFILE && cfg->span_name_scope == SP_SCOPE_ROOT
		       ? sp_span_table_root_name(r)
		       : r->name_id;
}

static void set_links(const struct sp_span_record *r, struct sp_profile_url *l,
		      const struct sp_span_attr_set *set, void *span)
{
	const struct sp_config *cfg = sp_lifecycle_config();
	char url[SP_PROFILE_URL_MAX];

	for (unsigned kind = SP_URL_PROFILE; kind <= SP_URL_DIFF; kind++) {
		l->kind = (enum sp_profile_url_kind)kind;
		l->form = kind == SP_URL_PROFILE ? cfg->profile_url : cfg->baseline_url;
		if (l->form == NULL || !is_free(r, kind))
			continue;
		l->span_name = sp_names_text(name_of(r, cfg, l->kind), &l->span_name_len);
		set_range(l, cfg);
		if (sp_profile_url_format(l, url) != 0)
			set->string(span, keys[kind], url);
	}
}

static void set_others(const struct sp_span_times *t, const struct sp_span_attr_set *set,
		       void *span)
{
	set->integer(span, times_keys[OFF_CPU], (int64_t)t->off_cpu_ns);
	if (t->has_runnable)
		set->integer(span, times_keys[RUNNABLE], (int64_t)t->runnable_ns);
	set->integer(span, times_keys[FAULTS], (int64_t)t->major_faults);
	set->integer(span, times_keys[VOLUNTARY], (int64_t)t->voluntary_switches);
	set->integer(span, times_keys[INVOLUNTARY], (int64_t)t->involuntary_switches);
	if (t->has_allocated)
		set->integer(span, times_keys[ALLOCATED], (int64_t)t->allocated);
}

/* noinline: most users configure no times. */
static __attribute__((noinline)) void set_times(const struct sp_span_record *r,
						const struct sp_span_attr_set *set, void *span)
{
	bool all = sp_lifecycle_config()->span_times;
	struct sp_span_times t;

	sp_span_times_of(r, &t);
	/*
	 * Unknown times are omitted. With SPANPROF_SPAN_CPU_TIME alone the CPU time is known even
	 * while other threads are in the root.
	 */
	if (is_free(r, KEY_CPU_TIME) && (all ? t.is_known : t.has_cpu))
		set->integer(span, keys[KEY_CPU_TIME], (int64_t)t.cpu_ns);
	if (all && t.is_known && is_free(r, KEY_TIMES))
		set_others(&t, set, span);
}

/*
 * The type of profile that contains the span. A profile wall has both CPU samples and waits. If the
 * span has neither, its sampled allocations are shown. Pyroscope names profiles that come by OTLP
 * after their period.
 */
static const char *profile_type(const struct sp_span_record *r, const struct sp_config *cfg)
{
	bool is_otlp = cfg->protocol == SP_PROTOCOL_OTLP;

	if (!sp_span_table_has_mark(r) && sp_span_table_has_allocation(r))
		return is_otlp ? "memory:alloc_space:bytes:memory:bytes"
			       : "memory:alloc_space:bytes:space:bytes";
	if (cfg->wall)
		return "wall:wall:nanoseconds:wall:nanoseconds";
	if (cfg->off_cpu && !sp_span_table_has_sample(r) && sp_span_table_has_wait(r))
		return "off_cpu:off_cpu:nanoseconds::";
	return is_otlp ? "cpu:cpu:nanoseconds:cpu:nanoseconds"
		       : "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
}

/* noinline: most users configure no URL. */
static __attribute__((noinline)) void set_all_links(const struct sp_span_record *r,
						    const char *span_id,
						    const struct sp_span_attr_set *set, void *span)
{
	const struct sp_config *cfg = sp_lifecycle_config();
	uint8_t bytes[16];
	struct sp_profile_url l;

	memset(&l, 0, sizeof(l));
	memcpy(l.span_id, span_id, sizeof(l.span_id));
	memcpy(bytes, r->trace, sizeof(r->trace));
	sp_text_hex(l.trace_id, bytes, sizeof(bytes));
	l.base = cfg->profile_base_url;
	l.datasource = cfg->profile_datasource;
	l.service = cfg->service_name;
	l.profile_type = profile_type(r, cfg);
	l.name_is_label = cfg->span_name_scope != SP_SCOPE_NONE;
	l.baseline_labels = cfg->baseline_labels;
	l.start_ns = r->start_ns;
	l.end_ns = sp_realtime_ns();
	set_links(r, &l, set, span);
}

void sp_span_attr_give(const struct sp_span_record *r, unsigned wanted,
		       const struct sp_span_attr_set *set, void *span)
{
	const struct sp_config *cfg = sp_lifecycle_config();
	bool link = (wanted & SP_SPAN_ATTR_LINK) != 0;
	char span_id[SP_TEXT_ID_SIZE];

	sp_text_id(span_id, r->span_id);
	if (link && is_free(r, KEY_ID))
		set->string(span, keys[KEY_ID], span_id);
	if ((wanted & SP_SPAN_ATTR_TIMES) != 0)
		set_times(r, set, span);
	if (link && (cfg->profile_url != NULL || cfg->baseline_url != NULL))
		set_all_links(r, span_id, set, span);
}

void sp_span_attr_apply(const struct sp_span_record *r, const struct sp_span_attr_set *set,
			void *span)
{
	unsigned wanted = sp_span_attr_wanted(r);

	if (wanted != 0)
		sp_span_attr_give(r, wanted, set, span);
}
