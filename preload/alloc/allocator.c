/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the allocator, in a separate object, so that a program without a profile of
 * allocations has no function of ours before its allocator. malloc() subtracts the size from the
 * number of bytes until the next sample of its thread, and jumps to the next object's function:
 * most calls cost a subtraction, a comparison and the jump. free() reads one byte of a table before
 * its jump. All other calls run the real function, ask libspanprof.so
 * (preload/lifecycle/allocations.h) whether allocations are sampled, and let it take the sample.
 *
 * The next object is the C library, or the jemalloc, tcmalloc or mimalloc that the program is
 * linked with. Its functions are looked up at the first call, which may come from the loader or
 * from a constructor, before there is a second thread. No function here allocates, so the look-up
 * needs no memory.
 *
 * When a sampled block is freed, by any thread and any function, we report this to libspanprof.so
 * before the real function gets the block: afterwards the allocator may give the address to another
 * block.
 *
 * A sanitizer's allocator records its callers and answers for blocks of other allocators, so in a
 * program with a sanitizer no allocation is sampled.
 *
 * Context: any of the host's, its signal handlers included.
 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "preload/alloc/blocks.h"
#include "preload/alloc/interval.h"
#include "preload/elf/elf_walk.h"
#include "preload/lifecycle/allocations.h"
#include "sampler/base/compiler.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/random.h"

/* While nothing is sampled, each thread asks libspanprof.so again after this many bytes. */
#define IDLE_BYTES (UINT64_C(64) << 10)

/*
 * Larger requests are counted after they succeed. Smaller ones are counted before, even if they
 * fail: malloc() jumps to the real function and never sees its result.
 */
#define PART_BYTES (UINT64_C(1) << 20)

static SP_TLS struct {
	uint64_t left;   /* a smaller or equal allocation is not sampled; 0 in a new thread */
	uint64_t upto;   /* bytes that the thread has allocated, plus left */
	uint64_t random; /* state of the generator; 0 = not seeded */
	uint32_t mean;   /* bytes; left was drawn with it; 0 = left was not drawn */
	uint32_t parts;  /* PART_BYTES each, in addition to left */
} own;

/*
 * C++'s operators, which a C++ library or an allocator defines. For us all forms of new have one
 * type: the size, and two more registers, which hold an alignment, std::nothrow or garbage and are
 * handed on unread. The same goes for delete, and for C23's functions that get the size of the
 * block.
 */
typedef void *new_function(size_t size, uintptr_t second, uintptr_t third);
typedef void delete_function(void *block, uintptr_t second, uintptr_t third);

// clang-format off
#define FOR_EACH_C(X) \
	X(malloc) X(calloc) X(realloc) X(reallocarray) X(posix_memalign) X(aligned_alloc) X(memalign) X(valloc) \
	X(pvalloc) X(free)
#define FOR_EACH_NEW(X) \
	X(_Znwm) X(_ZnwmRKSt9nothrow_t) X(_ZnwmSt11align_val_t) X(_ZnwmSt11align_val_tRKSt9nothrow_t) \
	X(_Znam) X(_ZnamRKSt9nothrow_t) X(_ZnamSt11align_val_t) X(_ZnamSt11align_val_tRKSt9nothrow_t)
#define FOR_EACH_DELETE(X) \
	X(_ZdlPv) X(_ZdlPvm) X(_ZdlPvRKSt9nothrow_t) \
	X(_ZdlPvSt11align_val_t) X(_ZdlPvmSt11align_val_t) X(_ZdlPvSt11align_val_tRKSt9nothrow_t) \
	X(_ZdaPv) X(_ZdaPvm) X(_ZdaPvRKSt9nothrow_t) \
	X(_ZdaPvSt11align_val_t) X(_ZdaPvmSt11align_val_t) X(_ZdaPvSt11align_val_tRKSt9nothrow_t) \
	X(free_sized) X(free_aligned_sized)
#define FOR_EACH(X) FOR_EACH_C(X) FOR_EACH_NEW(X) FOR_EACH_DELETE(X)
// clang-format on

/*
 * In C our functions have other names than the allocator's; the linker gives them the allocator's
 * names. So the types above contradict no header: glibc 2.43 declares free_sized() and
 * free_aligned_sized() as C23 does.
 */
#define C_(sym) __typeof__(sym) hook_##sym __asm__(#sym);
#define NEW_(sym) new_function hook_##sym __asm__(#sym);
#define DELETE_(sym) delete_function hook_##sym __asm__(#sym);
FOR_EACH_C(C_)
FOR_EACH_NEW(NEW_)
FOR_EACH_DELETE(DELETE_)

