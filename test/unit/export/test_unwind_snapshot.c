/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks walked from their snapshots: real ones, cut ones, and such as no program ever had. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "export/objects/host_objects.h"
#include "export/objects/unwind_snapshot.h"
#include "fake_host.h"
#include "sampler/unwind/rule_cache_sig.h"
#include "test/common/own_memory.h"
#include "test/common/walk.h"

#define RING_BYTES (UINT64_C(1) << 17)

static struct sp_host_objects *host;
static struct sp_unwinder *unwinder;
static struct sp_ring ring;
static struct sp_stack_bounds bounds;
static struct sp_snapshot snap;
static struct sp_sample got;
static struct sp_sample want;

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static void keep(const struct sp_snapshot *s, void *arg)
{
	(void)arg;
	snap = *s;
}

static void on_signal(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	want.weight = 3;
	want.span_id = 77;
	want.depth = (uint16_t)walk_stack(context, &bounds, want.pc, SP_FRAMES_MAX, &want.flags);
	cr_assert_eq(sp_snapshot_put(&ring, &want, context, &bounds), 0);
}

static void setup(void)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

	host = sp_host_objects_new("/proc/self", -1);
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	unwinder = sp_unwinder_new(host);
	cr_assert_not_null(unwinder);
	cr_assert_eq(ring_init(&ring, RING_BYTES), 0);
	cr_assert_eq(sp_unwind_init(find_symbol), 0);
	cr_assert_eq(sigaction(SIGUSR1, &sa, NULL), 0);
	cr_assert_eq(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = SIG_IGN}, NULL), 0);
}

static void tear_down(void)
{
	sp_unwinder_free(unwinder);
	sp_host_objects_free(host);
}

TestSuite(unwind_snapshot, .init = setup, .fini = tear_down, .timeout = 60);

static void take(void)
{
	raise(SIGUSR1);
	cr_assert_eq(sp_snapshot_drain(&ring, keep, NULL, 1), 1);
}

static __attribute__((noinline)) int recurse(int n, size_t bytes)
{
	volatile char *space = __builtin_alloca(bytes);
	int below = 0;

	space[0] = 1;
	if (n == 0)
		take();
	else
		below = recurse(n - 1, bytes);
	return below + space[0];
}

static void expect_same(void)
{
	cr_assert_eq(want.flags, SP_SAMPLE_ROOTED);
	cr_assert_eq(got.flags, SP_SAMPLE_ROOTED, "flags %#x", got.flags);
	cr_assert_eq(got.depth, want.depth);
	cr_assert_arr_eq(got.pc, want.pc, want.depth * sizeof(want.pc[0]));
}

