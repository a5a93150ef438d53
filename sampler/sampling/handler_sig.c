/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampling signal handler. It runs on the sampled thread, between any two of its instructions:
 * the thread may be inside malloc, hold any lock, or be in the middle of one of our own functions.
 * A lock, an allocation, stdio or lazy TLS could therefore wait for ever or find half-written
 * state, and a changed errno would appear in the host's code. The handler uses none of these and
 * restores errno.
 *
 * It takes a sample in this order: read the label of the active span, walk the stack, put the
 * record into the ring, then add the sample to the thread's CPU account. If a step fails, the
 * sample has no frames or is dropped, and the counter of that reason is raised.
 *
 * A forked child gets region and exporter with its first sample: most children execute another
 * program or end before that, and a child may use CPU time for hours without calling a hook. So the
 * handler asks for region and exporter, and the sample goes into the new region. The handler uses
 * only what a forked child of a program with threads may use: system calls, and our own memory
 * (preload/lifecycle/lifecycle.c says why the state of the interrupted code does not matter).
 */
#include "sampler/sampling/handler.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/counters.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/vdso_clock_sig.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/region/region.h"
#include "sampler/region/ring.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "sampler/span/span_values.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"
#include "sampler/unwind/stack_bounds_sig.h"
#include "sampler/unwind/unwind_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_handler_setup sp_handler_setup;

/*
 * The block of the thread whose timer sent the signal. NULL = the signal is not from one of our
 * timers.
 */
static struct sp_thread *timer_thread(const siginfo_t *si)
{
	uint64_t value = (uint64_t)(uintptr_t)si->si_value.sival_ptr;

	if (si->si_code != SI_TIMER || (uint32_t)(value >> 32) != sp_handler_setup.cookie)
		return NULL;
	return sp_thread_at((uint32_t)value);
}

/*
 * Fills in the frames. If the handler's stack has too little room for a walk, the sample gets the
 * interrupted pc alone. Returns the flags for the handler, which do not go into the ring:
 * SP_SAMPLE_RETRY, SP_SAMPLE_UNTOLD.
 */
static uint16_t walk(struct sp_thread *t, const void *ucontext, size_t room_left)
{
	const uint16_t own = SP_SAMPLE_RETRY | SP_SAMPLE_UNTOLD;
	const struct sp_handler_setup *h = &sp_handler_setup;
	struct sp_sample *s = sp_thread_scratch(t);
	uint32_t near = h->depth < SP_THREAD_FRAMES_NEAR ? h->depth : SP_THREAD_FRAMES_NEAR;
	const struct sp_unwind_room room[2] = {{s->pc, near}, {t->far_frames, h->depth - near}};
	uint16_t flags = SP_SAMPLE_RETRY;

	s->depth = 0;
	s->flags = 0;
	if (room_left < SP_HANDLER_ROOM_WALK) {
		s->pc[s->depth++] = sp_arch_context_reg(ucontext, SP_ARCH_REG_PC);
		sp_count(SP_COUNT_UNWIND_FAILED);
		return 0;
	}
	if (!h->always_snapshot)
		s->depth = (uint16_t)sp_unwind_walk(ucontext, &t->bounds, room, &flags);
	else
		s->pc[s->depth++] = sp_arch_context_reg(ucontext, SP_ARCH_REG_PC);
	s->flags = flags & (uint16_t)~own;
	return flags & own;
}

/*
 * Puts a snapshot into the ring, so that the exporter walks the stack. False if there was no room
 * for the snapshot; then the sample has the frames of the handler's walk.
 */
static bool put_snapshot(struct sp_channel *o, struct sp_thread *t, const void *ucontext)
{
	if (sp_snapshot_put(&o->snapshots, sp_thread_scratch(t), ucontext, &t->bounds) == 0) {
		sp_count(SP_COUNT_SNAPSHOTS);
		return true;
	}
	sp_count(SP_COUNT_UNWIND_FAILED);
	if (o->snapshots.word != NULL)
		sp_count(SP_COUNT_SNAPSHOTS_FULL);
	return false;
}

static int put_frames(struct sp_channel *o, const struct sp_thread *t, const struct sp_sample *s)
{
	uint32_t near = s->depth < SP_THREAD_FRAMES_NEAR ? s->depth : SP_THREAD_FRAMES_NEAR;
	const struct sp_ring_part part[2] = {
		{s, sp_sample_bytes(near)},
		{t->far_frames, (s->depth - near) * sizeof(s->pc[0])},
	};

	return sp_ring_put_parts(&o->ring, SP_RECORD_SAMPLE, part, 2);
}

/* After this many samples the next hook checks that the exporter is still alive. */
#define SP_SAMPLES_PER_LOOK 100U

