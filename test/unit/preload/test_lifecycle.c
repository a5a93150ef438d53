/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting: once, on demand, and never after it was switched off or has failed. A double stands for the exporter;
 * everything else is real.
 */
#include "preload/lifecycle/lifecycle.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/exporter/exporter.h"
#include "preload/lifecycle/sdk.h"
#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/base/cpu_clock.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/seccomp.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/region.h"
#include "sampler/sampling/handler.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"
#include "test/unit/emulated.h"
#include "test/unit/sampler/stderr_pipe.h"

#define EXPORTER_PID 4711

static _Atomic int early_result; /* of a thread that comes while another one starts; 0 = none yet */

static struct {
	int started;
	bool meets_another;
	int refuse; /* errno of the start, 0 = it succeeds */
	bool ended;
	uint32_t asks; /* the exporter's first requests */
	unsigned flushes;
	bool is_own; /* it has a keeper */
	uint32_t flush_ms;
	uint32_t
		ends_after_ms; /* the exporter ends during the first flush, and another one replaces
                                * it; 0 = it does not */
	bool meets_filter;
	_Atomic bool is_starting; /* a start is in progress when a filter comes */
	_Atomic bool has_started;
	unsigned parted;
	bool answers_parting;
	unsigned asked; /* number of children that have asked for an exporter */
	unsigned told;  /* number of reports that there is no exporter */
	uint32_t told_as;
	int told_error;
} exporter;

static int64_t later_s; /* lead of the test's clock */
/*
 * Each reading of this thread's clock advances it by this much, and nothing else does; below 0: the kernel's clock.
 */
static __thread int64_t step_ns = -1;
static __thread int64_t stepped_ns;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_MONOTONIC && step_ns >= 0) {
		stepped_ns += step_ns;
		now->tv_sec = 1 + stepped_ns / 1000000000;
		now->tv_nsec = stepped_ns % 1000000000;
	} else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) {
		now->tv_sec += later_s;
	}
	return rc;
}

/* A thread waits at most 50 ms for a start, and on a slow machine this start takes longer. */
static void *come_early(void *arg)
{
	step_ns = 0;
	atomic_store(&early_result, sp_lifecycle_start() ? 1 : -1);
	return arg;
}

/* Leaves the other thread time to be refused, if that happens. */
static void meet_another(void)
{
	struct timespec began;
	struct timespec now;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, come_early, NULL), 0);
	cr_assert_eq(pthread_detach(thread), 0);
	(void)clock_gettime(CLOCK_MONOTONIC, &began);
	do {
		(void)sched_yield();
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
	} while (atomic_load(&early_result) == 0 &&
		 (now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec < 5000000);
}

static void rest(uint64_t ns)
{
	uint64_t end = sp_monotonic_ns() + ns;

	while (sp_monotonic_ns() < end)
		(void)sched_yield();
}

/* The start goes on for a while after another thread has come to install a filter. */
static void meet_filter(void)
{
	atomic_store(&exporter.is_starting, true);
	rest(5 * SP_NS_PER_MS);
	exporter.ended = false;
	atomic_store(&exporter.has_started, true);
}

int32_t sp_exporter_who(void)
{
	return EXPORTER_PID;
}

int sp_exporter_start(const struct sp_config *cfg, int region_fd)
{
	cr_assert_eq(cfg, sp_lifecycle_config());
	cr_assert_eq(close(region_fd), 0);
	exporter.started++;
	atomic_fetch_or(&sp_region->deferred_work, exporter.asks);
	if (exporter.meets_another)
		meet_another();
	if (exporter.meets_filter)
		meet_filter();
	errno = ESRCH;
	return -exporter.refuse;
}

bool sp_exporter_works(void)
{
	return !exporter.ended;
}

void sp_exporter_log_ended(void)
{
	exporter.told++;
	exporter.told_as = atomic_load(&sp_region_now()->exporter);
	exporter.told_error = atomic_load(&sp_region_now()->exporter_error);
}

bool sp_exporter_is_own(void)
{
	return exporter.is_own;
}

void sp_exporter_family_load(bool note_pid SP_UNUSED)
{
}

void sp_exporter_family_forked(const struct sp_region *parents SP_UNUSED)
{
}

void sp_exporter_family_refused(void)
{
}

bool sp_exporter_family_is_asked(void)
{
	if (exporter.asked == 0)
		return false;
	exporter.asked--;
	return true;
}

bool sp_exporter_family_part(void)
{
	return exporter.parted++ == 0;
}

/* If the process has parted from the region, this exporter takes the rest of the records and ends. */
void sp_exporter_wake(struct sp_region *r)
{
	if (exporter.answers_parting && atomic_load(&r->state) == SP_REGION_PARTED)
		atomic_store(&r->exporter, SP_EXPORTER_GONE);
}

bool sp_exporter_family_is_forked(void)
{
	return false;
}

bool sp_exporter_finish(uint32_t timeout_ms)
{
	uint64_t ns = exporter.ends_after_ms * SP_NS_PER_MS;

	exporter.flushes++;
	exporter.flush_ms = timeout_ms;
	if (exporter.ends_after_ms == 0)
		return true;
	exporter.ends_after_ms = 0;
	rest(ns);
	return false;
}

#define OBJECT "libspanprof.so"

static void load_with(const char *one, const char *two)
{
	char *envp[] = {(char *)(uintptr_t) "LD_PRELOAD=" OBJECT,
			(char *)(uintptr_t) "SPANPROF_LOG_LEVEL=none", (char *)(uintptr_t)one,
			(char *)(uintptr_t)two, NULL};

	sp_lifecycle_load(envp, OBJECT);
}

/* Loads with messages on stderr. */
static void load_that_tells(void)
{
	char level[] = "SPANPROF_LOG_LEVEL=warn";
	char folder[] = "SPANPROF_OUTPUT_DIR=/nowhere";
	char preload[] = "LD_PRELOAD=" OBJECT;
	char *envp[] = {preload, level, folder, NULL};

	sp_lifecycle_load(envp, OBJECT);
}

static void load_and_start(void)
{
	load_with(NULL, NULL);
	cr_assert(sp_lifecycle_start());
}

static void end(void)
{
	sp_thread_disarm_all();
}

TestSuite(lifecycle, .fini = end, .timeout = 20);

Test(lifecycle, a_thread_that_comes_while_another_one_starts_is_not_turned_away)
{
	exporter.meets_another = true;
	load_with("SPANPROF_OUTPUT_DIR=/nowhere", "SPANPROF_FLUSH_TIMEOUT=0");

	cr_assert(sp_lifecycle_start());
	while (atomic_load(&early_result) == 0)
		(void)sched_yield();
	cr_assert_eq(atomic_load(&early_result), 1);
	cr_assert_eq(exporter.started, 1);
}

