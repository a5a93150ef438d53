/* SPDX-License-Identifier: Apache-2.0 */
/* The segments of a loaded object, and of one that the tests write: a page each. */
#include "preload/elf/elf_walk.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RELRO, DATA, PAGES };

static struct sp_elf_image image;

static uintptr_t *page(unsigned n)
{
	return (uintptr_t *)image.segment[n].start;
}

static void set_up(void)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t memory = (uintptr_t)mmap(NULL, PAGES * size, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned i = 0; i < PAGES; i++)
		image.segment[i] = (struct sp_elf_segment){
			.start = memory + i * size,
			.size = size,
			.from_file = size,
			.writable = true,
			.relro = i == RELRO,
		};
	image.n = PAGES;
}

TestSuite(elf_image, .init = set_up, .timeout = 20);

Test(elf_image, references_are_found)
{
	const void *object = &image;
	const void *const *place[2];

	cr_assert_eq(sp_elf_image_references(&image, object, place, 2), 0);
	page(DATA)[3] = (uintptr_t)object;
	page(RELRO)[0] = (uintptr_t)object;
	cr_assert_eq(sp_elf_image_references(&image, object, place, 2), 1);
	cr_assert_eq(place[0], (const void *const *)&page(DATA)[3]);
	page(DATA)[9] = (uintptr_t)object;
	cr_assert_eq(sp_elf_image_references(&image, object, place, 2), 2);
	cr_assert_eq(place[1], (const void *const *)&page(DATA)[9]);
	page(DATA)[1] = (uintptr_t)object;
	cr_assert_eq(sp_elf_image_references(&image, object, place, 2), 2,
		     "no more than asked for");
}

Test(elf_image, words_are_its_own_and_can_be_read)
{
	const struct sp_elf_segment *last = &image.segment[DATA];
	uintptr_t word = 0;

	page(DATA)[3] = 77;

	cr_assert(sp_elf_image_word(&image, (uintptr_t)&page(DATA)[3], &word));
	cr_assert_eq(word, 77);
	cr_assert_not(sp_elf_image_word(&image, (uintptr_t)&page(DATA)[3] + 1, &word));
	cr_assert_not(sp_elf_image_word(&image, (uintptr_t)&word, &word), "a stack is no object");
	cr_assert_null(sp_elf_image_segment(&image, last->start + last->size - 1, 2));
	cr_assert_eq(sp_elf_image_segment(&image, last->start + last->size - 1, 1), last);
	cr_assert_eq(munmap((void *)last->start, last->size), 0);
	cr_assert_not(sp_elf_image_word(&image, (uintptr_t)&page(DATA)[3], &word), "unmapped");
}

Test(elf_image, an_object_is_told_by_its_code)
{
	const uintptr_t here = (uintptr_t)&set_up;
	bool has_code = false;
	bool has_data = false;

	cr_assert(sp_elf_image_at((const void *)here, &image));
	for (unsigned i = 0; i < image.n; i++) {
		const struct sp_elf_segment *g = &image.segment[i];

		has_code = has_code || (here - g->start < g->size && g->executable);
		has_data = has_data || ((uintptr_t)&image - g->start < g->size && g->writable);
		cr_assert_leq(g->from_file, g->size);
	}
	cr_assert(has_code && has_data);
	cr_assert_not(sp_elf_image_at(&has_code, &image), "a stack is no object");
}
