/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the search for classes in an object: the input has names, typeinfos and vtables. A word of the input that
 * begins with 0xaa is an address in the image. Nothing is mapped around the image, so reading past it is noticed.
 *
 * Input: the kinds of the four segments (a byte each), then the image.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/sdk/sdk_typeinfo.h"
#include "sampler/base/readable_sig.h"
#include "test/fuzz/fuzz.h"

#define PAGE 4096U
#define SEGMENTS 4U
#define CLASSES 3U

static uint8_t *image;
static struct sp_elf_image loaded;

static const struct sp_typeinfo_class classes[CLASSES] = {
	{.kind = SP_TYPEINFO_CLASS,
	 .name = "N1m1TE",
	 .base = "N1m1BE",
	 .slots_min = 3,
	 .slots_max = 4},
	{.kind = SP_TYPEINFO_PREFIX, .name = "StIN1m1TE", .slots_min = 2, .slots_max = 4},
	{.kind = SP_TYPEINFO_DERIVED,
	 .name = "N1m1BE",
	 .slots_min = 3,
	 .slots_max = 8,
	 .destructors = 1},
};

/* The kernel would also accept memory of the fuzzer and the sanitizer. */
bool sp_readable(uintptr_t address)
{
	return address - (uintptr_t)image <= SEGMENTS * PAGE - sizeof(address);
}

static void map_image(void)
{
	image = mmap(NULL, (SEGMENTS + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FUZZ_CHECK(image != MAP_FAILED);
	image += PAGE;
	FUZZ_CHECK(mprotect(image, SEGMENTS * PAGE, PROT_READ | PROT_WRITE) == 0);
}

static void take_image(const uint8_t *data, size_t size)
{
	if (size > SEGMENTS * PAGE)
		size = SEGMENTS * PAGE;
	memset(image, 0, SEGMENTS * PAGE);
	if (size != 0)
		memcpy(image, data, size);
	for (size_t at = 0; at < SEGMENTS * PAGE; at += 8) {
		uintptr_t word;

		memcpy(&word, image + at, sizeof(word));
		if (word >> 56 == 0xaa)
			word = (uintptr_t)image + word % (SEGMENTS * PAGE);
		memcpy(image + at, &word, sizeof(word));
	}
}

static bool is_code(uintptr_t address)
{
	for (unsigned i = 0; i < loaded.n; i++) {
		const struct sp_elf_segment *g = &loaded.segment[i];

		if (g->executable && address - g->start < g->size)
			return true;
	}
	return false;
}

static void check(const struct sp_typeinfo_class *class, const struct sp_typeinfo_found *found)
{
	for (unsigned i = 0; i < found->n && i < SP_TYPEINFO_VTABLES_MAX; i++) {
		const void *const *vptr = found->vptr[i];

		FUZZ_CHECK((uintptr_t)vptr % sizeof(void *) == 0);
		for (unsigned slot = 0; slot < class->slots_min; slot++)
			FUZZ_CHECK(is_code((uintptr_t)vptr[slot]));
		FUZZ_CHECK(vptr[class->destructors] != vptr[class->destructors + 1]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_typeinfo_found found[CLASSES];
	const void *const *place[2];

	if (image == NULL)
		map_image();
	if (size < SEGMENTS)
		return 0;
	loaded.n = SEGMENTS;
	for (unsigned i = 0; i < SEGMENTS; i++)
		loaded.segment[i] = (struct sp_elf_segment){
			.start = (uintptr_t)image + i * PAGE,
			.size = PAGE,
			.from_file = (data[i] & 8) != 0 ? PAGE / 2 : PAGE,
			.writable = (data[i] & 1) != 0,
			.executable = (data[i] & 2) != 0,
			.relro = (data[i] & 5) == 5,
		};
	take_image(data + SEGMENTS, size - SEGMENTS);
	(void)sp_typeinfo_find(&loaded, "N1m", classes, found, CLASSES);
	for (unsigned i = 0; i < CLASSES; i++)
		check(&classes[i], &found[i]);
	(void)sp_elf_image_references(&loaded, image, place, 2);
	return 0;
}
