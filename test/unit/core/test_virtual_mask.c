/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about threads that wait for signals which the sampling signal is among. */
#include "sampler/thread/virtual_mask.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "kernel_double.h"
#include "sampler/base/process.h"
#include "sampler/sampling/handler.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread_table.h"
#include "sampler/thread/thread_timer.h"
#include "test/unit/emulated.h"

#define COOKIE 0x80000001U
#define TID 100

static void ours(int signo, siginfo_t *si, void *ucontext)
{
	sp_signals_chain(signo, si, ucontext);
}

static sigset_t full_set(void)
{
	sigset_t set;

	(void)sigfillset(&set);
	return set;
}

static void block_all(void)
{
	sigset_t all = full_set();

	cr_assert_eq(sigprocmask(SIG_SETMASK, &all, NULL), 0);
}

static bool blocked(int signo)
{
	sigset_t now;

	cr_assert_eq(sigprocmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, signo) == 1;
}

static bool pending(int signo)
{
	sigset_t now;

	cr_assert_eq(sigpending(&now), 0);
	return sigismember(&now, signo) == 1;
}

static bool has_timer(void)
{
	return atomic_load(&sp_thread_own->timer) != SP_THREAD_TIMER_NONE;
}

/* The calling thread, with a timer that the kernel really has. */
static void begin(uint64_t period_ns)
{
	sp_process_set();
	sp_handler_setup.cookie = COOKIE;
	cr_assert_eq(sp_signals_install(SIGURG, ours), 0);
	sp_thread_timer_set(SIGURG, period_ns, COOKIE);
	cr_assert_eq(sp_thread_init(), 0);
	sp_thread_limit_init();
	cr_assert_not_null(sp_thread_self());
	cr_assert(has_timer());
}

TestSuite(virtual_mask, .timeout = 20);

Test(virtual_mask, behind_a_mask_that_nobody_saw_no_timer_is_met)
{
	sigset_t all = full_set();

	begin(SP_NS_PER_MS);
	block_all();
	while (!pending(SIGURG))
		continue;
	errno = 4711;
	sp_virtual_mask_before_wait(&all);

	cr_assert_eq(errno, 4711);
	cr_assert_not(has_timer());
	cr_assert_not(pending(SIGURG));
	cr_assert(blocked(SIGURG));
}

Test(virtual_mask, what_others_have_sent_goes_on_waiting)
{
	sigset_t all = full_set();
	siginfo_t info;

	begin(3600 * SP_NS_PER_S);
	block_all();
	cr_assert_eq(raise(SIGURG), 0);
	sp_virtual_mask_before_wait(&all);

	cr_assert_not(has_timer());
	cr_assert_eq(sigwaitinfo(&all, &info), SIGURG);
	/* glibc's sigtimedwait() shows SI_TKILL as that */
	cr_assert_eq(info.si_code, SI_USER);
	cr_assert_eq(info.si_pid, getpid());
}

Test(virtual_mask, a_wait_for_other_signals_leaves_the_timer)
{
	sigset_t other;

	begin(3600 * SP_NS_PER_S);
	block_all();
	(void)sigemptyset(&other);
	(void)sigaddset(&other, SIGUSR1);
	sp_virtual_mask_before_wait(&other);

	cr_assert(has_timer());
}

Test(virtual_mask, nor_does_a_wait_take_it_that_blocks_nothing)
{
	sigset_t all = full_set();

	begin(3600 * SP_NS_PER_S);
	sp_virtual_mask_before_wait(&all);

	cr_assert(has_timer());
}

/* A scan finds no timer, and a mask that is about to change. */
static void arm_again(uint32_t tid)
{
	sp_thread_arm_if_unarmed(sp_thread_own, tid);
}

Test(virtual_mask, a_timer_made_between_the_rest_and_the_mask_is_gone)
{
	sigset_t all = full_set();

	kernel.on = true;
	kernel.tid = TID;
	begin(SP_NS_PER_MS);
	sp_virtual_mask_begin();
	(void)sigdelset(&all, SIGURG);
	cr_assert_eq(sigprocmask(SIG_SETMASK, &all, NULL), 0);
	kernel.at_delete = arm_again;
	sp_virtual_mask_make_real();

	cr_assert_null(kernel.at_delete, "it has been");
	cr_assert(blocked(SIGURG));
	cr_assert_not(has_timer());
	cr_assert_eq(kernel_timers(), 0);
}

/* The first n signals, and ours among them. */
static sigset_t first(int n)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGURG);
	for (int signo = 1; n > 1; signo++) {
		if (signo != SIGURG && sigaddset(&set, signo) == 0)
			n--;
	}
	return set;
}

/* Fewer may well be meant for each of them, and the host is to have what it asked for. */
Test(virtual_mask, from_three_quarters_of_all_signals_on_a_mask_means_no_signal_in_particular)
{
	begin(3600 * SP_NS_PER_S);

	for (int n = 1; n <= 62; n++) {
		sigset_t set = first(n);

		cr_assert_eq(sp_virtual_mask_blanket(&set), n >= 48, "%d", n);
		cr_assert_eq(sp_virtual_mask_wanted(&set), n >= 48, "%d", n);
	}
}

/* Whether the mask of a thread with such a stack may differ, asked from that far above its end. */
struct small_stack {
	size_t bytes;
	size_t left;
	char *lowest;
	bool wanted;
};

static __attribute__((noinline)) bool ask(void)
{
	sigset_t all = full_set();

	return sp_virtual_mask_wanted(&all);
}

