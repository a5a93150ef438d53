/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about the sampling handler and about the sampler as a whole, in one process and without
 * the preloaded object. Signals are the kernel's; those with a value of our choice come through
 * rt_tgsigqueueinfo(2), which lets a process send itself what a timer would send.
 */
#include "sampler/handler.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/channel.h"
#include "sampler/counters.h"
#include "sampler/process.h"
#include "sampler/sampler.h"
#include "sampler/signals.h"
#include "sampler/snapshot.h"
#include "sampler/span.h"
#include "sampler/thread.h"
#include "sampler/thread_mask.h"
#include "sampler/thread_scan.h"
#include "sampler/thread_timer.h"
#include "test/unit/emulated.h"

#define SIGNO SIGUSR2
#define RATE_HZ 100U

static struct sp_config config = {
	.sample_rate_hz = RATE_HZ,
	.max_span_names = 1000,
	.stack_depth = 128,
	.signal_number = SIGNO,
	.trace_id = true,
};

static struct sp_sample last;
static struct {
	unsigned samples;
	unsigned rooted;
	unsigned labelled;
	uint64_t weight;
	uint32_t tid;
} seen;

static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static void *find_nothing(const char *name)
{
	(void)name;
	return NULL;
}

static void prepare_with(void *(*lookup)(const char *name))
{
	int fd = sp_sampler_prepare(&config, lookup);

	cr_assert_geq(fd, 3);
	cr_assert_eq(close(fd), 0);
}

static void prepare(void)
{
	prepare_with(find);
}

static struct sp_thread *enrol_without_timer(void)
{
	uint64_t period = sp_thread_timer_period_ns();
	struct sp_thread *t;

	sp_thread_timer_set(SIGNO, 0, sp_handler_setup.cookie);
	t = sp_thread_self();
	sp_thread_timer_set(SIGNO, period, sp_handler_setup.cookie);
	cr_assert_not_null(t);
	return t;
}

/* As a timer's signal to this thread, delivered before the call returns. */
static void send(int code, uint64_t value, int overrun)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	si.si_signo = SIGNO;
	si.si_code = code;
	si.si_value.sival_ptr = (void *)(uintptr_t)value;
	si.si_overrun = overrun;
	cr_assert_eq(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGNO, &si), 0);
}

static uint64_t our_value(uint32_t index)
{
	return (uint64_t)sp_handler_setup.cookie << 32 | index;
}

static void expire(void)
{
	send(SI_TIMER, our_value(sp_thread_own->index), 0);
}

static void take(const struct sp_sample *s, void *arg)
{
	(void)arg;
	if ((s->flags & SP_SAMPLE_OBJECT) != 0)
		return;
	last = *s;
	seen.samples++;
	seen.weight += s->weight;
	seen.rooted += (s->flags & SP_SAMPLE_ROOTED) != 0;
	seen.labelled += s->span_id != 0;
	seen.tid = s->tid;
}

/* How many samples there were; what is told of objects is test_module_event.c's. */
static unsigned drain(void)
{
	unsigned before = seen.samples;

	(void)sp_ring_drain(&sp_channel_now()->ring, take, NULL, UINT32_MAX);
	return seen.samples - before;
}

static void start_span(uint64_t id)
{
	struct sp_span_start s;

	memset(&s, 0, sizeof(s));
	s.handle = (const void *)(uintptr_t)(id * 64);
	memcpy(s.span_id, &id, sizeof(id));
	memset(s.trace_id, 0x5a, sizeof(s.trace_id));
	s.name = id == 1 ? "root" : "child";
	s.name_len = strlen(s.name);
	cr_assert(sp_span_started(&s));
}

static struct sp_span_record span(uint64_t id)
{
	struct sp_span_record r;

	cr_assert(sp_span_of((const void *)(uintptr_t)(id * 64), &r));
	return r;
}

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

Test(handler, adopts_the_block_that_the_scan_gave_the_thread)
{
	sp_thread_timer_set(SIGNO, 0, sp_handler_setup.cookie);
	sp_thread_enrol((uint32_t)syscall(SYS_gettid));
	cr_assert_null(sp_thread_own);

	send(SI_TIMER, our_value(0), 0);

	cr_assert_eq(sp_thread_own, sp_thread_at(0));
	cr_assert_eq(drain(), 1);
}

