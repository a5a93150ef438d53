/* SPDX-License-Identifier: Apache-2.0 */
/* The sampling handler: everything in a sample except its labels, and what is lost. */
#include "sampler/sampling/handler.h"

#include <sys/prctl.h>

#include "sampled_host.h"
#include "sampler/base/arch_sig.h"
#include "sampler/region/names.h"
#include "sampler/region/ring.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "sampler/thread/signals.h"
#include "sampler/unwind/unwind_sig.h"

static volatile sig_atomic_t host_calls;

static void host_handler(int signo)
{
	(void)signo;
	host_calls++;
	errno = EDOM;
}

TestSuite(handler, .init = prepare, .timeout = 20);

Test(handler, puts_one_sample_per_expiry)
{
	struct sp_thread *t = enrol_without_timer();

	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.tid, (uint32_t)syscall(SYS_gettid));
	cr_assert_eq(last.weight, 1);
	cr_assert_gt(last.depth, 2);
	cr_assert(last.flags & SP_SAMPLE_ROOTED);
	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(last.name_id, 0);
	cr_assert_not(t->in_handler);
	cr_assert_eq(sp_count_read(SP_COUNT_SIGNALS), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 1);
}

Test(handler, counts_the_expiries_that_were_merged)
{
	(void)enrol_without_timer();

	send(SI_TIMER, our_value(sp_thread_own->index), 4);

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.weight, 5);
}

/* A scan has put a record for CPU time, and a late signal stands for the same time. */
Test(handler, counts_no_expiry_that_was_told_meanwhile)
{
	struct sp_thread *t = enrol_without_timer();

	atomic_store(&t->account.told_ns, 3 * sp_handler_setup.period_ns);
	send(SI_TIMER, our_value(t->index), 4);
	send(SI_TIMER, our_value(t->index), 4);
	atomic_store(&t->account.told_ns, 9 * sp_handler_setup.period_ns);
	send(SI_TIMER, our_value(t->index), 4);

	cr_assert_eq(drain(), 3);
	cr_expect_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 3);
	cr_expect_eq(seen.weight, 2 + 5 + 1);
}

Test(handler, adopts_the_block_that_the_scan_gave_the_thread)
{
	sp_thread_timer_set(SIGNO, 0, sp_handler_setup.cookie);
	sp_thread_enrol((uint32_t)syscall(SYS_gettid));
	cr_assert_null(sp_thread_own);

	send(SI_TIMER, our_value(0), 0);

	cr_assert_eq(sp_thread_own, sp_thread_at(0));
	cr_assert_eq(drain(), 1);
}

/*
 * The other thread has ended unnoticed, without a timer; the scan has made a timer for the thread that has its id
 * now.
 */
Test(handler, leaves_the_block_of_another_thread_with_the_same_id_alone)
{
	const struct sp_thread *other = enrol_without_timer();

	sp_thread_has(NULL);
	send(SI_TIMER, our_value(other->index), 0);

	cr_expect_null(sp_thread_own);
	cr_expect_eq(drain(), 0);
}

Test(handler, adopts_a_block_that_a_thread_had_which_ended_by_a_hook)
{
	const struct sp_thread *before = enrol_without_timer();

	sp_thread_ended();
	sp_thread_excluded = false;
	sp_thread_timer_set(SIGNO, 0, sp_handler_setup.cookie);
	sp_thread_enrol((uint32_t)syscall(SYS_gettid));
	send(SI_TIMER, our_value(before->index), 0);

	cr_expect_eq(sp_thread_own, before);
	cr_expect_eq(drain(), 1);
}

Test(handler, takes_the_threads_own_block_whatever_a_late_signal_names)
{
	struct sp_thread *own = enrol_without_timer();
	struct sp_thread *other = sp_thread_claim();
	struct sp_span_record r = {.span_id = 77, .root_id = 77, .handle = 77};

	/* the other block belongs to another thread, which is in its own handler now */
	atomic_store(&other->tid, 4242);
	cr_assert_eq(sp_span_table_init(), 0);
	cr_assert_eq(sp_span_table_add(&r), 0);
	sp_span_stack_push(&other->spans, 77, SP_SPAN_STARTED);
	other->in_handler = true;
	sp_thread_scratch(other)->tid = 4242;
	send(SI_TIMER, our_value(other->index), 0);

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.tid, atomic_load(&own->tid));
	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(sp_thread_scratch(other)->tid, 4242,
		     "nothing of the other thread was touched");
}

