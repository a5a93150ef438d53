/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that are walked from their snapshots: real ones, cut ones, and ones that no program ever had. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "export/objects/host_objects.h"
#include "export/objects/unwind_snapshot.h"
#include "fake_host.h"
#include "sampler/unwind/rule_cache_sig.h"
#include "test/common/own_memory.h"
#include "test/common/walk.h"
#include "test/unit/kernel_without_cfi.h"

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
 * Like C++ code: its call frame information has a pointer that the loader has relocated, so the file does not contain
 * its target.
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

/*
 * As if linkers had written no .eh_frame_hdr: the walk uses tables that were made from the files' sections. The vDSO
 * has no file.
 */
Test(unwind_snapshot, gives_the_same_frames_where_objects_have_no_header)
{
	unsigned n = 0;

	for (size_t i = 0; i < sp_host_objects_count(host); i++) {
		const struct sp_object_file *file = sp_host_objects_get(host, i)->file;
		uint64_t *header;

		memcpy(&header, &(const uint64_t *){&file->eh_frame_hdr}, sizeof(header));
		if (!file->known || file->vdso || *header == 0)
			continue;
		*header = 0;
		n++;
	}
	cr_assert_gt(n, 3);
	recurse(20, 16);
	cr_assert(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
	expect_same();
	guarded();
	cr_assert(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
	expect_same();
	cr_assert(sp_host_objects_have_frames(host));
}

#if defined(__x86_64__)
static __attribute__((noinline)) void take_and_return(void)
{
	take();
	__asm__ volatile(""); /* no tail call */
}

static bool is_in_kernel(uint64_t pc)
{
	return pc - (uint64_t)(uintptr_t)call_without_cfi < 24;
}

Test(unwind_snapshot, takes_no_kernel_in_assembly_for_the_root)
{
	static const char data[] = "data";
	const void *words[] = {
		NULL, (void *)(uintptr_t)after_no_call, data, &snap, (void *)4096, (void *)4097};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		call_without_cfi(take_and_return, words[i]);
		cr_expect_not(sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got));
		cr_expect_eq(got.flags, 0, "word %zu: flags %#x", i, got.flags);
		cr_assert_gt(got.depth, 1);
		cr_expect(is_in_kernel(got.pc[got.depth - 1]), "word %zu", i);
	}
	call_without_cfi(take_and_return, (void *)(uintptr_t)after_call);
	(void)sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got);
	cr_assert_gt(got.depth, 2);
	cr_expect(is_in_kernel(got.pc[got.depth - 2]));
	cr_expect_eq(got.pc[got.depth - 1], (uint64_t)(uintptr_t)after_call - 1);
}

static bool read_here(void *arg, uint64_t at, void *out, size_t bytes)
{
	const uint8_t *from = *(const uint8_t *const *)arg;

	if (at - (uint64_t)(uintptr_t)from >= 4096)
		return false;
	memcpy(out, from + (at - (uint64_t)(uintptr_t)from), bytes);
	return true;
}

/*
 * Generated code with frame pointers. Generated interpreters jump, so no call instruction is required between two
 * pieces of generated code.
 */
Test(unwind_snapshot, follows_frame_pointers_of_generated_code)
{
	/* push rbp; mov rsp, rbp; push rdi; push rdi; mov rsi, rdi; call *(rsp); leave; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x57, 0x57, 0x48,
				       0x89, 0xf7, 0xff, 0x14, 0x24, 0xc9, 0xc3};
	uint8_t *jit = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*outer)(const void *inner, void (*callback)(void));

	cr_assert_neq(jit, MAP_FAILED);
	memcpy(jit, code, sizeof(code));
	/* A second copy, which the first one calls, and which calls the test. */
	memcpy(jit + 64, code, sizeof(code));
	*(void **)&outer = jit;
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	outer(jit + 64, take_and_return);
	for (unsigned round = 0; round < 3; round++) {
		unsigned in_jit = 0;

		if (round == 1)
			sp_unwinder_set_memory(unwinder, &(struct sp_host_memory){read_here, &jit});
		if (round == 2)
			memset(jit, 0x90, 64);
		(void)sp_unwinder_walk(unwinder, &snap, SP_FRAMES_MAX, &got);
		for (unsigned i = 0; i < got.depth; i++)
			in_jit += got.pc[i] - (uint64_t)(uintptr_t)jit < 128;
		cr_expect_eq(in_jit, 2, "round %u: %u frames", round, in_jit);
	}
}
#endif

static uint64_t random_word(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Any number, an address in the snapshot, or one in the C library. */
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
	/* Not every walk ended at its first frame. */
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

/* The page at the end of the inner object also contains a part of the outer one. */
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