Test(handler, takes_the_threads_own_block_whatever_a_late_signal_names)
{
	struct sp_thread *own = enrol_without_timer();
	struct sp_thread *other = sp_thread_claim();
	struct sp_span_entry e = {.span_id = 77, .root_id = 77};

	/* the other block is another thread's, which is in its own handler right now */
	atomic_store(&other->tid, 4242);
	sp_span_stack_push(&other->spans, &e);
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
	/* All that called itself returns to one place. */
	for (unsigned i = 1; i < last.depth; i++) {
		same = last.pc[i] == last.pc[i - 1] ? same + 1 : 0;
		longest = same > longest ? same : longest;
	}
	cr_assert_gt(last.depth, SP_THREAD_FRAMES_NEAR + 30);
	/* A compiler may have made a function of its own of the first few calls. */
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
	cr_assert(t->in_handler);
}

Test(handler, counts_no_loss_while_the_threads_rest_is_put_down)
{
	struct sp_thread *t = enrol_without_timer();

	t->settling = true;
	t->in_handler = true;
	expire();

	cr_assert_eq(drain(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_DROP_REENTERED), 0);
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
	struct sigaction sa = {.sa_handler = host_handler};

	(void)enrol_without_timer();
	cr_assert_eq(sp_signals_virtual(SIGNO, &sa, NULL), 0);
	errno = 4711;
	expire();
	send(SI_QUEUE, 1, 0);

	cr_assert_eq(errno, 4711);
	cr_assert_eq(host_calls, 1);
}

Test(handler, gives_the_host_what_is_not_from_our_timers)
{
	struct sigaction sa = {.sa_handler = host_handler};
	struct sp_thread *t = enrol_without_timer();

	cr_assert_eq(sp_signals_virtual(SIGNO, &sa, NULL), 0);
	send(SI_QUEUE, our_value(t->index), 0);
	send(SI_TIMER, t->index, 0);
	send(SI_TIMER, our_value(t->index) ^ UINT64_C(1) << 32, 0);
	send(SI_TIMER, our_value(SP_THREADS_MAX), 0);
	raise(SIGNO);

	cr_assert_eq(host_calls, 5);
	cr_assert_eq(drain(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SIGNALS), 0);
}

Test(handler, labels_with_the_local_root_by_default)
{
	(void)enrol_without_timer();
	start_span(1);
	start_span(2);
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 1);
	cr_assert_eq(last.name_id, span(1).name_id);
	cr_assert_eq(last.trace_id[0], 0x5a);
	cr_assert_eq(last.trace_id[15], 0x5a);
}

static const char *name_of_sample(void)
{
	expire();
	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.thread_name[SP_THREAD_NAME_BYTES - 1], '\0');
	return last.thread_name;
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

Test(handler, labels_with_the_active_span_on_request)
{
	config.span_id_scope = SP_SCOPE_ALL;
	config.span_name_scope = SP_SCOPE_ALL;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	start_span(2);
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 2);
	cr_assert_eq(last.name_id, span(2).name_id);
	cr_assert_neq(span(2).name_id, span(1).name_id);
}

Test(handler, leaves_out_the_labels_that_were_switched_off)
{
	config.span_id_scope = SP_SCOPE_NONE;
	config.span_name_scope = SP_SCOPE_NONE;
	config.trace_id = false;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(last.name_id, 0);
	cr_assert_eq(last.trace_id[0], 0);
}

static void start_deeper_than_the_stack(void)
{
	prepare();
	(void)enrol_without_timer();
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX + 1; id++)
		start_span(id);
	expire();
	cr_assert_eq(drain(), 1);
}

Test(handler, labels_with_the_root_what_is_deeper_than_the_stack)
{
	start_deeper_than_the_stack();

	cr_assert_eq(last.span_id, 1);
	cr_assert_neq(last.name_id, 0);
	cr_assert_neq(last.trace_id[0], 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_TOO_DEEP), 0, "no loss");
}