/* False if the sample was lost. */
static bool put(struct sp_channel *o, struct sp_thread *t, const void *ucontext, size_t room_left)
{
	const struct sp_sample *s = sp_thread_scratch(t);
	uint16_t own = walk(t, ucontext, room_left);

	/*
	 * The ring had no room for the record that announces a loaded object. This smaller sample
	 * might still fit, but the exporter would then resolve its frames in the object that was at
	 * these addresses before.
	 */
	if ((own & SP_SAMPLE_UNTOLD) != 0) {
		sp_count(SP_COUNT_DROP_UNTOLD);
		return false;
	}
	if (!sp_names_announce(o, s->name_id))
		return false;
	if ((own & SP_SAMPLE_RETRY) != 0 && put_snapshot(o, t, ucontext))
		return true;
	if (s->flags & SP_SAMPLE_TRUNCATED)
		sp_count(SP_COUNT_UNWIND_TRUNCATED);
	if (s->flags & SP_SAMPLE_OFF_STACK)
		sp_count(SP_COUNT_OFF_STACK);
	return put_frames(o, t, s) == 0;
}

/*
 * Only this process can notice that its exporter has died. Samples of all threads count together,
 * because a single thread may be too short-lived to reach the number. Samples that find the ring
 * full count too: if the exporter is dead, the ring stays full.
 */
static void look_after_exporter(const struct sp_channel *o)
{
	static _Atomic uint32_t samples;

	if (atomic_fetch_add_explicit(&samples, 1, memory_order_relaxed) % SP_SAMPLES_PER_LOOK ==
		    SP_SAMPLES_PER_LOOK - 1 &&
	    o->deferred_work != NULL)
		atomic_fetch_or_explicit(o->deferred_work, SP_WORK_ALIVE, memory_order_relaxed);
}

/* A separate function, because check-sigsafe lists calls through pointers by function. */
__attribute__((noinline)) static void begin_in_child(void)
{
	if (sp_handler_setup.begin != NULL)
		sp_handler_setup.begin();
}

/* A separate function for the same reason as begin_in_child(). */
__attribute__((noinline)) static void scan_if_asked(void)
{
	const _Atomic uint32_t *work = sp_channel_now()->deferred_work;
	uint32_t asked = work != NULL ? atomic_load_explicit(work, memory_order_relaxed) : 0;

	if ((asked & (SP_WORK_SCAN_NOW | SP_WORK_SECCOMP)) == SP_WORK_SCAN_NOW &&
	    sp_handler_setup.scan != NULL)
		sp_handler_setup.scan();
}

/*
 * Whether the exporter sent the signal, to a running thread without a timer. Any other sender could
 * only make threads get their timers a little earlier, because the region must ask for the scan,
 * too.
 */
static bool is_roused(const siginfo_t *si)
{
	return si->si_code == SI_QUEUE && (uint64_t)(uintptr_t)si->si_value.sival_ptr ==
						  SP_ROUSE_VALUE(sp_handler_setup.cookie);
}

void sp_sample_label(const struct sp_thread *t, struct sp_sample *s, struct sp_span_label *label)
{
	sp_active_span_label(&t->spans, label);
	/*
	 * The root is marked before the walk: if another thread ends the root during the walk, it
	 * reports the root's values only if the root is marked already.
	 */
	if (label->root_id != 0)
		sp_span_values_mark(label->root_ref, label->root_id);
	if (label->what == SP_SPAN_INTERLEAVED)
		sp_count(SP_COUNT_SAMPLES_INTERLEAVED);
	if (label->span_id == 0 && label->name_id == 0)
		sp_active_span_label_foreign(t, label);
	s->span_id = label->span_id;
	s->name_id = label->name_id;
	memcpy(s->trace_id, label->trace_id, sizeof(s->trace_id));
	s->root_id = label->root_id;
	if (label->span_id == 0 && label->name_id == 0 &&
	    (label->what == SP_SPAN_FORGOTTEN || label->what == SP_SPAN_ROOT_ALONE))
		sp_count(SP_COUNT_SAMPLES_TOO_DEEP);
	s->tid = atomic_load_explicit(&t->tid, memory_order_relaxed);
	if (sp_handler_setup.thread_name)
		sp_thread_name_own(s->thread_name);
}

/*
 * The number of periods that the sample stands for: the signal carries the number of missed
 * expirations.
 */
static uint32_t weight_of(struct sp_thread *t, const siginfo_t *si)
{
	uint64_t over = si->si_overrun > 0 ? (uint64_t)si->si_overrun : 0;
	uint64_t told = sp_thread_account_recorded(&t->account, sp_handler_setup.period_ns);

	return 1U + (uint32_t)(over > told ? over - told : 0);
}