/*
 * The functions of the next object. At first each points to a function that looks all of them up.
 */
#define LOOK_UP_(sym) static __typeof__(hook_##sym) first_##sym;
FOR_EACH(LOOK_UP_)
#define FIRST_(sym) first_##sym,
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name of a member
#define MEMBER_(sym) __typeof__(&hook_##sym) sym;
static struct {
	FOR_EACH(MEMBER_)
} next = {FOR_EACH(FIRST_)};
/*
 * libspanprof.so tells the kernel to empty the pages of the table in a forked child (blocks.h). So
 * the table shares no page with other data, whatever the size of a page.
 */
#define PAGE_MOST ((uintptr_t)64 << 10)
static struct {
	char before[PAGE_MOST];
	struct sp_blocks blocks;
	char after[PAGE_MOST];
} table;
#define sampled table.blocks
static enum sp_allocations_object kind;
/*
 * The next malloc() is the C library's. Then only reallocarray() and the C++ operators call another function of this
 * file, so only they must not be counted twice.
 */
static bool is_plain;
/*
 * malloc() jumps here after it has counted. Another allocator's malloc() may call a function of
 * this file, which counts the bytes a second time (Electric Fence's calls memalign()). So at first
 * malloc() jumps to uncounted_malloc(), which takes the count back; once the real malloc() was seen
 * not to count, malloc() jumps there directly.
 */
static __typeof__(malloc) uncounted_malloc;
static __typeof__(malloc) *_Atomic malloc_jump = uncounted_malloc;

/* glibc: nptl/register-atfork.c; what pthread_atfork() calls. Absent from other C libraries. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

/* In programs with a sanitizer. */
void __asan_init(void) __attribute__((weak));
void __hwasan_init(void) __attribute__((weak));
void __msan_init(void) __attribute__((weak));
void __tsan_init(void) __attribute__((weak));

static bool has_sanitizer(void)
{
	return __asan_init != NULL || __hwasan_init != NULL || __msan_init != NULL ||
	       __tsan_init != NULL;
}

static void *without_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/*
 * The first call may come from the loader, so no lock is taken; there is one thread.
 *
 * If no other object defines a function at the start, we remove it from our own symbols. A plugin
 * may later bring its own operators, or a C++ library that is unloaded again, and the plugin's
 * references must be bound to these. If code already refers to such a function by a weak symbol, it
 * checks first whether the function exists, and gets the C functions.
 */
static void look_up(void)
{
#define NAME_(sym) #sym,
	static const char *const name[] = {FOR_EACH(NAME_)};
	void *found[SP_ARRAY_LEN(name)] = {NULL};
	unsigned i = 0;

	sp_elf_find_each(NULL, name, found, SP_ARRAY_LEN(name));
	sp_elf_undefine(name, found, SP_ARRAY_LEN(name));
#define TAKE_(sym, otherwise)                                                                      \
	next.sym = (__typeof__(next.sym))(found[i] != NULL ? found[i] : (void *)(otherwise));      \
	i++;
#define TAKE_C(sym) TAKE_(sym, without_memory)
#define TAKE_NEW(sym) TAKE_(sym, next.malloc)
#define TAKE_DELETE(sym) TAKE_(sym, next.free)
	FOR_EACH_C(TAKE_C)
	FOR_EACH_NEW(TAKE_NEW)
	FOR_EACH_DELETE(TAKE_DELETE)
	kind = has_sanitizer()              ? SP_ALLOCATIONS_SANITIZED
	       : sp_elf_is_before("malloc") ? SP_ALLOCATIONS_HIDDEN
					    : SP_ALLOCATIONS_LOADED;
	is_plain = kind != SP_ALLOCATIONS_LOADED ||
		   sp_elf_object_at((void *)next.malloc).start ==
			   sp_elf_object_at(sp_elf_find("gnu_get_libc_version", NULL)).start;
	if (is_plain)
		atomic_store_explicit(&malloc_jump, next.malloc, memory_order_relaxed);
}

static inline __attribute__((always_inline)) bool passes(uint64_t bytes)
{
	uint64_t left;

	if (__builtin_expect(__builtin_sub_overflow(own.left, bytes, &left), 0))
		return false;
	own.left = left;
	return true;
}

/* Bytes that the calling thread has allocated since it began. */
static uint64_t allocated(void)
{
	return own.upto - own.left;
}