/* The thread that was starting is gone. If each span waited its 50 ms, the test would take 3 s. */
Test(lifecycle, a_start_that_never_ends_does_not_hold_up_every_span)
{
	load_with(NULL, NULL);
	atomic_store(&sp_lifecycle_state, SP_LIFECYCLE_STARTING);
	step_ns = 10 * SP_NS_PER_MS;
	for (int i = 0; i < 60; i++)
		cr_assert_not(sp_lifecycle_start());

	cr_expect_lt(stepped_ns, INT64_C(2000000000));
}

Test(lifecycle, is_off_before_it_was_loaded)
{
	cr_assert_not(sp_lifecycle_wanted());
	cr_assert_not(sp_lifecycle_start());
	sp_lifecycle_main();
	sp_lifecycle_end();

	cr_assert_eq(exporter.started, 0);
	cr_assert_eq(exporter.flushes, 0);
}

Test(lifecycle, loaded_it_only_waits)
{
	load_with(NULL, NULL);
	sp_lifecycle_main();

	cr_assert(sp_lifecycle_wanted());
	cr_assert_not(sp_lifecycle_active());
	cr_assert_eq(exporter.started, 0);
	cr_assert_eq(sp_signals_number(), 0);
}

Test(lifecycle, starts_once_at_the_first_span)
{
	load_with(NULL, NULL);
	errno = 4711;

	cr_assert(sp_lifecycle_start());
	cr_assert(sp_lifecycle_start());

	cr_assert(sp_lifecycle_active());
	cr_assert_eq(exporter.started, 1);
	cr_assert_neq(sp_signals_number(), 0);
	cr_assert_neq(atomic_load(&sp_thread_own->timer), SP_THREAD_TIMER_NONE,
		      "the thread that started it");
	cr_assert_eq(errno, 4711);
}

/* The exporter may have asked before our threads were known. */
Test(lifecycle, what_it_has_done_at_the_start_is_not_done_again)
{
	exporter.asks = SP_WORK_LOOK | SP_WORK_SCAN;
	load_with(NULL, NULL);

	cr_assert(sp_lifecycle_start());
	cr_expect_eq(atomic_load(&sp_region->deferred_work), SP_WORK_LOOK);
}

Test(lifecycle, starts_before_main_on_request)
{
	load_with("SPANPROF_PROFILE=always", NULL);
	sp_lifecycle_main();

	cr_assert(sp_lifecycle_active());
	cr_assert_eq(sp_reentrancy_guard_frame, 0, "the guard was left");
}

/* Waits below a seccomp filter until the program makes its first clone. */
static void wait_for_a_clone(void)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	const struct sock_fprog program = {.len = 1, .filter = code};

	load_with(NULL, NULL);
	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	cr_assert_not(sp_lifecycle_start());
	cr_assert_eq(exporter.started, 0);
}

/* --- Before a fork -------------------------------------------------------------------------- */

Test(lifecycle, starts_before_a_fork_where_a_child_has_asked)
{
	load_with(NULL, NULL);
	sp_lifecycle_before_fork();
	cr_assert(sp_lifecycle_asleep(), "nobody has asked");

	exporter.asked = 1;
	errno = 4711;
	sp_lifecycle_before_fork();
	cr_expect_eq(errno, 4711);
	cr_expect(sp_lifecycle_active());
	cr_expect_eq(exporter.started, 1);
	cr_expect_eq(sp_reentrancy_guard_frame, 0, "the guard was left");
}

Test(lifecycle, starts_for_nobody_where_it_is_off_or_has_ended)
{
	exporter.asked = 1;
	sp_lifecycle_before_fork();
	cr_expect_eq(exporter.started, 0);

	load_with(NULL, NULL);
	sp_lifecycle_fail();
	sp_lifecycle_before_fork();
	cr_expect_eq(exporter.started, 0);
	cr_expect_eq(exporter.asked, 1);
}

Test(lifecycle, starts_for_nobody_at_its_end)
{
	load_and_start();
	sp_lifecycle_end();
	exporter.asked = 1;
	sp_lifecycle_before_fork();

	cr_expect_eq(exporter.asked, 1);
}

Test(lifecycle, starts_for_nobody_inside_of_a_hooked_call)
{
	load_with(NULL, NULL);
	exporter.asked = 1;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	sp_lifecycle_before_fork();
	sp_reentrancy_guard_exit(g);
	cr_expect_eq(exporter.started, 0);
	cr_expect_eq(exporter.asked, 1, "the next fork does");
}

static void fork_in_handler(int signo SP_UNUSED)
{
	sp_lifecycle_before_fork();
}

Test(lifecycle, starts_for_nobody_on_a_signal_stack)
{
	static char memory[65536];
	const stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
	struct sigaction on = {.sa_handler = fork_in_handler, .sa_flags = SA_ONSTACK};

	load_with(NULL, NULL);
	exporter.asked = 2;
	cr_assert_eq(sigaltstack(&stack, NULL), 0);
	cr_assert_eq(sigaction(SIGUSR1, &on, NULL), 0);
	cr_assert_eq(raise(SIGUSR1), 0);
	cr_expect_eq(exporter.started, 0);

	on.sa_flags = 0;
	cr_assert_eq(sigaction(SIGUSR1, &on, NULL), 0);
	cr_assert_eq(raise(SIGUSR1), 0);
	cr_expect_eq(exporter.started, 1);
}

Test(lifecycle, a_child_that_asks_shows_that_a_fork_is_let_pass)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	wait_for_a_clone();
	exporter.asked = 1;
	sp_lifecycle_before_fork();

	cr_expect_eq(exporter.started, 1);
}

Test(lifecycle, starts_another_exporter_before_a_fork_where_the_former_one_has_ended)
{
	load_and_start();
	exporter.ended = true;
	atomic_store(&sp_region->exporter, SP_EXPORTER_GONE);
	exporter.asked = 1;
	sp_lifecycle_before_fork();

	cr_expect_eq(exporter.started, 2);
}

/* The new thread may start profiling before the call that created the thread returns. */
Test(lifecycle, a_thread_is_known_before_it_is_there)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	wait_for_a_clone();
	cr_assert(sp_lifecycle_before_thread());
	cr_expect_eq(atomic_load(&sp_trial_seen), SP_TRIAL_THREAD);
	cr_expect_not(sp_lifecycle_before_thread(), "it is the first one");

	sp_lifecycle_after_thread(false, true);
	cr_expect_eq(exporter.started, 0);
	sp_lifecycle_after_thread(true, true);
	cr_expect_eq(exporter.started, 1);
	cr_expect_not(sp_lifecycle_before_thread());
}

Test(lifecycle, a_thread_that_could_not_be_made_shows_nothing)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	wait_for_a_clone();
	cr_assert(sp_lifecycle_before_thread());
	sp_lifecycle_after_thread(true, false);

	cr_expect_eq(atomic_load(&sp_trial_seen), 0);
	cr_expect_eq(exporter.started, 0);
	cr_expect(sp_lifecycle_before_thread());
}