Test(handler, labels_with_nothing_what_is_deeper_than_the_stack_where_each_has_its_own)
{
	config.span_id_scope = SP_SCOPE_ALL;
	config.span_name_scope = SP_SCOPE_ALL;
	start_deeper_than_the_stack();

	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(last.name_id, 0);
	cr_assert_eq(last.trace_id[0], 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_TOO_DEEP), 1);
}

static bool has_sample(uint64_t id)
{
	struct sp_span_record r = span(id);

	return sp_span_table_has_sample(&r);
}

Test(handler, marks_the_root_that_its_childrens_samples_are_labelled_with)
{
	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	start_span(2);
	cr_assert_not(has_sample(1));
	expire();

	cr_assert(has_sample(1));
	cr_assert_not(has_sample(2), "no sample carries its id");
}

Test(handler, marks_the_span_itself_where_each_has_its_own_label)
{
	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	config.span_id_scope = SP_SCOPE_ALL;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	start_span(2);
	expire();

	cr_assert_not(has_sample(1));
	cr_assert(has_sample(2));
}

static void *sampled_child(void *arg)
{
	const uint64_t parent = 1;
	const uint64_t id = 2;
	struct sp_span_start s = {
		.handle = arg, .has_parent = true, .name = "child", .name_len = 5};

	memcpy(s.span_id, &id, sizeof(id));
	memcpy(s.parent_id, &parent, sizeof(parent));
	(void)enrol_without_timer();
	cr_assert(sp_span_started(&s));
	expire();
	return NULL;
}