/*
 * A forked child inherits the bytes that were left until its parent's next sample. Without a new
 * draw all children of a server would be sampled at the same few of their allocations, or never. A
 * new draw is right at any moment, because the distances have no memory.
 */
static void after_fork_in_child(void)
{
	own.random = 0;
	if (own.mean == 0)
		return;
	own.mean = 0;
	own.upto = allocated();
	own.left = own.parts = 0;
}

/* The linker defines this symbol at the beginning of the object. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static __attribute__((constructor)) void load(void)
{
	uintptr_t from = (uintptr_t)&sampled & ~(PAGE_MOST - 1);
	uintptr_t to = ((uintptr_t)(&sampled + 1) + PAGE_MOST - 1) & ~(PAGE_MOST - 1);

	if (next.malloc == first_malloc)
		look_up();
	if (spanprof_v1_allocations == NULL)
		return;
	spanprof_v1_allocations(kind, __ehdr_start, allocated, &sampled.in, (void *)from,
				to - from);
	if (kind == SP_ALLOCATIONS_LOADED && __register_atfork != NULL)
		(void)__register_atfork(NULL, NULL, after_fork_in_child, &__dso_handle);
}

static uint64_t draw(uint32_t mean)
{
	static _Atomic uint64_t threads;

	/*
	 * The address of thread-local storage is no seed: a later thread may get the same storage.
	 * A forked child would inherit a constant seed.
	 */
	if (own.random == 0)
		own.random = sp_random_scramble(
			sp_monotonic_ns() +
			(atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) << 48));
	return sp_interval_bytes(mean, sp_random_next(&own.random));
}

/* The thread has just allocated `bytes`; after `left` more bytes comes its next sample. */
static void go_on(uint64_t bytes, uint64_t left)
{
	uint64_t now = allocated() + bytes;

	own.left = left % PART_BYTES;
	own.parts = (uint32_t)(left / PART_BYTES);
	own.upto = now + own.left;
}

/* Draws the distance to the next sample. */
static void begin(uint32_t mean, uint64_t bytes)
{
	own.mean = mean;
	go_on(bytes, mean != 0 ? draw(mean) - 1 : IDLE_BYTES);
}

/* Whether the allocation of these bytes is sampled. */
static __attribute__((noinline)) bool is_sampled(uint64_t bytes)
{
	uint32_t mean = 0;
	uint64_t left;

	if (spanprof_v1_allocated == NULL || kind != SP_ALLOCATIONS_LOADED) {
		own.left = UINT64_MAX;
		return false;
	}
	mean = spanprof_v1_allocated(0, NULL, NULL);
	if (own.mean != mean || mean == 0)
		begin(mean, 0);
	left = own.left + own.parts * PART_BYTES;
	if (bytes <= left) {
		go_on(bytes, left - bytes);
		return false;
	}
	if (mean == 0)
		own.upto += bytes;
	return mean != 0;
}

static void tell(struct sp_block *b)
{
	spanprof_v1_freed(sp_block_number(b));
	sp_blocks_free(&sampled, b);
}

static __attribute__((noinline)) void freed(const void *block)
{
	struct sp_block *b = sp_blocks_take(&sampled, block);

	if (b != NULL)
		tell(b);
}

static __attribute__((noinline)) void sample(const void *block, uint64_t bytes,
					     const struct sp_allocation_caller *caller)
{
	struct sp_block *b;
	uint64_t number;
	uint32_t mean;

	/* Another block had this address, and a function that we do not hook freed it. */
	freed(block);
	b = sp_blocks_hold(&sampled, block);
	number = b != NULL ? sp_block_number(b) : 0;
	mean = spanprof_v1_allocated(bytes, &number, caller);
	if (b != NULL && number != 0)
		sp_blocks_give_back(&sampled, b, block);
	else if (b != NULL)
		sp_blocks_free(&sampled, b);
	begin(mean, bytes);
}

/*
 * The caller of the function in which CALLER stands. That function was reached by a jump, so the
 * caller is the program.
 */
#if defined(__clang__) || defined(__x86_64__)
#define CALLERS_SP ((uintptr_t)__builtin_frame_address(0) + 16)
#else
#define CALLERS_SP ((uintptr_t)__builtin_dwarf_cfa())
#endif
// clang-format off
#define CALLER \
	(const struct sp_allocation_caller) \
	{ \
		(uintptr_t)__builtin_return_address(0), CALLERS_SP, *(const uintptr_t *)__builtin_frame_address(0) \
	}
// clang-format on

/* SIZE_MAX if the product overflows; the real function refuses that size. */
static inline uint64_t product(size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? SIZE_MAX : bytes;
}