static void sample(struct sp_thread *t, const siginfo_t *si, const void *ucontext, size_t room_left)
{
	/*
	 * The ring is chosen before the walk: the walk may announce loaded objects, and the records
	 * of these must be in this ring or in a ring that was used before it.
	 */
	struct sp_channel *o = sp_channel_now();
	struct sp_sample *s = sp_thread_scratch(t);
	struct sp_span_label label;

	s->time_ns = sp_vdso_clock_ns();
	sp_sample_label(t, s, &label);
	s->weight = weight_of(t, si);
	look_after_exporter(o);
	if (!put(o, t, ucontext, room_left)) {
		sp_thread_account_lost(&t->account);
		sp_count(SP_COUNT_DROP_RING_FULL);
		return;
	}
	sp_channel_count_put(o);
	sp_thread_account_sample(&t->account, s->weight * sp_handler_setup.period_ns,
				 s->span_id != 0 || s->name_id != 0);
	/*
	 * Marked after the put: if all samples of a span were lost, the span has no profile to
	 * show.
	 */
	if (sp_handler_setup.note_samples && s->span_id != 0)
		sp_span_table_mark_sample(label.ref, s->span_id);
}

/*
 * The C library's control block of the thread lies at the upper end of the stack and takes less
 * than a page. Memory below the stack may belong to anything, so the size is an exact limit.
 */
size_t sp_thread_stack_room(const struct sp_thread *t, const void *frame)
{
	size_t used = sp_arch_thread_pointer() - (uintptr_t)frame + SP_STACK_PAGE;
	size_t size = atomic_load_explicit(&t->stack_bytes, memory_order_relaxed);

	if (size == 0 || used > size + SP_STACK_PAGE)
		return SIZE_MAX;
	return used < size ? size - used : 0;
}

static size_t room(const struct sp_thread *t, const void *ucontext, const void *frame)
{
	size_t on_alternate = sp_alternate_stack_room(ucontext, frame);

	if (on_alternate == SIZE_MAX)
		on_alternate = sp_thread_alternate_room(t, frame);
	return on_alternate != SIZE_MAX ? on_alternate : sp_thread_stack_room(t, frame);
}

/*
 * Runs on the thread that the block belongs to. A thread that no hook has seen takes the block over
 * in block_here().
 */
static void on_timer(struct sp_thread *t, const siginfo_t *si, const void *ucontext)
{
	const void *frame = __builtin_frame_address(0);
	bool may_stay = sp_thread_alternate_seen(t, ucontext, frame);
	size_t room_left = room(t, ucontext, frame);

	if (t->in_handler) {
		sp_thread_account_lost(&t->account);
		sp_count(SP_COUNT_DROP_REENTERED);
		return;
	}
	if (room_left < SP_HANDLER_ROOM_LEAST || !may_stay) {
		sp_thread_account_lost(&t->account);
		sp_count(SP_COUNT_DROP_STACK);
		return;
	}
	t->in_handler = true;
	atomic_signal_fence(memory_order_seq_cst);
	if (sp_channel_now() == &sp_channel_nowhere)
		begin_in_child();
	sample(t, si, ucontext, room_left);
	scan_if_asked();
	atomic_signal_fence(memory_order_seq_cst);
	t->in_handler = false;
}

/* Whether the calling thread owns the block. errno does not change. */
static bool is_here(const struct sp_thread *t)
{
	return atomic_load_explicit(&t->tid, memory_order_relaxed) ==
	       (uint32_t)sp_arch_syscall(SYS_gettid, 0, 0, 0, 0);
}

/*
 * The block that the sample uses; NULL = none.
 *
 * The last signal of a deleted timer may name a block that belongs to another thread by now. So a
 * thread that has a block uses its own. But a thread that runs on the thread-local storage of its
 * creator (sp_thread_has_storage()) sees its creator's block there, and even errno is its
 * creator's.
 *
 * A thread without a block takes the named one, unless it is taken already (is_taken): an earlier
 * thread with the same id ended unseen and left its spans in the block. The next hook then makes a
 * new block. And a thread must not store a block in its creator's storage.
 */
static struct sp_thread *block_here(struct sp_thread *named)
{
	if (sp_thread_own == NULL) {
		if (atomic_load_explicit(&named->is_taken, memory_order_relaxed) ||
		    !sp_thread_has_storage(atomic_load_explicit(&named->tid, memory_order_relaxed)))
			return NULL;
		sp_thread_has(named);
	}
	return sp_thread_own == named || is_here(sp_thread_own) ? sp_thread_own : NULL;
}

SP_SIGSAFE void sp_handler(int signo, siginfo_t *si, void *ucontext)
{
	int saved = errno;
	struct sp_thread *t = timer_thread(si);

	if (t == NULL) {
		if (!is_roused(si))
			sp_signals_chain(signo, si, ucontext);
		else if (!sp_thread_excluded && !sp_seccomp_is_on())
			scan_if_asked();
		errno = saved;
		return;
	}
	/*
	 * A signal that the timer sent before the thread was excluded may arrive afterwards. Below
	 * a seccomp filter spans are not followed any more, so a sample's label would be wrong.
	 */
	if (!sp_thread_excluded && !sp_seccomp_is_on()) {
		t = block_here(t);
		if (t == NULL)
			return;
		sp_count(SP_COUNT_SIGNALS);
		on_timer(t, si, ucontext);
	}
	errno = saved;
}
