/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates only by C++'s operators, in each of their forms. Usage:
 *
 *	operators truth		frees all; prints "<bytes of a block> <number of blocks> <label>"
 *	operators left		the same, but keeps every second block
 *	operators odd		unusual requests and failures
 */
#include <new>
#include <thread>
#include <vector>

#include "preload/spanprof.h"
#include "test/hosts/host.h"

namespace
{
const unsigned THREADS = 4;
const std::align_val_t LINE{128};

/* One form of new, and in turn the forms of delete that may free its blocks. */
struct form {
	const char *id, *name;
	void *(*make)(size_t bytes);
	void (*free)(void *block, size_t bytes, unsigned n);
	size_t bytes;
	unsigned blocks; /* number for all threads together */
};

#define MAKE(name, call)                                                                           \
	__attribute__((noinline)) void *name(size_t bytes)                                         \
	{                                                                                          \
		void *volatile block = call;                                                       \
		return block;                                                                      \
	}
#define FREE(name, how)                                                                            \
	void name(void *block, size_t bytes, unsigned n)                                           \
	{                                                                                          \
		if (n % 3 == 0)                                                                    \
			operator how(block);                                                       \
		else if (n % 3 == 1)                                                               \
			operator how(block, bytes);                                                \
		else                                                                               \
			operator how(block, std::nothrow);                                         \
	}
#define FREE_ALIGNED(name, how)                                                                    \
	void name(void *block, size_t bytes, unsigned n)                                           \
	{                                                                                          \
		HOST_CHECK((uintptr_t)block % 128 == 0);                                           \
		if (n % 3 == 0)                                                                    \
			operator how(block, LINE);                                                 \
		else if (n % 3 == 1)                                                               \
			operator how(block, bytes, LINE);                                          \
		else                                                                               \
			operator how(block, LINE, std::nothrow);                                   \
	}

MAKE(by_new, operator new(bytes))
MAKE(by_nothrow, operator new(bytes, std::nothrow))
MAKE(by_aligned, operator new(bytes, LINE))
MAKE(by_aligned_nothrow, operator new(bytes, LINE, std::nothrow))
MAKE(by_array, operator new[](bytes))
MAKE(by_array_nothrow, operator new[](bytes, std::nothrow))
MAKE(by_array_aligned, operator new[](bytes, LINE))
MAKE(by_array_aligned_nothrow, operator new[](bytes, LINE, std::nothrow))
FREE(drop, delete)
FREE_ALIGNED(drop_aligned, delete)
FREE(drop_array, delete[])
FREE_ALIGNED(drop_array_aligned, delete[])

const form forms[] = {
	{"0000000000000001", "one byte", by_new, drop, 1, 4000000},
	{"0000000000000002", "nothrow", by_nothrow, drop, 100, 400000},
	{"0000000000000003", "aligned", by_aligned, drop_aligned, 256, 200000},
	{"0000000000000004", "aligned nothrow", by_aligned_nothrow, drop_aligned, 4096, 40000},
	{"0000000000000005", "array", by_array, drop_array, 1000, 100000},
	{"0000000000000006", "array nothrow", by_array_nothrow, drop_array, 60000, 4000},
	{"0000000000000007", "array aligned", by_array_aligned, drop_array_aligned, 2048, 60000},
	{"0000000000000008", "array aligned nothrow", by_array_aligned_nothrow, drop_array_aligned,
	 1024, 60000},
	{"0000000000000009", "large", by_new, drop, 4 << 20, 64},
};

/* Frees all blocks, or all but every second one, which the caller may still find. */
void work(unsigned every, std::vector<void *> *kept)
{
	for (const form &f : forms) {
		HOST_CHECK(spanprof_label_push(f.id, f.name) == 0);
		for (unsigned n = 0; n < f.blocks / THREADS; n++) {
			void *block = f.make(f.bytes);

			if (n % every == 1)
				kept->push_back(block);
			else
				f.free(block, f.bytes, n);
		}
		spanprof_label_pop();
	}
}

void truth(bool leaves)
{
	static auto *kept = new std::vector<void *>[THREADS];
	std::vector<std::thread> threads;

	/* Sampling begins here, so that no thread allocates before it. */
	HOST_CHECK(spanprof_label_push("00000000000000ff", "begin") == 0);
	spanprof_label_pop();
	for (unsigned i = 0; i < THREADS; i++) {
		kept[i].reserve(1000000);
		threads.emplace_back(work, leaves ? 2 : UINT32_MAX, &kept[i]);
	}
	for (auto &thread : threads)
		thread.join();
	for (const form &f : forms)
		printf("%zu %u %s\n", f.bytes, leaves ? f.blocks / 2 : f.blocks, f.name);
}

int handled;

void on_no_memory()
{
	handled++;
	std::set_new_handler(nullptr);
}

void odd()
{
	volatile size_t huge = (size_t)1 << 62;

	for (int i = 0; i < 1000; i++) {
		try {
			by_new(huge);
			puts("there is so much memory");
		} catch (const std::bad_alloc &) {
			handled++;
		}
	}
	std::set_new_handler(on_no_memory);
	try {
		by_array_aligned(huge);
	} catch (const std::bad_alloc &) {
		handled++;
	}
	printf("handled %d, without %p %p\n", handled, by_nothrow(huge),
	       by_array_aligned_nothrow(huge));
	operator delete(nullptr);
	drop(by_new(0), 0, 0);
}
} // namespace

int main(int argc, char **argv)
{
	HOST_CHECK(argc == 2);
	if (strcmp(argv[1], "odd") == 0)
		odd();
	else
		truth(strcmp(argv[1], "left") == 0);
	return 0;
}