// clang-format off
#define FIRST(type, sym, params, args) \
	static type first_##sym params \
	{ \
		look_up(); \
		return next.sym args; \
	}
/*
 * Another allocator's function may call malloc() or another function of this file, which counts. So
 * only after the real function has returned is it known whether the bytes were counted.
 */
#define COUNT(before, bytes, block) \
	if ((block) != NULL && allocated() == (before) && !passes(bytes) && is_sampled(bytes)) \
		sample(block, bytes, &CALLER);
/*
 * HOOK(type of the result, name, parameters, arguments, bytes that the caller asks for, the block
 * in the result, whether a jump to the real function is enough). An exception that an operator
 * throws passes through here.
 */
#define HOOK(type, sym, params, args, bytes, block, jumps) \
	FIRST(type, sym, params, args) \
	static __attribute__((noinline)) type counted_##sym params \
	{ \
		uint64_t before = allocated(); \
		type result = next.sym args; \
		COUNT(before, bytes, block) \
		return result; \
	} \
	SP_EXPORT type hook_##sym params \
	{ \
		return (jumps) ? next.sym args : counted_##sym args; \
	}
#define HOOK_NEW(sym) \
	HOOK(void *, sym, (size_t size, uintptr_t second, uintptr_t third), (size, second, third), size, result, \
	     is_plain)
/*
 * The caller gives back a block and gets a larger or smaller one. If that fails the block is still
 * there, unless the caller asked for 0 bytes: allocators then free it and return NULL.
 */
#define HOOK_AGAIN(sym, params, args, bytes, jumps) \
	FIRST(void *, sym, params, args) \
	static __attribute__((noinline)) void *counted_##sym params \
	{ \
		uint64_t before = allocated(); \
		struct sp_block *b = sp_blocks_take(&sampled, old); \
		void *block = next.sym args; \
		if (b != NULL && block == NULL && (bytes) != 0) \
			sp_blocks_give_back(&sampled, b, old); \
		else if (b != NULL) \
			tell(b); \
		COUNT(before, bytes, block) \
		return block; \
	} \
	SP_EXPORT void *hook_##sym params \
	{ \
		return (jumps) ? next.sym args : counted_##sym args; \
	}
#define HOOK_FREE(sym, params, args) \
	FIRST(void, sym, params, args) \
	SP_EXPORT void hook_##sym params \
	{ \
		if (__builtin_expect(sp_blocks_may_have(&sampled, block), 0)) \
			freed(block); \
		next.sym args; \
	}
#define HOOK_DELETE(sym) \
	HOOK_FREE(sym, (void *block, uintptr_t second, uintptr_t third), (block, second, third))

FIRST(void *, malloc, (size_t size), (size))
static __attribute__((noinline)) void *counted_malloc(size_t size)
{
	uint64_t before = allocated();
	void *block = next.malloc(size);
	if (size != 0 && allocated() == before)
		atomic_store_explicit(&malloc_jump, next.malloc, memory_order_relaxed);
	COUNT(before, size, block)
	return block;
}
static void *uncounted_malloc(size_t size)
{
	own.left += size;
	return counted_malloc(size);
}
SP_EXPORT void *hook_malloc(size_t size)
{
	return passes(size) ? atomic_load_explicit(&malloc_jump, memory_order_relaxed)(size) : counted_malloc(size);
}
HOOK(void *, calloc, (size_t n, size_t size), (n, size), product(n, size), result,
     is_plain && passes(product(n, size)))
HOOK(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), size, result, is_plain && passes(size))
HOOK(void *, memalign, (size_t alignment, size_t size), (alignment, size), size, result, is_plain && passes(size))
HOOK(void *, valloc, (size_t size), (size), size, result, is_plain && passes(size))
HOOK(void *, pvalloc, (size_t size), (size), size, result, is_plain && passes(size))
HOOK(int, posix_memalign, (void **block, size_t alignment, size_t size), (block, alignment, size), size,
     result == 0 ? *block : NULL, is_plain && passes(size))
HOOK_AGAIN(realloc, (void *old, size_t size), (old, size), size,
	   is_plain && !sp_blocks_may_have(&sampled, old) && passes(size))
HOOK_AGAIN(reallocarray, (void *old, size_t n, size_t size), (old, n, size), product(n, size), false)
FOR_EACH_NEW(HOOK_NEW)
HOOK_FREE(free, (void *block), (block))
FOR_EACH_DELETE(HOOK_DELETE)
// clang-format on