Test(lifecycle, without_an_exporter_it_has_failed_for_good)
{
	exporter.refuse = ENOENT;
	load_with(NULL, NULL);

	cr_assert_not(sp_lifecycle_start());
	exporter.refuse = 0;
	cr_assert_not(sp_lifecycle_start());
	cr_assert_not(sp_lifecycle_wanted());
	cr_assert_not(sp_lifecycle_active());
	cr_assert_eq(sp_thread_armed(), 0);
	cr_assert_eq(exporter.started, 1);
	cr_expect_eq(exporter.told, 1);
}

/* The host took the signal: the earlier samples are still there, and so is the exporter that sends them. */
Test(lifecycle, stopped_it_samples_nothing_any_more_but_flushes)
{
	load_and_start();

	sp_lifecycle_stop();

	cr_assert_not(sp_lifecycle_active());
	cr_assert_not(sp_lifecycle_wanted());
	cr_assert_not(sp_lifecycle_start());
	cr_assert_eq(sp_thread_armed(), 0);
	sp_lifecycle_end();
	cr_assert_eq(exporter.flushes, 1);
	sp_lifecycle_end();
	cr_assert_eq(exporter.flushes, 1, "the end was the last one");
}

Test(lifecycle, without_its_exporter_it_samples_nothing_any_more)
{
	load_and_start();
	exporter.ended = true;

	cr_assert_not(sp_lifecycle_start(), "it is noticed by this call");
	cr_assert_not(sp_lifecycle_active());
	cr_assert_not(sp_lifecycle_wanted());
	cr_assert_eq(sp_thread_armed(), 0);
	sp_lifecycle_end();
	cr_assert_eq(exporter.flushes, 0);
}

/* The first steps of each hook. */
static void enter_a_hook(void)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	sp_reentrancy_guard_exit(g);
}

static int work_in_shared_memory(void *arg)
{
	(void)arg;
	enter_a_hook();
	return sp_lifecycle_start() ? 0 : 1;
}

Test(lifecycle, what_is_asked_of_a_process_is_not_done_in_a_child_that_shares_its_memory)
{
	static _Alignas(16) char stack[1 << 18];
	int status = -1;
	int child;

	load_and_start();
	atomic_store(&sp_region->deferred_work, SP_WORK_LOOK);
	child = clone(work_in_shared_memory, stack + sizeof(stack),
		      CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);

	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_eq(atomic_load(&sp_region->deferred_work), SP_WORK_LOOK);
	cr_assert(sp_lifecycle_start());
	cr_expect_eq(atomic_load(&sp_region->deferred_work), 0, "the process itself does it");
}

static volatile sig_atomic_t named; /* calls that name the exporter as tracer */
static volatile sig_atomic_t named_unasked;

static void count_named(int signal)
{
	(void)signal;
	named++;
	/* The exporter tries again as soon as its request is done. */
	if ((atomic_load(&sp_region->deferred_work) & SP_WORK_TRACER) == 0)
		named_unasked++;
}

/* From now on such a call raises a signal, and no hook notices this. False if the machine cannot do that. */
static bool watch_naming(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PTRACER, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EXPORTER_PID, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = SP_ARRAY_LEN(code), .filter = code};

	cr_assert_neq(signal(SIGSYS, count_named), SIG_ERR);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* The exporter has asked for this, because Yama requires it. */
static int names_tracer_when(const char *variable)
{
	load_with(variable, NULL);
	cr_assert(sp_lifecycle_start());
	/* Another process of the user may write there. */
	atomic_store(&sp_region->exporter_pid, EXPORTER_PID + 1);
	if (!watch_naming())
		return -1;
	cr_assert(sp_lifecycle_start());
	cr_expect_eq(named, 0, "nobody has asked");
	for (unsigned i = 0; i < 2; i++) {
		atomic_fetch_or(&sp_region->deferred_work, i == 0 ? SP_WORK_TRACER : SP_WORK_LOOK);
		cr_assert(sp_lifecycle_start());
		cr_expect_eq(atomic_load(&sp_region->deferred_work), 0);
	}
	cr_expect_eq(named_unasked, 0, "it is still asked for when it is done");
	return named;
}

Test(lifecycle, asked_to_it_names_the_exporter_as_tracer_where_waits_are_wanted)
{
	int n = names_tracer_when("SPANPROF_OFF_CPU=true");

	cr_expect(n == 1 || n == -1, "%d calls", n);
}

Test(lifecycle, names_no_tracer_where_waits_are_not_wanted)
{
	cr_expect_leq(names_tracer_when("SPANPROF_OFF_CPU=false"), 0);
}

static bool is_raw; /* forked without the C library */

/*
 * The answer of a child that an active process forks, with that rate and SPANPROF_PROFILE=always: 0 = all is right.
 */
static int in_child_at(const char *rate, int (*is_wrong)(void))
{
	int status = 0;
	pid_t pid;

	load_with("SPANPROF_PROFILE=always", rate);
	cr_assert(sp_lifecycle_start());
	pid = is_raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	if (pid == 0)
		_exit(is_wrong());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The rate is so low that no sample comes, with which the child would begin. */
static int in_child(int (*is_wrong)(void))
{
	return in_child_at("SPANPROF_SAMPLE_RATE=1", is_wrong);
}

/* Profiling has begun in the child by itself; its parent has started once. */
static bool has_begun(void)
{
	return exporter.started != 1 || sp_region_is_there();
}

static int is_not_only_armed(void)
{
	return !sp_lifecycle_active() || has_begun() || sp_thread_armed() != 1 ||
	       sp_count_read(SP_COUNT_SAMPLES_PUT) != 0;
}

Test(lifecycle, a_forked_child_has_a_timer_and_nothing_else)
{
	cr_expect_eq(in_child(is_not_only_armed), 0);
}

static int ends_with_contact(void)
{
	sp_lifecycle_before_exec();
	sp_lifecycle_end();
	return has_begun() || exporter.flushes != 0;
}

Test(lifecycle, a_forked_child_that_ends_at_once_contacts_nobody)
{
	cr_expect_eq(in_child(ends_with_contact), 0);
}

static int begins_without_span(void)
{
	(void)sp_lifecycle_work();
	if (has_begun())
		return 1;
	return sp_lifecycle_start() && exporter.started == 2 && sp_region_is_there() &&
			       sp_region_now()->pid == (uint32_t)getpid() &&
			       sp_region_now()->threads_armed == 1
		       ? 0
		       : 2;
}

Test(lifecycle, a_forked_child_begins_with_its_first_span)
{
	cr_expect_eq(in_child(begins_without_span), 0);
}

/* A hooked call would begin profiling, too, so there is none here. */
static bool begins_within(uint64_t cpu_ns)
{
	uint64_t now = 0;

	while (exporter.started == 1 && now < cpu_ns)
		(void)sp_cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID, &now);
	return exporter.started == 2;
}

