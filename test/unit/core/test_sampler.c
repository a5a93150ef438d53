/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler as a whole: how it is prepared, in which process, and what it finds. */
#define _GNU_SOURCE
#include "sampler/sampler.h"

#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "busy_thread.h"
#include "sampled_host.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/process.h"
#include "sampler/thread/thread.h"
#include "test/hosts/host.h"
#include "test/unit/emulated.h"

static void *find_nothing(const char *name)
{
	(void)name;
	return NULL;
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

/* A span with a wait has a profile, if there is one of waits. */
Test(sampler, asked_for_waits_notes_spans_that_wait)
{
	config.off_cpu = true;
	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	prepare();
	cr_expect(sp_shown_label_notes_waits);
}

Test(sampler, asked_for_waits_and_no_attributes_notes_no_span)
{
	config.off_cpu = true;
	config.attributes = SP_ATTRIBUTES_NEVER;
	sp_shown_label_notes_waits = true;
	prepare();
	cr_expect_not(sp_shown_label_notes_waits);
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

/* A sanity bound that does not depend on time: it compares CPU time with CPU time. */
Test(sampler, weighs_what_the_thread_has_used, .timeout = 60)
{
	uint64_t used;

	if (emulated())
		cr_skip_test("the emulator's own work is in the clock");
	prepare();
	used = cpu_ns();
	cr_assert_not_null(sp_thread_self());
	start_span(1);
	host_burn_ms(1000);
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

static sem_t begun;

/* Waits until the pipe is closed, as most threads of programs wait. */
static void *wait_for_end(void *read_end)
{
	char byte;

	cr_assert_eq(sem_post(&begun), 0);
	while (read(*(int *)read_end, &byte, 1) > 0)
		;
	return NULL;
}

static void start_many(pthread_t *thread, unsigned n, int end[2])
{
	cr_assert_eq(pipe(end), 0);
	cr_assert_eq(sem_init(&begun, 0, 0), 0);
	for (unsigned i = 0; i < n; i++) {
		cr_assert_eq(pthread_create(&thread[i], NULL, wait_for_end, &end[0]), 0);
		cr_assert_eq(sem_wait(&begun), 0);
	}
}

static void end_many(const pthread_t *thread, unsigned n, const int end[2])
{
	close(end[1]);
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(pthread_join(thread[i], NULL), 0);
}

/*
 * A scan holds up a thread of the host, so one call of it handles only a few of many threads. After enough calls all
 * threads have their timers, and a further call has nothing to do.
 */
static unsigned calls_of_a_scan(void)
{
	unsigned calls = 0;
	bool is_done;

	do {
		uint32_t before = sp_thread_armed();

		is_done = sp_thread_scan();
		calls++;
		cr_assert_leq(sp_thread_armed() - before, SP_THREAD_SCAN_MAX);
	} while (!is_done);
	return calls;
}

Test(sampler, takes_a_few_of_many_threads_at_a_time)
{
	enum { THREADS = 2 * SP_THREAD_SCAN_MAX + 3 };
	pthread_t thread[THREADS];
	uint32_t others;
	int end[2];

	if (emulated())
		cr_skip_test("the masks in /proc are the emulator's");
	prepare();
	cr_assert(sp_thread_scan());
	others = sp_thread_armed();
	start_many(thread, THREADS, end);
	cr_assert_gt(calls_of_a_scan(), THREADS / SP_THREAD_SCAN_MAX);
	cr_assert_eq(sp_thread_armed() - others, THREADS);
	end_many(thread, THREADS, end);
}

/*
 * Threads that have their timers take time, too: each is an entry of /proc, and each block is checked. Such a scan,
 * which also frees the blocks of threads that have ended, is spread over as many calls.
 */
Test(sampler, looks_at_a_part_of_many_threads_that_all_have_their_timers)
{
	enum { THREADS = 2 * SP_THREAD_ASK_MAX + 3 };
	pthread_t thread[THREADS];
	uint32_t known;
	int end[2];

	if (emulated())
		cr_skip_test("the masks in /proc are the emulator's");
	prepare();
	start_many(thread, THREADS, end);
	(void)calls_of_a_scan();
	known = sp_thread_known();
	cr_assert_gt(calls_of_a_scan(), THREADS / SP_THREAD_SCAN_MAX + THREADS / SP_THREAD_ASK_MAX);
	cr_assert_eq(sp_thread_known(), known);
	end_many(thread, THREADS, end);
	while (sp_thread_known() > known - THREADS) {
		uint32_t before = sp_thread_known();

		(void)sp_thread_scan();
		cr_assert_geq(sp_thread_known() + SP_THREAD_ASK_MAX, before);
	}
}

/* The thread never calls one of our hooks: the scan finds it, and its timer samples it. */
Test(sampler, samples_a_thread_that_the_scan_found)
{
	pthread_t thread;

	prepare();
	thread = start_thread(work, NULL);
	sp_thread_scan();
	uint32_t armed = sp_thread_armed();

	cr_assert_geq(armed, 1, "all but the one that scans");

	while (seen.tid != atomic_load(&idle_tid))
		(void)drain();
	stop_thread(thread);
	/* join may return while the kernel still has the thread; a thread that is gone has no timer */
	while (sp_thread_armed() >= armed)
		sp_thread_scan();
	cr_assert_eq(sp_thread_armed(), armed - 1);
}

/* A thread that was made without the C library: it runs on the thread-local storage of its maker. */
static struct {
	_Atomic uint32_t tid;
	_Atomic uint64_t signal; /* value of the timer signal that it sends itself; 0 = none */
	_Atomic bool may_end;
	pid_t alive; /* nonzero until the kernel has released the thread */
} raw;

static int run_raw(void *arg)
{
	siginfo_t si = {.si_signo = SIGNO, .si_code = SI_TIMER};
	uint64_t value;

	(void)arg;
	atomic_store(&raw.tid, (uint32_t)sp_arch_syscall(SYS_gettid, 0, 0, 0, 0));
	while (!atomic_load(&raw.may_end)) {
		value = atomic_exchange(&raw.signal, 0);
		si.si_value.sival_ptr = (void *)(uintptr_t)value;
		if (value != 0)
			(void)sp_arch_syscall(SYS_rt_tgsigqueueinfo, getpid(),
					      (long)atomic_load(&raw.tid), SIGNO, (long)&si);
		(void)sp_arch_syscall(SYS_sched_yield, 0, 0, 0, 0);
	}
	return 0;
}

static void start_raw(void)
{
	static _Alignas(16) char stack[1 << 17];
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			  CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;

	if (emulated())
		cr_skip_test("the emulator does not tell who has a list of robust mutexes");
	raw.alive = 1;
	cr_assert_gt(clone(run_raw, stack + sizeof(stack), flags, NULL, NULL, NULL, &raw.alive), 0);
	while (atomic_load(&raw.tid) == 0)
		(void)sched_yield();
}

static void end_raw(void)
{
	atomic_store(&raw.may_end, true);
	while (__atomic_load_n(&raw.alive, __ATOMIC_ACQUIRE) != 0)
		(void)sched_yield();
}

/*
 * The thread's signals name its own block. It must not store the block in the thread-local storage, where its maker
 * would find it.
 */
Test(sampler, a_thread_on_the_storage_of_another_gives_that_one_no_block)
{
	prepare();
	start_raw();
	cr_assert(sp_thread_scan());
	uint16_t found = atomic_load(sp_thread_by_tid(atomic_load(&raw.tid)));

	cr_assert_neq(found, 0);
	cr_assert_null(sp_thread_own);
	atomic_store(&raw.signal, our_value(found - 1U));
	while (atomic_load(&raw.signal) != 0)
		(void)sched_yield();
	end_raw();

	cr_expect(sp_thread_own == NULL || sp_thread_own->index != found - 1U);
	cr_expect_eq(drain(), 0);
}

Test(sampler, takes_no_sample_in_a_thread_on_the_storage_of_another)
{
	prepare();
	(void)enrol_without_timer();
	const struct sp_thread *other = sp_thread_claim();

	start_raw();
	atomic_store(&raw.signal, our_value(other->index));
	while (atomic_load(&raw.signal) != 0)
		(void)sched_yield();
	end_raw();

	cr_expect_eq(drain(), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_SIGNALS), 0);
}
