/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of stacks at the edges of memory. A copy is made in the host's thread, so one byte too many kills the host;
 * here the memory around the stacks cannot be read.
 */
#include "sampler/unwind/unwind_sig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sampler/unwind/stack_bounds_sig.h"
#include "test/common/own_memory.h"
#include "test/unit/emulated.h"

#define RING_BYTES (UINT64_C(1) << 17)
#define PAGE SP_STACK_PAGE
#define PAGES 8U

static struct sp_ring ring;
static struct sp_snapshot snap;
/* PAGES readable pages between unreadable ones. */
static unsigned char *low;
static unsigned char *high;

static void keep(const struct sp_snapshot *s, void *arg)
{
	(void)arg;
	snap = *s;
}

static void setup(void)
{
	unsigned char *map = mmap(NULL, (size_t)(PAGES + 32) * PAGE, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(map, MAP_FAILED);
	low = map + (size_t)16 * PAGE;
	high = low + (size_t)PAGES * PAGE;
	cr_assert_eq(mprotect(low, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
	for (size_t i = 0; i < (size_t)PAGES * PAGE; i++)
		low[i] = (unsigned char)(i * 31 >> 3);
	cr_assert_eq(ring_init(&ring, RING_BYTES), 0);
	sp_stack_init();
}

TestSuite(snapshot, .init = setup, .timeout = 20);

static void set_sp(ucontext_t *uc, uintptr_t sp)
{
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
#elif defined(__aarch64__)
	uc->uc_mcontext.sp = sp;
#endif
}

static void copy_from(uintptr_t sp, struct sp_stack_bounds *bounds)
{
	struct sp_sample s = {.weight = 1};
	ucontext_t uc;

	cr_assert_eq(getcontext(&uc), 0);
	set_sp(&uc, sp);
	memset(&snap, 0, sizeof(snap));
	cr_assert_eq(sp_snapshot_put(&ring, &s, &uc, bounds), 0);
	cr_assert_eq(sp_snapshot_drain(&ring, keep, NULL, 1), 1);
}

/* Checks that exactly these bytes were copied. */
static void expect(uintptr_t from, uintptr_t to, const char *what)
{
	cr_assert_eq(snap.stack_bytes, to - from, "%s: %lu bytes of %lu", what, snap.stack_bytes,
		     to - from);
	if (from == to)
		return;
	cr_assert_eq(snap.stack_at, from, "%s", what);
	cr_assert_eq(memcmp(snap.stack, (const void *)from, to - from), 0, "%s", what);
}

static uintptr_t less_red_zone(uintptr_t sp)
{
	return (sp - SP_ARCH_RED_ZONE) & ~(uintptr_t)7;
}

Test(snapshot, goes_to_the_last_byte_that_can_be_read)
{
	uintptr_t end = (uintptr_t)high;
	struct sp_stack_bounds none = {0, 0};

	for (uintptr_t left = 1; left <= 3 * PAGE; left += left < 300 ? 1 : 61) {
		copy_from(end - left, &none);
		expect(less_red_zone(end - left), end, "near the end");
	}
}

Test(snapshot, begins_at_the_lowest_byte_of_the_stack)
{
	uintptr_t start = (uintptr_t)low;
	uintptr_t red_zone = SP_ARCH_RED_ZONE;
	struct sp_stack_bounds none = {0, 0};

	for (uintptr_t above = 0; above < 2 * red_zone + 16; above++) {
		uintptr_t sp = start + above;
		uintptr_t from = above >= red_zone ? less_red_zone(sp) : sp & ~(uintptr_t)7;

		copy_from(sp, &none);
		/* the size may be counted from the red zone, which is missing here */
		cr_assert_geq(snap.stack_bytes, SP_SNAPSHOT_STACK_MAX - SP_ARCH_RED_ZONE);
		cr_assert_leq(snap.stack_bytes, SP_SNAPSHOT_STACK_MAX);
		expect(from, from + snap.stack_bytes, "near the start");
	}
}

Test(snapshot, ends_at_a_hole)
{
	struct sp_stack_bounds none = {0, 0};
	uintptr_t hole = (uintptr_t)low + 3 * PAGE;

	cr_assert_eq(mprotect((void *)hole, PAGE, PROT_NONE), 0);
	copy_from(hole - PAGE - 256, &none);
	expect(less_red_zone(hole - PAGE - 256), hole, "before the hole");
	copy_from(hole + PAGE + 256, &none);
	expect(less_red_zone(hole + PAGE + 256), (uintptr_t)high, "behind it");
}

Test(snapshot, is_empty_where_nothing_can_be_read)
{
	const uintptr_t nowhere[] = {(uintptr_t)high + PAGE, (uintptr_t)low - PAGE,      0, 8,
				     UINTPTR_MAX - 64,       UINTPTR_MAX & ~(uintptr_t)7};
	struct sp_stack_bounds none = {0, 0};

	for (size_t i = 0; i < SP_ARRAY_LEN(nowhere); i++) {
		copy_from(nowhere[i], &none);
		cr_assert_eq(snap.stack_bytes, 0, "%#lx", nowhere[i]);
	}
}

/* If the stack pointer is at the first byte behind the stack, only the red zone is left. */
Test(snapshot, of_an_empty_stack_is_the_red_zone)
{
	struct sp_stack_bounds none = {0, 0};

	copy_from((uintptr_t)high, &none);
	expect(less_red_zone((uintptr_t)high), (uintptr_t)high, "the red zone");
}

static void *copy_own(void *arg)
{
	struct sp_stack_bounds bounds = {0, 0};
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	/* twice: a proven page is not checked again */
	for (int i = 0; i < 2; i++) {
		copy_from(here, &bounds);
		cr_assert_eq(bounds.hi, sp_arch_thread_pointer());
		cr_assert_eq(snap.stack_at, less_red_zone(here));
		cr_assert_eq(snap.stack_at + snap.stack_bytes, bounds.hi & ~(uintptr_t)7);
	}
	return arg;
}

/* Runs in a thread around whose stack nothing can be read. */
static void run_on_it(void *(*fn)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;

	cr_assert_eq(pthread_attr_init(&attr), 0);
	cr_assert_eq(pthread_attr_setstack(&attr, low, (size_t)PAGES * PAGE), 0);
	cr_assert_eq(pthread_create(&thread, &attr, fn, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(pthread_attr_destroy(&attr), 0);
}

Test(snapshot, of_a_threads_own_stack_ends_below_its_control_block)
{
	if (!has_small_stacks())
		cr_skip_test("no small stacks here");
	run_on_it(copy_own);
}

/*
 * As if it were called at the bottom; the stack is proven down to its lowest page, but not to the guard page below.
 */
static void *copy_from_the_bottom(void *arg)
{
	struct sp_stack_bounds bounds = {0, 0};

	for (uintptr_t sp = (uintptr_t)low; sp < (uintptr_t)low + SP_ARCH_RED_ZONE; sp += 8) {
		copy_from(sp, &bounds);
		cr_assert_eq(bounds.lo, (uintptr_t)low);
		cr_assert_eq(snap.stack_at, sp);
		cr_assert_geq(snap.stack_bytes, SP_SNAPSHOT_STACK_MAX - SP_ARCH_RED_ZONE);
	}
	return arg;
}

Test(snapshot, of_a_threads_own_stack_keeps_out_of_its_guard_page)
{
	if (!has_small_stacks())
		cr_skip_test("no small stacks here");
	run_on_it(copy_from_the_bottom);
}

static void take_snapshot(int signo, siginfo_t *si, void *ucontext)
{
	static struct sp_stack_bounds bounds;
	struct sp_sample s = {.weight = 1};

	(void)signo;
	(void)si;
	cr_assert_eq(sp_snapshot_put(&ring, &s, ucontext, &bounds), 0);
}

static void do_nothing(int signo)
{
	(void)signo;
}

/* Both signals are pending. The kernel delivers SIGHUP first, and SIGUSR1 interrupts the handler of SIGHUP. */
Test(snapshot, is_of_what_a_handler_interrupts_that_has_not_begun)
{
	struct sigaction walks = {.sa_sigaction = take_snapshot, .sa_flags = SA_SIGINFO};
	sigset_t all;
	sigset_t before;

	cr_assert_neq(signal(SIGHUP, do_nothing), SIG_ERR);
	cr_assert_eq(sigaction(SIGUSR1, &walks, NULL), 0);
	sigfillset(&all);
	cr_assert_eq(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
	cr_assert_eq(pthread_kill(pthread_self(), SIGHUP), 0);
	cr_assert_eq(pthread_kill(pthread_self(), SIGUSR1), 0);
	cr_assert_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);

	cr_assert_eq(sp_snapshot_drain(&ring, keep, NULL, 1), 1);
	cr_expect_neq(snap.reg[SP_ARCH_REG_PC], (uint64_t)(uintptr_t)do_nothing);
	cr_expect_gt(snap.reg[SP_ARCH_REG_SP], (uint64_t)(uintptr_t)&before - 8192);
	cr_expect_lt(snap.stack_at, (uint64_t)(uintptr_t)&before);
	cr_expect_gt(snap.stack_at + snap.stack_bytes, (uint64_t)(uintptr_t)&before);
}