Test(unwind_snapshot, gives_the_frames_that_the_handler_saw)
{
	recurse(20, 16);

	cr_assert(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
	expect_same();
}

Test(unwind_snapshot, keeps_what_else_a_sample_says)
{
	take();

	cr_assert(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
	cr_assert_eq(got.weight, 3);
	cr_assert_eq(got.span_id, 77);
}

static void nested(int sig)
{
	(void)sig;
	take();
	__asm__ volatile(""); /* no tail call */
}

Test(unwind_snapshot, goes_through_a_signal_frame)
{
	if (getauxval(AT_SYSINFO_EHDR) == 0)
		cr_skip_test("no vdso: the way back from a handler is in no object");
	cr_assert_eq(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = nested}, NULL), 0);
	raise(SIGUSR2);

	cr_assert(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
	expect_same();
}

Test(unwind_snapshot, gives_the_same_after_looking_again)
{
	take();

	for (int i = 0; i < 3; i++) {
		cr_assert(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
		expect_same();
		cr_assert_eq(sp_host_objects_refresh(host), 0);
	}
}

/*
 * As of C++: a pointer that the loader has relocated, so that its file does not tell where it leads
 * to.
 */
static __attribute__((noinline)) void guarded(void)
{
	__asm__ volatile(".cfi_personality 0x9b, personality_pointer");
	take();
	__asm__ volatile(""); /* no tail call */
}

__asm__(".local personality_pointer\n"
	".pushsection .data.rel.ro, \"aw\"\n"
	".balign 8\n"
	"personality_pointer: .quad personality_routine\n"
	".local personality_routine\n"
	".set personality_routine, _start\n"
	".popsection\n");

Test(unwind_snapshot, goes_through_functions_that_have_a_personality)
{
	guarded();

	cr_assert(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
	expect_same();
}

Test(unwind_snapshot, says_that_a_deep_stack_was_cut)
{
	recurse(60, 1024);

	cr_assert_eq(snap.stack_bytes, SP_SNAPSHOT_STACK_MAX);
	cr_assert(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
	cr_assert_eq(got.flags, SP_SAMPLE_TRUNCATED);
	cr_assert_gt(got.depth, 10);
	cr_assert_lt(got.depth, want.depth);
	cr_assert_arr_eq(got.pc, want.pc, got.depth * sizeof(want.pc[0]));
}

Test(unwind_snapshot, stops_at_the_depth_asked_for)
{
	recurse(20, 16);

	cr_assert(sp_unwinder_walk(unwinder, &snap, 7, &got));
	cr_assert_eq(got.depth, 7);
	cr_assert_eq(got.flags, SP_SAMPLE_TRUNCATED);
}

Test(unwind_snapshot, gives_the_leaf_of_code_that_is_in_no_object)
{
	take();
	snap.reg[SP_ARCH_REG_PC] = 16;
	snap.reg[SP_ARCH_REG_FP] = 0;
#ifdef __aarch64__
	snap.reg[30] = 0;
#endif

	cr_assert(!sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
	cr_assert_eq(got.depth, 1, "depth %u, then %#lx", got.depth, got.pc[1]);
	cr_assert_eq(got.pc[0], 16);
	cr_assert_eq(got.flags, 0);
}

static uint64_t random_word(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Anything, an address in the snapshot, or one in the C library. */
static uint64_t hostile_word(const struct sp_snapshot *s)
{
	uint64_t r = random_word();

	if (r % 4 == 0)
		return s->stack_at + r / 8 % (s->stack_bytes + 64);
	if (r % 4 == 1)
		return (uint64_t)(uintptr_t)raise - 200000 + r / 8 % 400000;
	if (r % 4 == 2)
		return (uint64_t)(uintptr_t)qsort + r / 8 % 600;
	return r;
}

Test(unwind_snapshot, survives_snapshots_of_random_bytes)
{
	uint64_t frames = 0;

	take();
	for (unsigned round = 0; round < 4000; round++) {
		if (random_word() % 8 == 0)
			snap.stack_at = random_word();
		else
			snap.stack_at = UINT64_C(0x7ffff0000000) + random_word() % 65536 * 8;
		snap.stack_bytes = random_word() % (SP_SNAPSHOT_STACK_MAX + 1);
		for (unsigned i = 0; i < SP_ARCH_REGS; i++)
			snap.reg[i] = hostile_word(&snap);
		if (round % 2 == 0)
			snap.reg[SP_ARCH_REG_SP] = snap.stack_at;
		for (size_t i = 0; i + 8 <= snap.stack_bytes; i += 8) {
			uint64_t word = hostile_word(&snap);

			memcpy(snap.stack + i, &word, sizeof(word));
		}
		(void)sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got);
		cr_assert_geq(got.depth, 1);
		cr_assert_leq(got.depth, SP_FRAMES_MAX);
		frames += got.depth;
	}
	/* They were not all refused at the door. */
	cr_assert_gt(frames, 4100, "%lu", frames);
}

Test(unwind_snapshot, survives_a_real_one_with_bytes_changed)
{
	static struct sp_snapshot original;

	recurse(20, 16);
	original = snap;
	for (unsigned round = 0; round < 2000; round++) {
		snap = original;
		for (unsigned i = 0; i < 1 + round % 40; i++)
			snap.stack[random_word() % snap.stack_bytes] = (uint8_t)random_word();
		snap.reg[random_word() % SP_ARCH_REGS] += random_word() % 64;
		(void)sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got);
		cr_assert_leq(got.depth, SP_FRAMES_MAX);
	}
}

/*
 * --- Memory of objects ---------------------------------------------------------------------------
 */

Test(mapped, reads_what_is_there_across_pages, .timeout = 20)
{
	struct sp_host_objects *own = sp_host_objects_new("/proc/self", -1);
	static uint8_t copy[9000];

	cr_assert_eq(sp_host_objects_refresh(own), 0);
	cr_assert(sp_host_objects_find(own, (uint64_t)(uintptr_t)qsort) != NULL);
	cr_assert(sp_host_objects_read(own, (uint64_t)(uintptr_t)qsort, copy, sizeof(copy)));
	cr_assert_arr_eq(copy, (const void *)(uintptr_t)qsort, sizeof(copy));
	sp_host_objects_free(own);
}

Test(mapped, reads_the_vdso, .timeout = 20)
{
	struct sp_host_objects *own = sp_host_objects_new("/proc/self", -1);
	uint64_t at = getauxval(AT_SYSINFO_EHDR);
	uint8_t copy[4096];

	if (at == 0)
		cr_skip_test("this kernel has no vdso");
	cr_assert_eq(sp_host_objects_refresh(own), 0);
	cr_assert(sp_host_objects_read(own, at, copy, sizeof(copy)));
	cr_assert_arr_eq(copy, (const void *)(uintptr_t)at, sizeof(copy)); // NOLINT
	sp_host_objects_free(own);
}

/* The page around the end of the inner one is that of the outer one, too. */
Test(mapped, reads_an_object_in_the_gap_of_another_one, .timeout = 20)
{
	struct sp_host_objects *objects = sp_host_objects_new(fake_host_start(), -1);
	const char *outer = fake_host_object("outer.so", 0x2000, 1);
	uint8_t id = 0;

	fake_host_map_around(outer, fake_host_object("inner.so", 0x800, 2));
	cr_assert_eq(sp_host_objects_refresh(objects), 0);
	cr_assert(sp_host_objects_read(objects, 0x10000 + FAKE_BUILD_ID_AT, &id, 1));
	cr_expect_eq(id, 1);
	cr_assert(sp_host_objects_read(objects, 0x20000 + FAKE_BUILD_ID_AT, &id, 1));
	cr_expect_eq(id, 2);
	sp_host_objects_free(objects);
	fake_host_end();
}

static int written = 1;

Test(mapped, refuses_what_no_file_tells_of, .timeout = 20)
{
	struct sp_host_objects *own = sp_host_objects_new("/proc/self", -1);
	char *heap = malloc(64);
	uint64_t word;

	cr_assert_eq(sp_host_objects_refresh(own), 0);
	cr_assert(sp_host_objects_find(own, (uint64_t)(uintptr_t)heap) == NULL);
	cr_assert(!sp_host_objects_read(own, (uint64_t)(uintptr_t)heap, &word, sizeof(word)));
	cr_assert(!sp_host_objects_is_data(own, (uint64_t)(uintptr_t)heap));
	cr_assert(sp_host_objects_find(own, (uint64_t)(uintptr_t)&written) != NULL);
	cr_assert(!sp_host_objects_read(own, (uint64_t)(uintptr_t)&written, &word, sizeof(word)));
	cr_assert(sp_host_objects_is_data(own, (uint64_t)(uintptr_t)&written));
	cr_assert(!sp_host_objects_is_data(own, (uint64_t)(uintptr_t)qsort));
	cr_assert(!sp_host_objects_read(own, 0, &word, sizeof(word)));
	cr_assert(!sp_host_objects_read(own, 8, &word, sizeof(word)));
	cr_assert(!sp_host_objects_read(own, UINT64_MAX - 3, &word, sizeof(word)));
	free(heap);
	sp_host_objects_free(own);
}

Test(mapped, forgets_objects_that_are_gone, .timeout = 20, .fini = fake_host_end)
{
	struct sp_host_objects *other = sp_host_objects_new(fake_host_start(), -1);
	uint64_t word;

	fake_host_map(fake_host_object("first.so", 0x1000, 1), 0x10000, 0x1000);
	cr_assert_eq(sp_host_objects_refresh(other), 0);
	cr_assert(sp_host_objects_find(other, 0x10000) != NULL);
	cr_assert(sp_host_objects_read(other, 0x10000, &word, sizeof(word)));
	cr_assert_eq(memcmp(&word, "\177ELF", 4), 0);
	fake_host_unmap_all();
	fake_host_map(fake_host_object("second.so", 0x1000, 2), 0x20000, 0x1000);
	cr_assert_eq(sp_host_objects_refresh(other), 0);

	cr_assert(sp_host_objects_find(other, 0x10000) == NULL);
	cr_assert(!sp_host_objects_read(other, 0x10000, &word, sizeof(word)));
	sp_host_objects_free(other);
}
