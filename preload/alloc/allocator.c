/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for the allocator, in an object of its own: whoever does not ask for a profile of allocations has nothing
 * before its allocator. malloc() counts the bytes that its thread has left until the next sample, and goes on to
 * the next object's function by a jump: a subtraction, a comparison and the jump are all that most calls cost; free()
 * has one look at a table before its jump. The few others call the real function, ask libspanprof.so
 * (preload/lifecycle/allocations.h) whether anything is sampled, and have the sample taken.
 *
 * The next object is whatever comes behind this one: the C library, or the jemalloc, tcmalloc or mimalloc that the
 * program is linked with. Its functions are looked up at the first call, which may be the loader's own or that of
 * some constructor, before there is a second thread. Nothing here allocates, so a look-up needs no memory to
 * begin with.
 *
 * Of a block that was sampled it is told when it is freed, by whichever thread and function. Before the real function
 * gets it: afterwards its address may be another block's.
 *
 * A sanitizer's allocator knows who has called it, and answers for blocks that it has not made, so a program with
 * one is left alone.
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

/* While nothing is sampled, so often it is asked whether something is. */
#define IDLE_BYTES (UINT64_C(64) << 10)

/*
 * Whoever asks for more than that is counted when it has it. What is refused of smaller sizes is counted as allocated,
 * as malloc() jumps to the real function.
 */
#define PART_BYTES (UINT64_C(1) << 20)

static SP_TLS struct {
	uint64_t left;   /* an allocation of so many bytes is not yet sampled; 0 in a new thread */
	uint64_t upto;   /* what the thread has allocated since it began, and left */
	uint64_t random; /* state; 0 = there is none yet */
	uint32_t mean;   /* bytes, with which left was drawn; 0 = it was not */
	uint32_t parts;  /* of so many bytes each are left besides */
} own;

/*
 * C++'s operators, which need a C++ library, or an allocator that brings its own. To us all forms of new are one
 * function: so many bytes, and two more registers that are passed on, whatever is in them, which may be an alignment
 * and std::nothrow. Likewise those of delete, and C23's functions that free a block of which more is known.
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

#define NEW_(sym) new_function sym;
#define DELETE_(sym) delete_function sym;
FOR_EACH_NEW(NEW_)
FOR_EACH_DELETE(DELETE_)

/* The functions of the next object, and at first those that look them up. */
#define LOOK_UP_(sym) static __typeof__(sym) first_##sym;
FOR_EACH(LOOK_UP_)
#define FIRST_(sym) first_##sym,
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name of a member
#define MEMBER_(sym) __typeof__(&(sym)) sym;
static struct {
	FOR_EACH(MEMBER_)
} next = {FOR_EACH(FIRST_)};
/*
 * libspanprof.so has the kernel empty the pages of the table in a copy of our memory (blocks.h). Nothing else may lie
 * in them, however large they are.
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
 * The next malloc() is that of the C library, of whose other functions only reallocarray() calls one that is counted
 * here, and whose operators are those of a C++ library, which all do.
 */
static bool is_plain;
/*
 * Where malloc() jumps to when it has counted. Electric Fence's calls memalign() by its name, which counts. So that of
 * another allocator is counted as its other functions are, until it is seen to call none that does.
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
 * The first calls may come from the loader, so no lock; there is one thread.
 *
 * What no object defines that the program began with is not defined here either. A plugin may bring its own operators
 * later, or a C++ library that is unloaded again, and its references have to mean these. What refers to them already
 * can only do so if they exist (a weak symbol), and gets the C functions.
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

/* By the calling thread since it began. */
static uint64_t allocated(void)
{
	return own.upto - own.left;
}

/*
 * What a forked child has left until its next sample is the parent's. So all children of a server would be sampled at the
 * same few of their allocations, or at none. They draw anew, which is right anywhere: the distances have no memory.
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

static __attribute__((constructor)) void load(void)
{
	uintptr_t from = (uintptr_t)&sampled & ~(PAGE_MOST - 1);
	uintptr_t to = ((uintptr_t)(&sampled + 1) + PAGE_MOST - 1) & ~(PAGE_MOST - 1);

	if (next.malloc == first_malloc)
		look_up();
	if (spanprof_v1_allocations == NULL)
		return;
	spanprof_v1_allocations(kind, allocated, &sampled.in, (void *)from, to - from);
	if (kind == SP_ALLOCATIONS_LOADED && __register_atfork != NULL)
		(void)__register_atfork(NULL, NULL, after_fork_in_child, &__dso_handle);
}

static uint64_t draw(uint32_t mean)
{
	static _Atomic uint64_t threads;

	/*
	 * The storage of a thread that has ended may be another one's, so its address makes no seed; and what a program
	 * has once, its children have as well.
	 */
	if (own.random == 0)
		own.random = sp_random_scramble(
			sp_monotonic_ns() +
			(atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) << 48));
	return sp_interval_bytes(mean, sp_random_next(&own.random));
}

/* So many bytes were allocated just now, and so many are left until the next sample. */
static void go_on(uint64_t bytes, uint64_t left)
{
	uint64_t now = allocated() + bytes;

	own.left = left % PART_BYTES;
	own.parts = (uint32_t)(left / PART_BYTES);
	own.upto = now + own.left;
}

/* Begins the way to the next sample. */
static void begin(uint32_t mean, uint64_t bytes)
{
	own.mean = mean;
	go_on(bytes, mean != 0 ? draw(mean) - 1 : IDLE_BYTES);
}

/* Whether that allocation is to be sampled. */
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
	sp_blocks_leave(&sampled, b);
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

	/* What may have had that address was freed by a function that is not ours. */
	freed(block);
	b = sp_blocks_hold(&sampled, block);
	number = b != NULL ? sp_block_number(b) : 0;
	mean = spanprof_v1_allocated(bytes, &number, caller);
	if (b != NULL && number != 0)
		sp_blocks_give_back(&sampled, b, block);
	else if (b != NULL)
		sp_blocks_leave(&sampled, b);
	begin(mean, bytes);
}

/* Of the function that it stands in: that was reached by a jump, so its caller is the program's. */
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

/* The real function says no to what does not fit. */
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
 * Another allocator's function may call malloc(), or one of the others here, which counts. So only after the real one it
 * is known whether there is still something to count.
 */
#define COUNT(before, bytes, block) \
	if ((block) != NULL && allocated() == (before) && !passes(bytes) && is_sampled(bytes)) \
		sample(block, bytes, &CALLER);
/*
 * HOOK(type of its result, name, parameters, the same as arguments, bytes that are asked for, the block in the result,
 * whether it is enough to jump to the real function). What an operator throws passes through here.
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
	SP_EXPORT type sym params \
	{ \
		return (jumps) ? next.sym args : counted_##sym args; \
	}
#define HOOK_NEW(sym) \
	HOOK(void *, sym, (size_t size, uintptr_t second, uintptr_t third), (size, second, third), size, result, \
	     is_plain)
/*
 * A block that is given back to be made larger or smaller. Where that fails it is as before, unless it was to have no
 * bytes: allocators free it then, and have none to return.
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
	SP_EXPORT void *sym params \
	{ \
		return (jumps) ? next.sym args : counted_##sym args; \
	}
#define HOOK_FREE(sym, params, args) \
	FIRST(void, sym, params, args) \
	SP_EXPORT void sym params \
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
SP_EXPORT void *malloc(size_t size)
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