static int is_never_sampled(void)
{
	if (!begins_within(SP_NS_PER_S))
		return 1;
	return sp_region_is_there() && sp_count_read(SP_COUNT_SAMPLES_PUT) >= 1 &&
			       sp_count_read(SP_COUNT_DROP_RING_FULL) == 0
		       ? 0
		       : 2;
}

static int is_not_noticed(void)
{
	/* Every hook, for an SDK or for the C library, asks this first. */
	if (!sp_process_is_new() || sp_process_is_ours())
		return 1;
	enter_a_hook();
	if (sp_process_is_new() || !sp_process_is_ours() || is_not_only_armed())
		return 2;
	enter_a_hook();
	return is_not_only_armed() ? 3 : begins_without_span();
}

Test(lifecycle, a_raw_fork_is_noticed_by_the_first_hook_of_the_child)
{
	is_raw = true;
	cr_expect_eq(in_child(is_not_noticed), 0);
	cr_expect_not(sp_process_is_new(), "the parent stays what it is");
	cr_expect(sp_process_is_ours());
}

static int is_not_active_here(void)
{
	errno = 4711;
	return sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE && errno == 4711 ? is_not_only_armed()
									   : 1;
}

Test(lifecycle, a_raw_fork_is_noticed_by_a_hook_of_the_c_library)
{
	is_raw = true;
	cr_expect_eq(in_child(is_not_active_here), 0);
}

/* A hook in the fork handler of another library runs before our own handler. */
static int is_begun_anew(void)
{
	uint32_t forks = atomic_load(&sp_process_forks);

	enter_a_hook();
	if (atomic_load(&sp_process_forks) != forks + 1 || begins_without_span() != 0)
		return 1;
	sp_lifecycle_forked();
	return atomic_load(&sp_process_forks) == forks + 1 && sp_region_is_there() ? 0 : 2;
}

Test(lifecycle, a_fork_is_noticed_once)
{
	is_raw = true;
	cr_expect_eq(in_child(is_begun_anew), 0);
}

Test(lifecycle, a_forked_child_begins_with_its_first_sample)
{
	cr_expect_eq(in_child_at(NULL, is_never_sampled), 0);
}

/* The first sample may not begin profiling inside of a hooked call; the time is reported at the end. */
static int loses_what_it_used(void)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	bool began = begins_within(30 * SP_NS_PER_MS);

	sp_reentrancy_guard_exit(g);
	if (began)
		return 1;
	/* Otherwise the next sample does. */
	sp_thread_disarm_all();
	sp_lifecycle_end();
	if (exporter.started != 2 || exporter.flushes != 1)
		return 2;
	return sp_thread_accounted_ns >= 30 * SP_NS_PER_MS && sp_count_read(SP_COUNT_UNSAMPLED) != 0
		       ? 0
		       : 3;
}

Test(lifecycle, what_a_forked_child_used_before_it_could_begin_is_told_at_its_end)
{
	cr_expect_eq(in_child_at(NULL, loses_what_it_used), 0);
}

static int begins_before_it_is_confined(void)
{
	errno = ENOSYS;
	sp_lifecycle_before_confinement();
	sp_lifecycle_before_confinement();
	return exporter.parted == 2 && exporter.started == 2 && sp_region_is_there() &&
			       errno == ENOSYS
		       ? 0
		       : 1;
}

Test(lifecycle, a_forked_child_begins_before_it_is_confined)
{
	cr_expect_eq(in_child(begins_before_it_is_confined), 0);
}

static int parts(bool answers, uint64_t least_ns, uint64_t most_ns)
{
	const struct sp_region *old;
	struct sp_region *now;
	uint64_t began;

	if (begins_without_span() != 0)
		return 1;
	old = now = sp_region_now();
	atomic_store(&now->exporter, SP_EXPORTER_WORKING);
	exporter.answers_parting = answers;
	began = sp_monotonic_ns();
	sp_lifecycle_before_confinement();
	began = sp_monotonic_ns() - began;
	if (began < least_ns || began > most_ns)
		return 2;
	now = sp_region_now();
	return exporter.started == 3 && now != old && old->state == SP_REGION_PARTED &&
			       now->state == SP_REGION_SAMPLING && now->threads_armed == 1
		       ? 0
		       : 3;
}

static int parts_at_once(void)
{
	return parts(true, 0, 150 * SP_NS_PER_MS);
}

/* The exporter may be stopped. */
static int parts_after_a_while(void)
{
	return parts(false, 150 * SP_NS_PER_MS, 2 * SP_NS_PER_S);
}

Test(lifecycle, a_forked_child_that_has_joined_parts_before_it_is_confined)
{
	cr_expect_eq(in_child(parts_at_once), 0);
}

Test(lifecycle, a_forked_child_parts_though_nobody_answers)
{
	cr_expect_eq(in_child(parts_after_a_while), 0);
}

static int starts_none_when_confined(void)
{
	exporter.is_own = true;
	sp_lifecycle_before_confinement();
	exporter.is_own = false;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	sp_lifecycle_before_confinement();
	sp_reentrancy_guard_exit(g);
	sp_lifecycle_end();
	sp_lifecycle_before_confinement();
	return exporter.parted != 0 || has_begun();
}

Test(lifecycle, a_forked_child_starts_no_second_exporter_and_none_at_its_end)
{
	cr_expect_eq(in_child(starts_none_when_confined), 0);
}

Test(lifecycle, who_has_started_the_exporter_keeps_it_when_confined)
{
	load_and_start();
	sp_lifecycle_before_confinement();
	cr_expect_eq(exporter.parted, 0);
	cr_expect_eq(exporter.started, 1);
}

static int leaves_a_grandchild_of_its_own(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(is_not_only_armed() || begins_without_span());
	return waitpid(pid, &status, 0) != pid || status != 0 || has_begun();
}

Test(lifecycle, a_forked_childs_child_begins_anew_as_well)
{
	cr_expect_eq(in_child(leaves_a_grandchild_of_its_own), 0);
}

static pthread_barrier_t apart;

static void *sleep_apart(void *arg)
{
	(void)pthread_barrier_wait(&apart);
	(void)pthread_barrier_wait(&apart);
	return arg;
}

/* A thread of a library whose pthread_create() is not ours. The handler may run even in a thread without a timer. */
static void *scan_as_handler(void *arg)
{
	sp_handler_setup.scan();
	return arg;
}

static void run_scan(void)
{
	pthread_t scanner;

	cr_assert_eq(pthread_create(&scanner, NULL, scan_as_handler, NULL), 0);
	cr_assert_eq(pthread_join(scanner, NULL), 0);
}

