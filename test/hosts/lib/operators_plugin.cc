/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that contains the C++ library, or needs the shared C++ library. In both cases it defines its own operators
 * new and delete (OPERATORS_OWN: its name), or uses the library's operators.
 */
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

static int made, freed;

#ifdef OPERATORS_OWN
/* Blocks have a header, so the C library's free() would not accept them. */
void *operator new(size_t bytes)
{
	char *block = static_cast<char *>(std::malloc(bytes + 16));

	made++;
	if (block == nullptr)
		throw std::bad_alloc();
	return block + 16;
}

void operator delete(void *block) noexcept
{
	freed++;
	if (block != nullptr)
		std::free(static_cast<char *>(block) - 16);
}

void operator delete(void *block, size_t) noexcept
{
	operator delete(block);
}
#else
#define OPERATORS_OWN "library"
#endif

static std::string many(size_t n)
{
	if (n > 10000)
		throw std::runtime_error(std::string(1000, 'x'));
	return std::string(n, 'y');
}

extern "C" const char *serve()
{
	static char text[100];
	const void *volatile sink;
	size_t length = 0;

	made = freed = 0;
	for (size_t n = 100; n < 20000; n += 100) {
		try {
			length += many(n).size();
		} catch (const std::exception &e) {
			length += std::string(e.what()).size();
		}
	}
	int *array = new int[1000];

	sink = array;
	(void)sink;
	delete[] array;
	snprintf(text, sizeof(text), "%s: %zu, made %d, freed %d", OPERATORS_OWN, length, made,
		 freed);
	return text;
}