static __attribute__((noinline)) unsigned expire_below(unsigned n)
{
	unsigned below = 0;

	if (n == 0)
		expire();
	else
		below = expire_below(n - 1);
	__asm__ volatile("" : "+r"(below));
	return below + 1;
}

Test(handler, puts_the_near_and_the_far_frames_of_a_deep_stack_one_after_the_other)
{
	unsigned longest = 0;
	unsigned same = 0;

	enrol_without_timer();
	cr_assert_eq(expire_below(SP_THREAD_FRAMES_NEAR + 29), SP_THREAD_FRAMES_NEAR + 30);

	cr_assert_eq(drain(), 1);
	/* All recursive calls return to the same address. */
	for (unsigned i = 1; i < last.depth; i++) {
		same = last.pc[i] == last.pc[i - 1] ? same + 1 : 0;
		longest = same > longest ? same : longest;
	}
	cr_assert_gt(last.depth, SP_THREAD_FRAMES_NEAR + 30);
	/* A compiler may have made a separate function of the first few calls. */
	cr_assert_geq(longest, SP_THREAD_FRAMES_NEAR + 16, "%u in a row", longest);
}

Test(handler, is_silent_in_a_thread_that_has_ended_for_us)
{
	struct sp_thread *t = enrol_without_timer();
	uint32_t index = t->index;

	sp_thread_ended();
	(void)drain(); /* its unsampled CPU time */
	send(SI_TIMER, our_value(index), 0);

	cr_assert_eq(drain(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SIGNALS), 0);
	cr_assert_null(sp_thread_own);
}

Test(handler, drops_and_counts_when_it_is_entered_again)
{
	struct sp_thread *t = enrol_without_timer();

	t->in_handler = true;
	expire();

	cr_assert_eq(drain(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_DROP_REENTERED), 1);
	cr_assert(t->account.outside);
	cr_assert(t->in_handler);
}

Test(handler, counts_what_the_ring_has_no_room_for)
{
	(void)enrol_without_timer();
	uint64_t tries = 0;

	while (sp_count_read(SP_COUNT_DROP_RING_FULL) == 0) {
		expire();
		tries++;
	}

	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), tries - 1);
	cr_assert_eq(drain(), tries - 1);
	expire();
	cr_assert_eq(drain(), 1);
}

Test(handler, leaves_errno_alone)
{
	const struct sp_signals_action host = {.plain = host_handler};

	(void)enrol_without_timer();
	sp_signals_use(SIGNO, &host);
	errno = 4711;
	expire();
	send(SI_QUEUE, 1, 0);

	cr_assert_eq(errno, 4711);
	cr_assert_eq(host_calls, 1);
}

Test(handler, gives_the_host_what_is_not_from_our_timers)
{
	const struct sp_signals_action host = {.plain = host_handler};
	struct sp_thread *t = enrol_without_timer();

	sp_signals_use(SIGNO, &host);
	send(SI_QUEUE, our_value(t->index), 0);
	send(SI_TIMER, t->index, 0);
	send(SI_TIMER, our_value(t->index) ^ UINT64_C(1) << 32, 0);
	send(SI_TIMER, our_value(SP_THREADS_MAX), 0);
	raise(SIGNO);

	cr_assert_eq(host_calls, 5);
	cr_assert_eq(drain(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SIGNALS), 0);
}

static const char *name_of_sample(void)
{
	expire();
	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.thread_name[SP_THREAD_NAME_BYTES - 1], '\0');
	return last.thread_name;
}

static unsigned scans;

static void count_scan(void)
{
	scans++;
}

static unsigned scans_when(uint32_t asked, int code, uint64_t value)
{
	atomic_store(sp_channel_now()->deferred_work, asked);
	scans = 0;
	send(code, value, 0);
	(void)drain();
	return scans;
}