Test(lifecycle, the_handler_finds_threads_that_no_hook_saw)
{
	pthread_t unseen;

	load_and_start();
	cr_assert_eq(pthread_barrier_init(&apart, NULL, 2), 0);
	cr_assert_eq(pthread_create(&unseen, NULL, sleep_apart, NULL), 0);
	(void)pthread_barrier_wait(&apart);
	atomic_store(&sp_region_now()->deferred_work, SP_WORK_SCAN | SP_WORK_SCAN_NOW);
	cr_assert(sp_deferred_work_lock(0));
	run_scan();
	cr_expect_eq(sp_thread_armed(), 1, "another thread does deferred work");
	sp_deferred_work_unlock();
	run_scan();
	cr_expect_eq(sp_thread_armed(), 3, "the scanner has ended, and is still known");
	cr_expect_eq(sp_region_now()->threads_armed, 3);
	cr_expect_eq(sp_region_now()->deferred_work, 0);
	cr_expect_eq(sp_region_now()->cookie, sp_handler_setup.cookie);
	cr_assert(sp_deferred_work_lock(0), "it leaves");
	sp_deferred_work_unlock();
	(void)pthread_barrier_wait(&apart);
	cr_assert_eq(pthread_join(unseen, NULL), 0);
	sp_lifecycle_end();
	atomic_store(&sp_region_now()->deferred_work, SP_WORK_SCAN_NOW);
	run_scan();
	cr_expect_eq(sp_region_now()->deferred_work, SP_WORK_SCAN_NOW, "the process ends");
}

/* By the raw system call no hook sees it. */
Test(lifecycle, a_scan_finds_a_new_alternate_stack_of_the_thread)
{
	static char memory[65536];
	const stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
	const struct sigaction on = {.sa_handler = fork_in_handler, .sa_flags = SA_ONSTACK};

	load_and_start();
	cr_assert_eq(sigaction(SIGUSR1, &on, NULL), 0);
	cr_assert_eq(syscall(SYS_sigaltstack, &stack, NULL), 0);
	atomic_store(&sp_region->deferred_work, SP_WORK_SCAN);
	cr_assert(sp_lifecycle_start());
	cr_expect_eq(atomic_load(&sp_thread_own->alternate_at), (uintptr_t)memory);
}

Test(lifecycle, flushes_for_as_long_as_configured)
{
	load_with("SPANPROF_FLUSH_TIMEOUT=1500ms", NULL);
	sp_lifecycle_end();
	cr_assert_eq(exporter.flushes, 0, "nothing to send before the start");
	cr_assert(sp_lifecycle_start());
	sp_lifecycle_end();

	cr_assert_eq(exporter.flushes, 1);
	cr_assert_eq(exporter.flush_ms, 1500);
}

Test(lifecycle, waits_for_two_exporters_no_longer_than_for_one)
{
	load_with("SPANPROF_FLUSH_TIMEOUT=1500ms", NULL);
	cr_assert(sp_lifecycle_start());
	exporter.ends_after_ms = 50;
	sp_lifecycle_end();

	cr_assert_eq(exporter.flushes, 2);
	cr_expect_leq(exporter.flush_ms, 1450);
	cr_expect_gt(exporter.flush_ms, 0);
}

static void *start_another(void *arg)
{
	exporter.meets_filter = true;
	exporter.ended = true;
	atomic_store(&sp_region->exporter, SP_EXPORTER_GONE);
	(void)sp_deferred_work_revive();
	return arg;
}

/* Below a filter, the system calls for the start of another exporter could end the host. */
Test(lifecycle, a_filter_waits_for_the_start_of_another_exporter)
{
	pthread_t thread;

	load_and_start();
	cr_assert_eq(pthread_create(&thread, NULL, start_another, NULL), 0);
	while (!atomic_load(&exporter.is_starting))
		(void)sched_yield();
	sp_lifecycle_before_filter();

	cr_expect(atomic_load(&exporter.has_started));
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(exporter.started, 2);
	cr_expect(sp_seccomp_is_on());
	sp_lifecycle_after_filter(true);
	cr_expect_not(sp_seccomp_is_on(), "it was refused");
	cr_expect(sp_lifecycle_start());
}

/* The exporter ends in that way, that many seconds later. Returns whether another exporter runs now. */
static bool goes_on_after(uint32_t how, int64_t seconds)
{
	int before = exporter.started;
	bool goes_on;

	later_s += seconds;
	exporter.ended = true;
	atomic_store(&sp_region->exporter, how);
	goes_on = sp_deferred_work_revive();
	exporter.ended = false;
	cr_expect_eq(exporter.started, before + goes_on);
	return goes_on;
}

Test(lifecycle, an_exporter_that_has_ended_is_replaced_three_times_after_growing_pauses)
{
	load_and_start();

	cr_expect(goes_on_after(SP_EXPORTER_GONE, 0));
	cr_expect_not(goes_on_after(SP_EXPORTER_GONE, 0));
	cr_expect(goes_on_after(SP_EXPORTER_GONE, 1));
	cr_expect_not(goes_on_after(SP_EXPORTER_GONE, 1));
	cr_expect_not(goes_on_after(SP_EXPORTER_GONE, 8));
	cr_expect(goes_on_after(SP_EXPORTER_GONE, 2));
	cr_expect(sp_lifecycle_active());
	cr_expect_not(goes_on_after(SP_EXPORTER_GONE, 1000));
	cr_expect_not(sp_lifecycle_active(), "for good");
}

/* Many calls come at the end of the process. Only the first of them may begin the last pause. */
Test(lifecycle, at_the_end_of_the_process_a_pause_ends_as_well)
{
	load_and_start();
	cr_expect(goes_on_after(SP_EXPORTER_GONE, 0));
	sp_lifecycle_end();

	cr_expect_not(goes_on_after(SP_EXPORTER_GONE, 0));
	cr_expect(goes_on_after(SP_EXPORTER_GONE, 1));
}

/* A new exporter goes on with the region of this one, and reports so in one line. */
static const char *line_at_a_restart(unsigned samples, unsigned waits)
{
	_Atomic uint64_t *told = sp_region->exporter_counter;

	atomic_fetch_add(&sp_region->counter[SP_COUNT_SAMPLES_PUT], samples);
	atomic_fetch_add(&told[SP_COUNT_WAITS], waits);
	stderr_begin();
	cr_expect(goes_on_after(SP_EXPORTER_GONE, 0) || goes_on_after(SP_EXPORTER_GONE, 1));
	cr_expect_eq(stderr_end(), 1, "%s", stderr_text);
	return stderr_text;
}