/* Its own frame is what takes it there. */
static __attribute__((noinline)) bool ask_further_down(size_t bytes)
{
	volatile char *space = __builtin_alloca(bytes);
	bool wanted;

	space[0] = 1;
	wanted = ask();
	return wanted && space[0] == 1;
}

static void *in_thread(void *arg)
{
	struct small_stack *s = arg;
	char *here = __builtin_frame_address(0);

	if (sp_thread_self() == NULL)
		return NULL;
	s->wanted = ask_further_down((size_t)(here - s->lowest) - s->left);
	return arg;
}

/* Nothing can be read below the stack, nor above. */
static bool is_wanted_by(void *(*thread_of)(void *), size_t bytes, size_t left)
{
	char *map = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct small_stack s = {.bytes = bytes, .left = left, .lowest = map + 4096};
	pthread_attr_t attr;
	pthread_t thread;
	void *done = NULL;

	cr_assert_neq(map, MAP_FAILED);
	cr_assert_eq(mprotect(map + 4096, bytes, PROT_READ | PROT_WRITE), 0);
	cr_assert_eq(pthread_attr_init(&attr), 0);
	cr_assert_eq(pthread_attr_setstack(&attr, map + 4096, bytes), 0);
	cr_assert_eq(pthread_create(&thread, &attr, thread_of, &s), 0);
	cr_assert_eq(pthread_join(thread, &done), 0);
	cr_assert_not_null(done);
	cr_assert_eq(pthread_attr_destroy(&attr), 0);
	return s.wanted;
}

static bool is_wanted(size_t bytes, size_t left)
{
	return is_wanted_by(in_thread, bytes, left);
}

/* No handler was to run there, and ours needs what the kernel's frame leaves of 32 KiB. */
Test(virtual_mask, a_thread_with_little_stack_left_keeps_the_mask_that_it_asked_for)
{
	if (!has_small_stacks())
		cr_skip_test("no small stacks here");
	begin(3600 * SP_NS_PER_S);

	cr_assert_not(is_wanted(16384, 8192), "the smallest that there is");
	cr_assert_not(is_wanted(65536, 8192), "most of it is in use");
	cr_assert_not(is_wanted(65536, 7 * 4096));
	cr_assert(is_wanted(65536, 10 * 4096));
	cr_assert(is_wanted(65536, 12 * 4096));
}

/* Its creator's mask differs, and so it was born with the signal unblocked. */
static void *born_in_thread(void *arg)
{
	struct small_stack *s = arg;
	struct sp_thread *t = sp_thread_claim();

	if (t == NULL || blocked(SIGURG))
		return NULL;
	atomic_store(&t->mask_differs, SIGURG);
	sp_thread_born(t);
	s->wanted = sp_virtual_mask_differs() != 0;
	return s->wanted == !blocked(SIGURG) ? arg : NULL;
}

/* Whoever sends it the signal that it believes blocked would have our handler run there. */
Test(virtual_mask, a_thread_that_is_born_with_little_stack_has_the_mask_that_it_asked_for)
{
	sigset_t all = full_set();

	if (!has_small_stacks())
		cr_skip_test("no small stacks here");
	begin(3600 * SP_NS_PER_S);
	sp_virtual_mask_begin();
	(void)sigdelset(&all, SIGURG);
	cr_assert_eq(sigprocmask(SIG_SETMASK, &all, NULL), 0);

	cr_assert_not(is_wanted_by(born_in_thread, 16384, 0));
	cr_assert(is_wanted_by(born_in_thread, 65536, 0));
}

/* It grows as it is used. */
Test(virtual_mask, the_initial_threads_stack_is_never_small)
{
	begin(3600 * SP_NS_PER_S);

	cr_assert(ask());
}

/* Whoever reads it, and when, nobody tells us. */
Test(virtual_mask, a_signal_that_a_descriptor_reads_stays_in_every_mask)
{
	sigset_t all = full_set();

	begin(3600 * SP_NS_PER_S);
	cr_assert(sp_virtual_mask_wanted(&all));
	sp_virtual_mask_read_by_descriptor(&all);
	cr_assert_not(sp_virtual_mask_wanted(&all));
}

/* What the handler is asked with a signal that somebody else has sent. */
static bool deferred(const sigset_t *mask)
{
	siginfo_t si = {.si_signo = SIGURG, .si_code = SI_USER, .si_pid = getpid()};
	ucontext_t uc;
	bool result;

	cr_assert_eq(getcontext(&uc), 0);
	uc.uc_sigmask = *mask;
	result = sp_virtual_mask_defer(SIGURG, &si, &uc);
	cr_assert_eq(sigismember(&uc.uc_sigmask, SIGURG), result);
	return result;
}

Test(virtual_mask, a_foreign_signal_goes_on_waiting_where_the_host_blocks_it)
{
	sigset_t less = full_set();
	sigset_t few;

	(void)sigdelset(&less, SIGURG);
	(void)sigemptyset(&few);
	begin(3600 * SP_NS_PER_S);
	block_all();
	cr_assert_not(deferred(&less), "the host does not");

	sp_virtual_mask_begin();
	cr_assert_not(deferred(&few), "a jump has brought back another mask");
	cr_assert_not(pending(SIGURG));
	cr_assert(has_timer());
	cr_assert(deferred(&less));
	cr_assert(pending(SIGURG));
	cr_assert_not(has_timer());
	cr_assert_eq(sp_virtual_mask_differs(), 0);
}