Test(handler, scans_where_no_hook_does)
{
	uint64_t roused = SP_ROUSE_VALUE(sp_handler_setup.cookie);
	static _Atomic uint32_t work;
	const struct sp_signals_action of_host = {.plain = host_handler};
	struct sp_thread *own = enrol_without_timer();

	sp_signals_use(SIGNO, &of_host);
	sp_channel_now()->deferred_work = &work;
	sp_handler_setup.scan = count_scan;
	cr_expect_eq(scans_when(SP_WORK_SCAN_NOW, SI_TIMER, our_value(own->index)), 1);
	cr_expect_eq(scans_when(SP_WORK_SCAN, SI_TIMER, our_value(own->index)), 0);
	cr_expect_eq(scans_when(SP_WORK_SCAN_NOW, SI_QUEUE, roused), 1);
	cr_expect_eq(scans_when(SP_WORK_SCAN, SI_QUEUE, roused), 0, "it was not asked for");
	cr_expect_eq(scans_when(SP_WORK_SCAN_NOW | SP_WORK_SECCOMP, SI_QUEUE, roused), 0);
	cr_expect_eq(scans_when(SP_WORK_SCAN_NOW, SI_QUEUE, roused + 1), 0);
	cr_expect_eq(scans_when(SP_WORK_SCAN_NOW, SI_TIMER, roused), 0);
	cr_expect_eq(host_calls, 2, "these are the program's");
	sp_thread_excluded = true;
	cr_expect_eq(scans_when(SP_WORK_SCAN_NOW, SI_QUEUE, roused), 0);
	sp_thread_excluded = false;
	sp_handler_setup.scan = NULL;
	cr_expect_eq(scans_when(SP_WORK_SCAN_NOW, SI_QUEUE, roused), 0);
}

Test(handler, asks_for_the_threads_name_on_request_alone)
{
	(void)enrol_without_timer();
	cr_assert_eq(prctl(PR_SET_NAME, "first"), 0);
	cr_expect_str_eq(name_of_sample(), "");

	config.thread_name = true;
	prepare();
	cr_expect_str_eq(name_of_sample(), "first");
	cr_assert_eq(prctl(PR_SET_NAME, "fifteen-bytes-x"), 0);
	cr_expect_str_eq(name_of_sample(), "fifteen-bytes-x");
	cr_assert_eq(prctl(PR_SET_NAME, "b"), 0);
	cr_expect_str_eq(name_of_sample(), "b");
}

/* Leaves room in the ring for a short sample, but not for a record about an object. */
static void leave_little_room(void)
{
	struct sp_ring *ring = &sp_channel_now()->ring;
	struct sp_cpu_time filler = {0};

	while (ring->size - (atomic_load(&ring->ends->head) - atomic_load(&ring->ends->tail)) > 512)
		cr_assert_eq(sp_ring_put(ring, SP_RECORD_CPU_TIME, &filler, sizeof(filler)), 0);
}

Test(handler, loses_a_sample_if_there_is_no_room_to_tell_of_its_object)
{
	config.stack_depth = 24; /* the stack leaves the test program, which no record announces */
	prepare();
	(void)enrol_without_timer();
	leave_little_room();
	expire();

	cr_assert_eq(sp_count_read(SP_COUNT_DROP_RING_FULL), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_DROP_UNTOLD), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 0);
	cr_assert_eq(drain(), 0);
	expire();
	cr_assert_eq(drain(), 1);
	leave_little_room();
	expire();
	cr_assert_eq(drain(), 1, "there was room for it, and its objects are known by now");
	cr_assert_eq(sp_count_read(SP_COUNT_DROP_UNTOLD), 1);
}

/* The exporter of a new region knows no names. It learns a name only by a record before the sample that has it. */
Test(handler, loses_a_sample_if_there_is_no_room_to_tell_its_name)
{
	struct sp_ring *names;
	struct sp_name_record r;
	uint64_t filler = 0;
	uint32_t kind;

	prepare();
	(void)enrol_without_timer();
	names = &sp_channel_now()->names;
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(7, sp_names_intern("GET /", 5)), 0);
	while (sp_ring_put(names, SP_RECORD_NAME, &filler, sizeof(filler)) == 0)
		;
	expire();

	cr_assert_eq(sp_count_read(SP_COUNT_DROP_RING_FULL), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 0);
	cr_assert_eq(drain(), 0);
	while (sp_ring_take(names, &kind, &r, sizeof(r)) != 0)
		;
	expire();
	cr_assert_eq(drain(), 1);
	cr_assert_eq(sp_ring_take(names, &kind, &r, sizeof(r)), 16);
	cr_assert_eq(kind, SP_RECORD_NAME);
	cr_assert_eq(r.head.id, last.name_id);
	cr_assert_eq(memcmp(r.text, "GET /", 5), 0);
	expire();
	cr_assert_eq(sp_ring_take(names, &kind, &r, sizeof(r)), 0, "once is enough");
}