Test(lifecycle, what_an_exporter_had_not_sent_is_told_by_kind)
{
	const char *line;

	load_that_tells();
	cr_assert(sp_lifecycle_start());
	sp_thread_disarm_all();
	line = line_at_a_restart(3, 0);
	cr_expect_not_null(strstr(line, "is lost: 3 samples\n"), "%s", line);
	line = line_at_a_restart(0, 5);
	cr_expect_not_null(strstr(line, "is lost: 0 samples, 5 waits\n"), "%s", line);
}

/* Leaves no free descriptor, as in a server at a peak of connections; or restores the limit. */
static void limit_descriptors(bool none)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = none ? 3 : limit.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static bool starts_without_descriptors(void)
{
	bool starts;

	limit_descriptors(true);
	starts = sp_lifecycle_start();
	limit_descriptors(false);
	return starts;
}

/* Whether a span is recorded that many seconds later, and that many exporters were started by then. */
static bool starts_after(int64_t seconds, int exporters)
{
	bool starts;

	later_s += seconds;
	starts = sp_lifecycle_start();
	cr_expect_eq(exporter.started, exporters);
	return starts;
}

Test(lifecycle, a_start_that_finds_no_descriptor_is_tried_again_after_a_second)
{
	load_with(NULL, NULL);

	cr_expect_not(starts_without_descriptors());
	cr_expect(sp_lifecycle_wanted());
	cr_expect_not(starts_after(0, 0), "not by each span");
	cr_expect(starts_after(2, 1));
	cr_expect(sp_lifecycle_active());
}

Test(lifecycle, that_a_start_is_tried_again_is_told_once)
{
	load_that_tells();
	stderr_begin();
	cr_expect_not(starts_without_descriptors());
	cr_expect_eq(stderr_end(), 1, "%s", stderr_text);
	cr_expect(stderr_has("cannot set up sampling (out of descriptors): trying again for some "
			     "minutes"),
		  "%s", stderr_text);
	stderr_begin();
	later_s += 2;
	cr_expect_not(starts_without_descriptors());
	cr_expect_eq(stderr_end(), 0, "%s", stderr_text);
}

Test(lifecycle, a_start_that_never_finds_a_descriptor_is_given_up)
{
	unsigned tries = 0;

	load_with(NULL, NULL);
	for (; sp_lifecycle_wanted() && tries < 100; tries++) {
		cr_expect_not(starts_without_descriptors());
		later_s += 1000;
	}
	cr_expect_eq(tries, 9);
	cr_expect_eq(exporter.started, 0);
}

Test(lifecycle, that_a_start_is_given_up_is_told)
{
	load_that_tells();
	stderr_begin();
	while (sp_lifecycle_wanted()) {
		(void)starts_without_descriptors();
		later_s += 1000;
	}
	cr_expect_eq(stderr_end(), 2, "%s", stderr_text);
	cr_expect(
		stderr_has(
			"cannot set up sampling (out of descriptors): not profiling this process"),
		"%s", stderr_text);
}

static int begins_later(void)
{
	if (starts_without_descriptors() || !sp_lifecycle_active() || has_begun())
		return 1;
	/* A handler may interrupt any code, so it begins nothing. */
	later_s += 2;
	sp_handler_setup.begin();
	if (has_begun())
		return 2;
	return sp_lifecycle_start() && exporter.started == 2 && sp_region_is_there() ? 0 : 3;
}

Test(lifecycle, a_forked_child_that_finds_no_descriptor_begins_with_a_later_span)
{
	cr_expect_eq(in_child(begins_later), 0);
}

