/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of local roots, and records of the slow ones (slow_roots.h). Context: APP. */
#include "sampler/span/slow_roots.h"

#include <errno.h>
#include <string.h>

#include "sampler/base/arena.h"
#include "sampler/base/counters.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/seccomp.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/region/record.h"
#include "sampler/region/ring.h"
#include "sampler/region/root_durations.h"
#include "sampler/span/span_times.h"
#include "sampler/span/span_values.h"
#include "sampler/thread/thread.h"

#define BEGUN_BYTES (SP_SPANS_MAX * sizeof(struct sp_slow_roots_begun))

struct sp_slow_roots_begun *_Atomic sp_slow_roots_begun;

static bool tells_ends;

int sp_slow_roots_init(bool ends)
{
	struct sp_slow_roots_begun *made;

	if (atomic_load_explicit(&sp_slow_roots_begun, memory_order_relaxed) != NULL)
		return 0;
	made = sp_root_durations_init() == 0 ? sp_arena_map(BEGUN_BYTES) : NULL;
	if (made == NULL)
		return -ENOMEM;
	tells_ends = ends;
	/* pairs with the acquire in begun_of() */
	atomic_store_explicit(&sp_slow_roots_begun, made, memory_order_release);
	return 0;
}

static struct sp_slow_roots_begun *begun_of(uint32_t ref)
{
	return &atomic_load_explicit(&sp_slow_roots_begun,
				     memory_order_acquire)[(ref & SP_SPAN_NUMBER_MASK) - 1];
}

/*
 * On a machine whose clock source has no vDSO, reading a clock is a system call, which a filter may answer by killing the
 * program. So no clock is read behind a filter, and the duration of such a root is unknown.
 */
void sp_slow_roots_store(uint32_t ref)
{
	uint64_t now = sp_seccomp_is_on() ? 0 : sp_monotonic_ns();

	atomic_store_explicit(&begun_of(ref)->ns, now, memory_order_relaxed);
}

void sp_slow_roots_set_failed(const struct sp_span_record *r, bool is_error)
{
	if (sp_slow_roots_on() && r->span_id == r->root_id)
		atomic_store_explicit(&begun_of(r->ref)->failed_id, is_error ? r->span_id : 0,
				      memory_order_relaxed);
}

bool sp_slow_roots_was_slow(uint32_t ref)
{
	return sp_slow_roots_on() &&
	       atomic_load_explicit(&begun_of(ref)->ns, memory_order_relaxed) == SP_SLOW_ROOT_TOLD;
}

static void add_times(struct sp_slow_root *out, const struct sp_span_record *r)
{
	struct sp_span_times t;

	sp_span_times_of(r, &t);
	if (t.has_cpu) {
		out->has |= SP_SLOW_ROOT_CPU;
		out->cpu_ns = t.cpu_ns;
	}
	if (!t.is_known)
		return;
	out->has |= SP_SLOW_ROOT_OFF_CPU;
	out->off_cpu_ns = t.off_cpu_ns;
	out->major_faults = t.major_faults;
	if (t.has_runnable) {
		out->has |= SP_SLOW_ROOT_RUNNABLE;
		out->runnable_ns = t.runnable_ns;
	}
	if (t.has_allocated) {
		out->has |= SP_SLOW_ROOT_ALLOCATED;
		out->allocated = t.allocated;
	}
}

/*
 * noinline: hardly any root is slow. While the thresholds are stale, many roots may become records,
 * and samples must find room all the same.
 */
static __attribute__((noinline)) void tell(uint32_t ref, uint64_t now, uint64_t ns, uint32_t place)
{
	struct sp_channel *o = sp_channel_now();
	struct sp_slow_root out;
	struct sp_span_record r;

	sp_span_load(ref, &r);
	memset(&out, 0, sizeof(out));
	out.end_ns = sp_realtime_ns();
	out.end_monotonic_ns = now;
	out.span_id = r.span_id;
	memcpy(out.trace_id, r.trace, sizeof(out.trace_id));
	out.name_id = r.name_id;
	out.place = place;
	out.duration_ns = ns;
	if (sp_thread_own != NULL)
		out.tid = atomic_load_explicit(&sp_thread_own->tid, memory_order_relaxed);
	if (atomic_load_explicit(&begun_of(ref)->failed_id, memory_order_relaxed) == r.span_id)
		out.has |= SP_SLOW_ROOT_ERROR;
	if (atomic_load_explicit(&sp_span_times_on, memory_order_relaxed))
		add_times(&out, &r);
	atomic_store_explicit(&begun_of(ref)->ns, SP_SLOW_ROOT_TOLD, memory_order_relaxed);
	/* So the values of its attributes are told as well, if it has any. */
	sp_span_values_mark(ref, r.span_id);
	sp_count(SP_COUNT_SLOW_ROOTS);
	if (!sp_ring_has_reserve(&o->ring) || !sp_names_announce(o, out.name_id) ||
	    sp_ring_put(&o->ring, SP_RECORD_SLOW_ROOT, &out, sizeof(out)) != 0)
		sp_count(SP_COUNT_DROP_SLOW_ROOTS);
}

/* noinline: most roots have no sample. */
static __attribute__((noinline)) void tell_end(const struct sp_root_end *end)
{
	struct sp_channel *o = sp_channel_now();

	sp_count(SP_COUNT_ROOT_ENDS);
	if (!sp_ring_has_reserve(&o->ring) ||
	    sp_ring_put(&o->ring, SP_RECORD_ROOT_END, end, sizeof(*end)) != 0)
		sp_count(SP_COUNT_DROP_ROOT_ENDS);
}

bool sp_slow_roots_check(uint32_t ref)
{
	const struct sp_span_words *e = sp_span_entry(ref);
	uint64_t begun = atomic_load_explicit(&begun_of(ref)->ns, memory_order_relaxed);
	struct sp_root_end end = {.root_id = sp_span_word(e, SP_SPAN_WORD_ID),
				  .name_id = (uint32_t)sp_span_word(e, SP_SPAN_WORD_NAMES)};
	uint64_t now;
	bool is_slow;

	if (begun == 0 || sp_seccomp_is_on() || end.root_id != sp_span_word(e, SP_SPAN_WORD_ROOT))
		return false;
	end.place = SP_ROOT_NAMES;
	now = sp_monotonic_ns();
	end.duration_ns = now - begun;
	is_slow = sp_root_durations_add(end.name_id, end.duration_ns, &end.place);
	if (tells_ends && sp_span_values_is_marked(ref, end.root_id))
		tell_end(&end);
	if (is_slow)
		tell(ref, now, end.duration_ns, end.place);
	return is_slow;
}

void sp_slow_roots_forked(void)
{
	struct sp_slow_roots_begun *all =
		atomic_load_explicit(&sp_slow_roots_begun, memory_order_relaxed);

	if (all != NULL)
		sp_arena_wipe(all, BEGUN_BYTES);
}