static void *sample_with_ever_more_room(void *alone)
{
	struct sp_thread *t = enrol_without_timer();
	size_t above = sp_arch_thread_pointer() - (uintptr_t)__builtin_frame_address(0);
	const stack_t none = {.ss_flags = SS_DISABLE};
	stack_t sanitizers;

	cr_assert_eq(sigaltstack(&none, &sanitizers), 0);
	/* How much the kernel puts below this frame depends on the processor. */
	for (size_t below = 0; below < 65536; below += 1024) {
		atomic_store(&t->stack_bytes, 0);
		expire();
		cr_assert_eq(drain(), 1);
		cr_assert(last.flags & SP_SAMPLE_ROOTED);
		atomic_store(&t->stack_bytes, (uint32_t)(above + 4096 + below));
		expire();
		if (drain() == 1 && last.depth == 1) {
			cr_expect_eq(last.flags, 0, "%#x", last.flags);
			++*(unsigned *)alone;
		}
	}
	cr_assert_eq(sigaltstack(&sanitizers, NULL), 0);
	return NULL;
}

/* A sample without room for a walk has only its leaf, even if the previous sample walked the same stack. */
Test(handler, tells_the_leaf_alone_where_a_walk_has_no_room)
{
	unsigned alone = 0;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, sample_with_ever_more_room, &alone), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_assert_gt(alone, 0);
	cr_assert_eq(sp_count_read(SP_COUNT_UNWIND_FAILED), alone);
}

Test(handler, cuts_at_the_configured_depth_and_counts_it)
{
	config.stack_depth = 2;
	prepare();
	(void)enrol_without_timer();
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.depth, 2);
	cr_assert(last.flags & SP_SAMPLE_TRUNCATED);
	cr_assert_eq(sp_count_read(SP_COUNT_UNWIND_TRUNCATED), 1);
}

static struct sp_snapshot snapshot;

static void take_snapshot(const struct sp_snapshot *s, void *arg)
{
	(void)arg;
	snapshot = *s;
}

Test(handler, copies_the_stack_when_it_is_not_to_walk_it)
{
	struct sp_sample head;

	config.unwind = SP_UNWIND_SNAPSHOT;
	config.thread_name = true;
	prepare();
	(void)enrol_without_timer();
	cr_assert_eq(prctl(PR_SET_NAME, "copied"), 0);
	expire();

	cr_assert_eq(drain(), 0);
	cr_assert_eq(sp_snapshot_drain(&sp_channel_now()->snapshots, take_snapshot, NULL, 9), 1);
	memcpy(&head, snapshot.sample, sizeof(snapshot.sample));
	cr_assert_eq(head.tid, (uint32_t)gettid());
	cr_assert_eq(head.weight, 1);
	cr_assert_str_eq(head.thread_name, "copied");
	cr_assert_gt(snapshot.stack_bytes, 512);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SNAPSHOTS), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_UNWIND_FAILED), 0);
}

Test(handler, keeps_the_leaf_when_there_is_no_room_for_a_copy)
{
	unsigned signals = 0;
	unsigned long copies;

	config.unwind = SP_UNWIND_SNAPSHOT;
	prepare();
	(void)enrol_without_timer();
	while (sp_count_read(SP_COUNT_SNAPSHOTS_FULL) == 0 && signals++ < 100000)
		expire();

	copies = sp_count_read(SP_COUNT_SNAPSHOTS);
	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.depth, 1);
	cr_assert_eq(sp_count_read(SP_COUNT_UNWIND_FAILED), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), copies + 1);
	cr_assert_eq(
		sp_snapshot_drain(&sp_channel_now()->snapshots, take_snapshot, NULL, UINT32_MAX),
		copies);
	expire();
	cr_assert_eq(sp_snapshot_drain(&sp_channel_now()->snapshots, take_snapshot, NULL, 9), 1);
}