/* The parent's start was put off and then succeeded: that does not concern the child. */
Test(lifecycle, a_forked_child_begins_in_the_handler_though_its_parents_start_was_put_off)
{
	int status = -1;
	pid_t pid;

	load_with("SPANPROF_PROFILE=always", "SPANPROF_SAMPLE_RATE=1");
	cr_assert_not(starts_without_descriptors());
	cr_assert(starts_after(2, 1));
	pid = fork();
	if (pid == 0) {
		sp_handler_setup.begin();
		_exit(sp_region_is_there() && exporter.started == 2 ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

static int begins_when_nobody_else_does(void)
{
	if (!sp_deferred_work_lock(0))
		return 1;
	sp_handler_setup.begin();
	sp_deferred_work_unlock();
	if (has_begun())
		return 2;
	sp_handler_setup.begin();
	return sp_region_is_there() ? 0 : 3;
}

Test(lifecycle, a_handler_does_not_begin_what_another_thread_is_at)
{
	cr_expect_eq(in_child(begins_when_nobody_else_does), 0);
}

/* The process is sampled meanwhile. */
Test(lifecycle, an_exporter_that_finds_no_process_is_started_later)
{
	exporter.refuse = EAGAIN;
	load_with(NULL, NULL);
	cr_assert(sp_lifecycle_start());
	exporter.refuse = 0;
	exporter.ended = true;

	cr_expect(starts_after(0, 1));
	cr_expect(starts_after(2, 2));
	cr_expect(sp_lifecycle_active());
	cr_expect_eq(exporter.told, 0, "it may still come");
	exporter.ended = false;
	cr_expect(goes_on_after(SP_EXPORTER_GONE, 0), "it was none of the restarts");
	cr_expect_not(goes_on_after(SP_EXPORTER_GONE, 0), "but that was one");
}

Test(lifecycle, an_exporter_that_never_finds_a_process_is_given_up)
{
	exporter.refuse = EAGAIN;
	exporter.ended = true;
	load_with(NULL, NULL);

	for (int i = 0; i < 100 && sp_lifecycle_start(); i++)
		later_s += 1000;
	cr_expect_not(sp_lifecycle_wanted());
	cr_expect_eq(exporter.started, 9);
	cr_expect_neq(exporter.told, 0);
	cr_expect_eq(exporter.told_as, SP_EXPORTER_FAILED, "not one that has sent something");
	cr_expect_eq(exporter.told_error, EAGAIN);
}

/* The keeper is a process as well, for which there was room. */
Test(lifecycle, a_keeper_that_finds_no_process_for_the_exporter_makes_one_later)
{
	load_and_start();
	exporter.ended = true;
	atomic_store(&sp_region->exporter_error, EAGAIN);
	atomic_store(&sp_region->exporter, SP_EXPORTER_FAILED);

	cr_expect(starts_after(1, 1));
	cr_expect(starts_after(0, 1));
	cr_expect(starts_after(2, 2));
	cr_expect(sp_lifecycle_active());
}

/* Its exporter has ended in that way, and there are no free descriptors. */
static void goes_on_without_descriptors(uint32_t how)
{
	limit_descriptors(true);
	cr_expect_not(goes_on_after(how, 0));
	limit_descriptors(false);
	cr_expect(sp_lifecycle_active());
	cr_expect_not(goes_on_after(how, 0), "not by each span");
	cr_expect(goes_on_after(how, 2));
}

Test(lifecycle, an_exporter_that_ended_is_replaced_when_there_are_descriptors_again)
{
	static const uint32_t how[] = {SP_EXPORTER_GONE, SP_EXPORTER_MOVED, SP_EXPORTER_REFUSED};

	load_and_start();
	for (unsigned i = 0; i < SP_ARRAY_LEN(how); i++) {
		goes_on_without_descriptors(how[i]);
		/* A working exporter requests this. */
		atomic_fetch_or(&sp_region->deferred_work, SP_WORK_LOOK);
		atomic_store(&sp_region->exporter, SP_EXPORTER_WORKING);
		cr_expect(sp_lifecycle_start());
	}
}

Test(lifecycle, spans_that_never_end_are_looked_for_eight_times_in_the_longest_age)
{
	const struct sp_span_start span = {
		.handle = &exporter, .span_id = {1}, .trace_id = {1}, .name = "GET", .name_len = 3};
	static const int64_t later[] = {0, 159, 21};

	load_with("SPANPROF_MAX_SPAN_AGE=160s", NULL);
	cr_assert(sp_lifecycle_start());
	cr_assert(sp_span_started(&span));
	for (unsigned i = 0; i < SP_ARRAY_LEN(later); i++) {
		later_s += later[i];
		cr_expect_eq(sp_span_table_count(), 1);
		atomic_fetch_or(&sp_region->deferred_work, SP_WORK_LOOK);
		cr_assert(sp_lifecycle_start());
	}
	cr_expect_eq(sp_span_table_count(), 0);
}

Test(lifecycle, an_exporter_that_does_not_serve_it_is_replaced_at_once)
{
	load_and_start();

	cr_expect(goes_on_after(SP_EXPORTER_GONE, 0));
	cr_expect(goes_on_after(SP_EXPORTER_REFUSED, 0));
	cr_expect(goes_on_after(SP_EXPORTER_REFUSED, 0));
	cr_expect_not(goes_on_after(SP_EXPORTER_REFUSED, 1000), "it is counted");
}

/* A long-lived worker whose siblings are recycled, and start the exporters. */
Test(lifecycle, exporters_that_end_with_their_starters_are_replaced_without_end)
{
	load_and_start();

	for (int i = 0; i < 40; i++) {
		cr_assert(goes_on_after(SP_EXPORTER_MOVED, 5));
		sp_deferred_work_account();
	}
}

Test(lifecycle, too_many_exporters_within_a_minute_are_a_pause_and_no_end)
{
	load_that_tells();
	cr_assert(sp_lifecycle_start());
	stderr_begin();
	while (goes_on_after(SP_EXPORTER_MOVED, 0))
		cr_assert_leq(exporter.started, 100);
	cr_expect_eq(stderr_end(), 1, "%s", stderr_text);
	cr_expect(stderr_has("cannot set up sampling (too many exporters have ended within a "
			     "minute): trying again for some minutes"),
		  "%s", stderr_text);
	later_s += 3;
	sp_deferred_work_account();
	cr_expect(sp_lifecycle_active());
	cr_expect(goes_on_after(SP_EXPORTER_MOVED, 60));
}

Test(lifecycle, an_exporter_that_ended_with_its_starter_is_replaced_at_once_and_does_not_count)
{
	load_and_start();

	for (int i = 0; i < 5; i++)
		cr_expect(goes_on_after(SP_EXPORTER_MOVED, 0));
	atomic_store(&sp_region->end_asked, 1);
	cr_expect_not(goes_on_after(SP_EXPORTER_MOVED, 0), "we are about to execute a program");
	cr_expect(goes_on_after(SP_EXPORTER_MOVED, 1), "that failed");
	cr_expect(goes_on_after(SP_EXPORTER_GONE, 0));
}

Test(lifecycle, an_exporter_that_never_worked_is_not_replaced)
{
	load_and_start();

	cr_expect_not(goes_on_after(SP_EXPORTER_FAILED, 1000));
	cr_expect_not(sp_lifecycle_active());
	cr_expect_neq(exporter.told, 0);
}

/* The exporter of that process fails with that errno; 0 = it had no process. */
static void expect_no_other_one_after(int error, int32_t pid)
{
	load_and_start();

	exporter.ended = true;
	atomic_store(&sp_region->exporter_error, error);
	atomic_store(&sp_region->exporter_pid, pid);
	atomic_store(&sp_region->exporter, SP_EXPORTER_FAILED);
	cr_expect_not(starts_after(0, 1));
	cr_expect_not(sp_lifecycle_active());
	cr_expect_neq(exporter.told, 0);
}

Test(lifecycle, a_process_for_the_exporter_that_is_refused_is_not_tried_again)
{
	expect_no_other_one_after(EPERM, 0);
}

/* The exporter had a process, which ended early. */
Test(lifecycle, an_exporter_that_failed_by_itself_is_not_tried_again)
{
	expect_no_other_one_after(EAGAIN, 1);
}

Test(lifecycle, a_second_exporter_that_never_works_is_told_without_a_pause)
{
	load_and_start();

	cr_expect(goes_on_after(SP_EXPORTER_GONE, 0));
	cr_expect_not(goes_on_after(SP_EXPORTER_FAILED, 0));
	cr_expect_not(sp_lifecycle_active());
}

Test(lifecycle, an_exporter_of_its_own_is_ended_though_there_is_nothing_to_send)
{
	load_and_start();
	exporter.is_own = true;
	sp_lifecycle_before_exec();
	cr_assert_eq(exporter.flushes, 1, "before an exec");

	sp_lifecycle_fail();
	sp_lifecycle_end();
	cr_assert_eq(exporter.flushes, 2, "at the end, though it has failed");
}

Test(lifecycle, nothing_is_started_once_the_end_has_begun)
{
	load_and_start();
	sp_lifecycle_end();
	exporter.ended = true;
	(void)sp_lifecycle_start();

	cr_assert_eq(exporter.started, 1);
}

static int status_of(pid_t child)
{
	int status = -1;

	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

/* As the parent of a daemon: the process between has no span, so nothing starts there. */
Test(lifecycle, a_grandchild_is_armed_by_its_own_thread_id)
{
	pid_t child;

	load_and_start();
	cr_assert_not_null(sp_thread_own);

	child = fork();
	if (child == 0) {
		pid_t grandchild;

		if (sp_lifecycle_active())
			_exit(1);
		grandchild = fork();
		if (grandchild == 0)
			_exit(sp_lifecycle_start() &&
					      atomic_load(&sp_thread_own->timer) !=
						      SP_THREAD_TIMER_NONE &&
					      atomic_load(&sp_thread_own->tid) == (uint32_t)getpid()
				      ? 0
				      : 1);
		_exit(status_of(grandchild) == 0 ? 0 : 2);
	}
	cr_assert_eq(status_of(child), 0);
}

static bool is_made_up(const char *name)
{
	return sp_sdk_service_is_made_up(name, strlen(name));
}

/* SDKs give a service without a name this name, with or without the program's name in it. */
Test(lifecycle, knows_a_service_name_that_an_sdk_has_made_up, .timeout = 20)
{
	cr_expect(is_made_up("unknown_service"));
	cr_expect(is_made_up("unknown_service:shop"));
	cr_expect_not(is_made_up("unknown_servic"));
	cr_expect_not(is_made_up("my unknown_service"));
	cr_expect_not(is_made_up(""));
	cr_expect_not(sp_sdk_service_is_made_up("unknown_service", 14),
		      "what is behind is none of it");
}

static void has_resource(const char *service, const char *attributes)
{
	struct sp_sdk_resource *r = sp_sdk_resource_begin(__builtin_frame_address(0));

	cr_assert_not_null(r);
	cr_assert_str_eq(r->service, "");
	cr_assert_str_eq(r->attributes, "");
	strcpy(r->service, service);
	strcpy(r->attributes, attributes);
	sp_sdk_resource_end(r);
}

/* Profiles and spans then have the same service. */
Test(lifecycle, takes_the_first_service_that_an_sdk_has, .timeout = 20)
{
	load_that_tells();
	has_resource("shop", "service.name=shop");
	has_resource("later", "service.name=later");
	cr_assert(sp_lifecycle_start());

	cr_expect_str_eq(sp_lifecycle_config()->service_name, "shop");
	stderr_begin();
	has_resource("shop", "service.name=shop");
	has_resource("", "");
	cr_expect_eq(stderr_end(), 0, "%s", stderr_text);
	stderr_begin();
	has_resource("other", "service.name=other");
	has_resource("another", "service.name=another");
	cr_expect_eq(stderr_end(), 1, "%s", stderr_text);
	cr_expect_not_null(strstr(stderr_text, "shop"));
	cr_expect_not_null(strstr(stderr_text, "other"));
}

static _Atomic unsigned readers;
static _Atomic bool is_read;

/* Reads until the test lets it go on, as if it was preempted. */
static void *read_slowly(void *arg)
{
	struct sp_sdk_resource *r = sp_sdk_resource_begin(__builtin_frame_address(0));

	atomic_fetch_add(&readers, 1);
	while (!atomic_load(&is_read))
		sched_yield();
	if (r != NULL) {
		strcpy(r->service, "late");
		sp_sdk_resource_end(r);
	}
	return arg;
}

/* The thread that starts sampling waits for none of them. */
Test(lifecycle, takes_the_service_that_one_thread_has_read_while_others_read_it, .timeout = 60)
{
	pthread_t thread[17];
	pid_t child;
	int status;

	load_that_tells();
	for (int i = 0; i < 15; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, read_slowly, NULL), 0);
	while (atomic_load(&readers) < 15)
		sched_yield();
	has_resource("shop", "service.name=shop");
	/* The entry of the used resource stays taken, in a forked child too. */
	cr_assert_null(sp_sdk_resource_begin(__builtin_frame_address(0)));
	cr_assert(sp_lifecycle_start());
	atomic_store(&is_read, true);
	for (int i = 0; i < 15; i++)
		cr_assert_eq(pthread_join(thread[i], NULL), 0);

	cr_expect_str_eq(sp_lifecycle_config()->service_name, "shop");
	for (int i = 0; i < 20; i++)
		has_resource("shop", "service.name=again");
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		for (int i = 0; i < 20; i++)
			has_resource("shop", "service.name=again");
		sp_config_capture(environ);
		sp_sdk_resource_configure();
		_exit(strcmp(sp_config_copy_environment("")[2], "OTEL_RESOURCE_ATTRIBUTES="
								"service.name=shop") != 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
}

/* The exporter reports the first instance in the region. */
Test(lifecycle, tells_where_an_sdk_is_and_which_service_it_has, .timeout = 20)
{
	struct sp_sdk_reached instance = {.way = SP_SDK_WAY_TYPES,
					  .address = stderr, /* an address in the C library */
					  .release = "1.2.3",
					  .service = "shop"};
	const struct sp_region_sdk *told;
	struct sp_region_sdk later = {.way = SP_SDK_WAY_UNKNOWN};

	load_with(NULL, NULL);
	cr_assert(sp_lifecycle_start());
	told = &sp_region_now()->sdk[SP_SDK_OTELCPP_V2];
	sp_sdk_publish(SP_SDK_OTELCPP_V2, &later);
	cr_expect_eq(later.way, SP_SDK_WAY_UNKNOWN);
	sp_sdk_reached(SP_SDK_OTELCPP_V2, &instance);
	instance.service = "other";
	instance.release = "4";
	sp_sdk_reached(SP_SDK_OTELCPP_V2, &instance);

	cr_expect_eq(told->way, SP_SDK_WAY_TYPES);
	cr_expect_eq(told->instances, 2);
	cr_expect_str_eq(told->release, "1.2.3");
	cr_expect_str_eq(told->service, "shop");
	cr_expect_neq(told->object[0], '\0');
	sp_sdk_publish(SP_SDK_OTELCPP_V2, &later);
	cr_expect_str_eq(later.service, "shop");
	cr_expect_eq(later.way, SP_SDK_WAY_TYPES);
}

/* The link of a span names the type of profile that has samples. */
Test(lifecycle, notes_samples_where_attributes_depend_on_them, .timeout = 20)
{
	static const struct {
		const char *attributes, *alloc;
		bool noted;
	} rows[] = {
		{"SPANPROF_ATTRIBUTES=always", "SPANPROF_ALLOC=false", false},
		{"SPANPROF_ATTRIBUTES=always", "SPANPROF_ALLOC=true", true},
		{"SPANPROF_ATTRIBUTES=never", "SPANPROF_ALLOC=true", false},
		{"SPANPROF_ATTRIBUTES=with-samples", "SPANPROF_ALLOC=false", true},
	};

	for (size_t i = 0; i < SP_ARRAY_LEN(rows); i++) {
		int status = 0;
		pid_t child = fork();

		cr_assert_geq(child, 0);
		if (child == 0) {
			load_with(rows[i].attributes, rows[i].alloc);
			_exit(!sp_lifecycle_start() ||
			      sp_handler_setup.note_samples != rows[i].noted);
		}
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_expect_eq(status, 0, "row %zu", i);
	}
}

Test(lifecycle, takes_no_service_of_an_sdk_that_names_none, .timeout = 20)
{
	load_with(NULL, NULL);
	has_resource("", "deployment.environment=test");
	cr_assert(sp_lifecycle_start());

	cr_expect_eq(strncmp(sp_lifecycle_config()->service_name, "unknown_service", 15), 0, "%s",
		     sp_lifecycle_config()->service_name);
}