Test(handler, marks_the_root_from_another_thread)
{
	static char object;
	pthread_t thread;

	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	cr_assert_eq(pthread_create(&thread, NULL, sampled_child, &object), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_assert(has_sample(1));
}

Test(handler, notes_no_span_for_a_sample_that_was_lost)
{
	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	prepare();
	(void)enrol_without_timer();
	while (sp_count_read(SP_COUNT_DROP_RING_FULL) == 0)
		expire();
	start_span(1);
	expire();
	cr_assert_not(has_sample(1));
	(void)drain();
	expire();

	cr_assert(has_sample(1));
}

/* Leaves room for a short sample, and not for what tells of an object. */
static void leave_little_room(void)
{
	struct sp_ring *ring = &sp_channel_now()->ring;
	struct sp_sample filler = {.flags = SP_SAMPLE_OBJECT};

	while (ring->size - (atomic_load(&ring->ends->head) - atomic_load(&ring->ends->tail)) > 512)
		cr_assert_eq(sp_ring_put(ring, &filler), 0);
}

Test(handler, loses_a_sample_if_there_is_no_room_to_tell_of_its_object)
{
	config.stack_depth = 24; /* leaves the test program, which nobody is told of */
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

Test(handler, labels_nothing_after_the_end)
{
	(void)enrol_without_timer();
	start_span(1);
	cr_assert(sp_span_ended((const void *)(uintptr_t)64));
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(last.trace_id[0], 0);
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

TestSuite(sampler, .timeout = 20);

Test(sampler, without_the_unwinders_helper_leaves_stacks_to_the_exporter)
{
	prepare_with(find_nothing);
	cr_assert(sp_handler_setup.always_snapshot);
	cr_assert_not_null(sp_channel_now()->snapshots.word);
}

Test(sampler, without_the_unwinders_helper_and_told_to_need_it_is_refused)
{
	struct sigaction now;

	config.unwind = SP_UNWIND_CFI;
	cr_assert_eq(sp_sampler_prepare(&config, find_nothing), -ENOSYS);
	cr_assert_eq(sigaction(SIGNO, NULL, &now), 0);
	cr_assert_eq(now.sa_handler, SIG_DFL, "and nothing is installed");
}

Test(sampler, prepared_again_keeps_the_cookie_of_the_armed_timers)
{
	prepare();
	uint32_t cookie = sp_handler_setup.cookie;

	prepare();

	cr_assert_eq(sp_handler_setup.cookie, cookie);
	cr_assert(cookie >> 31, "no pointer that a host passes looks like ours");
}

Test(sampler, forked_before_it_was_prepared_has_nothing)
{
	cr_assert_not(sp_sampler_forked());
}

Test(sampler, is_of_the_process_that_prepared_it_and_of_children_that_begin_anew)
{
	int status;
	pid_t child;

	cr_assert_not(sp_process_is_ours());
	prepare();
	cr_assert(sp_process_is_ours());

	child = fork();
	if (child == 0) {
		bool before = sp_process_is_ours();

		_exit(!before && !sp_sampler_forked() && sp_process_is_ours() ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert(sp_process_is_ours());
}

static bool child_is_clean(void)
{
	return sp_sampler_forked() && drain() == 0 && sp_thread_armed() == 0 &&
	       sp_count_read(SP_COUNT_SAMPLES_PUT) == 0 && sp_span_table_count() == 1;
}

Test(sampler, a_forked_child_has_the_open_span_and_no_samples)
{
	int status;

	prepare();
	(void)sp_thread_self();
	start_span(1);
	expire();
	fflush(NULL);
	pid_t pid = fork();

	if (pid == 0)
		_exit(child_is_clean() ? 0 : 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_geq(drain(), 1, "the parent's sample is still the parent's");
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	cr_assert_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static __attribute__((noinline)) uint64_t burn(uint64_t ns)
{
	uint64_t end = cpu_ns() + ns;
	volatile uint64_t sum = 0;

	while (cpu_ns() < end) {
		for (unsigned i = 0; i < 20000; i++)
			sum += i * i;
	}
	return sum;
}

/* A sanity bound, not a timed test: what is compared is CPU time with CPU time. */
Test(sampler, weighs_what_the_thread_has_used, .timeout = 60)
{
	uint64_t used;

	if (emulated())
		cr_skip_test("the emulator's own work is in the clock");
	prepare();
	used = cpu_ns();
	cr_assert_not_null(sp_thread_self());
	start_span(1);
	(void)burn(SP_NS_PER_S);
	used = cpu_ns() - used;
	sp_thread_disarm_all();
	unsigned n = drain();

	cr_assert_eq(n, sp_count_read(SP_COUNT_SAMPLES_PUT));
	cr_assert_float_eq((double)(seen.weight * SP_NS_PER_S / RATE_HZ), (double)used,
			   0.1 * (double)used);
	cr_assert_eq(seen.rooted, n, "%u of %u samples reach main", seen.rooted, n);
	cr_assert_geq(seen.labelled, n - 1, "all but a first one before the span");
	cr_assert_eq(seen.tid, (uint32_t)syscall(SYS_gettid));
}

static _Atomic bool stop;
static _Atomic uint32_t idle_tid;

static void *work(void *arg)
{
	(void)arg;
	atomic_store(&idle_tid, (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&stop))
		continue;
	return NULL;
}

/* The thread never calls us: the scan finds it, and its timer samples it. */
Test(sampler, samples_a_thread_that_the_scan_found)
{
	pthread_t thread;

	prepare();
	cr_assert_eq(pthread_create(&thread, NULL, work, NULL), 0);
	while (atomic_load(&idle_tid) == 0)
		continue;
	sp_thread_scan();
	uint32_t armed = sp_thread_armed();

	cr_assert_geq(armed, 1, "all but the one that scans");

	while (seen.tid != atomic_load(&idle_tid))
		(void)drain();
	atomic_store(&stop, true);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	/* join returns before the kernel has let go of it; who is gone has no timer */
	while (sp_thread_armed() >= armed)
		sp_thread_scan();
	cr_assert_eq(sp_thread_armed(), armed - 1);
}

static void mask_ours(int how)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, sp_signals_number());
	cr_assert_eq(pthread_sigmask(how, &set, NULL), 0);
}

Test(sampler, arms_no_thread_that_blocks_the_signal)
{
	prepare();
	mask_ours(SIG_BLOCK);

	cr_assert_not_null(sp_thread_self());
	cr_assert_eq(sp_thread_armed(), 0);

	mask_ours(SIG_UNBLOCK);
	sp_thread_rearm();
	cr_assert_eq(sp_thread_armed(), 1);
	sp_thread_disarm_own();
	cr_assert_eq(sp_thread_armed(), 0);
}

static void *wait_for_our_signal(void *arg)
{
	sigset_t set;
	int signo;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, sp_signals_number());
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	atomic_store(&idle_tid, (uint32_t)syscall(SYS_gettid));
	(void)sigwait(&set, &signo);
	return arg;
}

/* The first has that many digits. */
static bool be_in_groups(size_t n, unsigned digits)
{
	static gid_t groups[2000];
	gid_t first = 1;

	while (digits-- > 1)
		first *= 10;
	groups[0] = first;
	for (unsigned i = 1; i < n; i++)
		groups[i] = 1000000 + i;
	return setgroups(n, groups) == 0;
}

/* In the file that tells of a thread's mask the groups come first, at up to 11 bytes each. */
Test(sampler, arms_threads_of_users_in_many_groups)
{
	pthread_t thread;
	unsigned blocking = 0;

	if (emulated() || !be_in_groups(2000, 1))
		cr_skip_test("needs the kernel's /proc, and root");
	prepare();
	cr_assert_eq(pthread_create(&thread, NULL, work, NULL), 0);
	while (atomic_load(&idle_tid) == 0)
		continue;

	cr_expect_not(sp_thread_mask_blocks(atomic_load(&idle_tid), false));
	/* wherever the line lies in what is read at once */
	for (size_t n = 1; n < 200; n++)
		for (unsigned digits = 1; digits <= 8; digits++)
			blocking += !be_in_groups(n, digits) ||
				    sp_thread_mask_blocks(atomic_load(&idle_tid), false);
	cr_expect_eq(blocking, 0);

	atomic_store(&stop, true);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

/* While it waits, the kernel shows the mask without the signals waited for. */
Test(sampler, arms_no_thread_that_waits_for_the_signal)
{
	pthread_t thread;

	if (emulated())
		cr_skip_test("/proc shows the emulator's mask");
	prepare();
	cr_assert_eq(pthread_create(&thread, NULL, wait_for_our_signal, NULL), 0);
	while (atomic_load(&idle_tid) == 0)
		continue;
	for (int i = 0; i < 2000; i++)
		cr_assert(sp_thread_mask_blocks(atomic_load(&idle_tid), false));
	cr_assert_eq(pthread_kill(thread, sp_signals_number()), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static void *wait_again_and_again(void *rests)
{
	struct timespec soon = {0, 100000};
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, sp_signals_number());
	if (rests != NULL) {
		cr_assert_not_null(sp_thread_self());
		sp_thread_disarm_own();
	}
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	cr_assert_not_null(sp_thread_self());
	atomic_store(&idle_tid, (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&stop))
		(void)sigtimedwait(&set, NULL, &soon);
	return NULL;
}

/* Both threads on one processor, and the other one gets none of it as long as this one runs. */
static void starve(pid_t tid)
{
	struct sched_param none = {0};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	cr_assert_eq(sched_setaffinity(tid, sizeof(one), &one), 0);
	cr_assert_eq(sched_setscheduler(tid, SCHED_IDLE, &none), 0);
}

/*
 * A thread that was woken in its wait and has not got a processor yet could run, so nothing in /proc
 * tells that the mask there is still that of the wait.
 */
static void scan_a_woken_thread(void *rests)
{
	struct sched_param none = {0};
	unsigned misleading = 0;
	pthread_t thread;
	pid_t tid;

	if (emulated())
		cr_skip_test("/proc shows the emulator's mask");
	prepare();
	cr_assert_eq(pthread_create(&thread, NULL, wait_again_and_again, rests), 0);
	while (atomic_load(&idle_tid) == 0)
		continue;
	tid = (pid_t)atomic_load(&idle_tid);
	starve(tid);

	while (misleading < 200) {
		misleading += !sp_thread_mask_blocks((uint32_t)tid, false);
		sp_thread_enrol((uint32_t)tid);
		cr_assert_eq(sp_thread_armed(), 0);
	}

	atomic_store(&stop, true);
	cr_assert_eq(sched_setscheduler(tid, SCHED_OTHER, &none), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(sampler, arms_no_woken_thread_that_found_the_signal_blocked)
{
	scan_a_woken_thread(NULL);
}

Test(sampler, arms_no_woken_thread_that_rested_before_it_blocked_the_signal)
{
	scan_a_woken_thread(&stop);
}
