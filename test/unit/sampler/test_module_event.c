/* SPDX-License-Identifier: Apache-2.0 */
/* The records about objects, and when they are repeated. */
#include <criterion/criterion.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "sampler/region/ring.h"
#include "sampler/unwind/object_sig.h"
#include "test/common/own_memory.h"

#define PAGE 4096U
#define OBJECT_BYTES (2 * PAGE)

static struct sp_ring ring;
static char path[SP_MODULE_EVENT_PATH_MAX + 8];
static struct sp_module_event told;
static unsigned records;

/* Room for objects at any page, so that they can overlap. */
static uint8_t room[8 * PAGE] __attribute__((aligned(PAGE)));

struct image {
	ElfW(Ehdr) elf;
	ElfW(Phdr) header[4];
	ElfW(Nhdr) note;
	char name[4];
	uint8_t id[20];
};

static void put(const struct sp_record *record, void *arg)
{
	(void)arg;
	cr_assert_eq(record->kind, SP_RECORD_MODULE_EVENT);
	told = record->module_event;
	records++;
}

/* The number of records since the last call. */
static unsigned drained(void)
{
	records = 0;
	(void)sp_ring_drain(&ring, put, NULL, 100);
	return records;
}

/* Maps an object of that build at a page of room; build 0 has no id. */
static struct sp_object load(unsigned at, uint8_t build)
{
	struct image *image = (void *)(room + (size_t)at * PAGE);

	memset(image, 0, OBJECT_BYTES);
	memcpy(image->elf.e_ident, ELFMAG, SELFMAG);
	image->elf.e_ident[EI_CLASS] = ELFCLASS64;
	image->elf.e_phoff = offsetof(struct image, header);
	image->elf.e_phentsize = sizeof(ElfW(Phdr));
	image->elf.e_phnum = build != 0 ? 4 : 3;
	image->header[0] =
		(ElfW(Phdr)){.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = PAGE, .p_memsz = PAGE};
	image->header[1] = (ElfW(Phdr)){.p_type = PT_LOAD,
					.p_flags = PF_R | PF_X,
					.p_offset = PAGE,
					.p_vaddr = PAGE,
					.p_filesz = PAGE,
					.p_memsz = PAGE};
	/* lld writes this header before the notes. */
	image->header[2] = (ElfW(Phdr)){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
	image->header[3] =
		(ElfW(Phdr)){.p_type = PT_NOTE,
			     .p_offset = offsetof(struct image, note),
			     .p_filesz = sizeof(struct image) - offsetof(struct image, note)};
	image->note = (ElfW(Nhdr)){4, sizeof(image->id), NT_GNU_BUILD_ID};
	memcpy(image->name, "GNU", 4);
	memset(image->id, build, sizeof(image->id));
	return (struct sp_object){(uintptr_t)image, (uintptr_t)image + OBJECT_BYTES,
				  (uintptr_t)image + 512};
}

/* The handler meets the object. False if it has to meet it again. */
static bool meet(const struct sp_object *object, const char *name)
{
	struct link_map map = {.l_addr = object->start, .l_name = path};

	(void)snprintf(path, sizeof(path), "%s", name);
	return sp_module_event_announce(&map, object, sp_object_identity(object, false));
}

static _Atomic uint32_t again;

static void start(void)
{
	cr_assert_eq(ring_init(&ring, 1 << 16), 0);
	sp_module_event_move(&ring, &again);
}

TestSuite(module_event, .init = start, .timeout = 20);

Test(module_event_init, tells_nothing_before_there_is_a_ring, .timeout = 20)
{
	struct sp_object object = load(0, 1);

	(void)meet(&object, "/lib/a.so");
	start();
	cr_expect_eq(drained(), 0);
}

Test(module_event, tells_once_of_an_object_and_all_that_the_loader_would)
{
	struct sp_object object = load(0, 7);

	for (unsigned i = 0; i < 100; i++)
		(void)meet(&object, "/lib/a.so");

	cr_assert_eq(drained(), 1);
	cr_expect_eq(told.bias, object.start);
	cr_expect_eq(told.phdr, object.start + offsetof(struct image, header));
	cr_expect_str_eq(told.path, "/lib/a.so");
	cr_expect_eq(told.build_id_len, 20);
	cr_expect_eq(told.build_id[19], 7);
	cr_expect_eq(told.loads, 2);
	cr_expect_eq(told.load[1].vaddr, PAGE);
	cr_expect_eq(told.load[1].offset, PAGE);
	cr_expect_eq(told.load[1].memsz, PAGE);
	cr_expect_eq(told.load[1].flags, PF_R | PF_X);
}

Test(module_event, tells_of_each_change_at_an_address)
{
	for (unsigned i = 0; i < 20; i++) {
		struct sp_object object = load(0, (uint8_t)(1 + i % 2));

		(void)meet(&object, "/lib/a.so");
		(void)meet(&object, "/lib/a.so");
		cr_expect_eq(drained(), 1, "%u", i);
	}
}

Test(module_event, tells_of_what_comes_back_where_another_one_overlapped_it)
{
	for (unsigned i = 0; i < 20; i++) {
		struct sp_object object = load(i % 2, (uint8_t)(1 + i % 2));

		(void)meet(&object, "/lib/a.so");
		cr_expect_eq(drained(), 1, "%u", i);
	}
}

Test(module_event, leaves_neighbours_alone)
{
	for (unsigned i = 0; i < 3; i++) {
		struct sp_object one = load(0, 1);
		struct sp_object two = load(2, 2);

		(void)meet(&one, "/lib/a.so");
		(void)meet(&two, "/lib/b.so");
		cr_expect_eq(drained(), i == 0 ? 2 : 0);
	}
}

Test(module_event, tells_objects_without_a_build_id_apart_by_name)
{
	struct sp_object object = load(0, 0);

	(void)meet(&object, "/lib/a.so");
	(void)meet(&object, "/lib/a.so");
	cr_expect_eq(drained(), 1);
	cr_expect_eq(told.build_id_len, 0);
	(void)meet(&object, "/lib/b.so");
	cr_expect_eq(drained(), 1);
	cr_expect_str_eq(told.path, "/lib/b.so");
}

/* A generated plugin takes the path and addresses of the one before, and only names in its first page differ. */
Test(module_event, tells_objects_without_a_build_id_apart_by_their_first_page)
{
	struct sp_object object = load(0, 0);
	struct image *image = (void *)room;
	uint64_t first;

	(void)meet(&object, "/lib/a.so");
	cr_expect_eq(drained(), 1);
	cr_expect_eq(told.content, sp_module_content((const uint64_t *)room));
	first = told.content;
	((char *)room)[SP_MODULE_CONTENT_BYTES - 1] = 1;
	(void)meet(&object, "/lib/a.so");
	cr_expect_eq(drained(), 1);
	cr_expect_neq(told.content, first);
	((char *)room)[SP_MODULE_CONTENT_BYTES] = 1;
	(void)meet(&object, "/lib/a.so");
	cr_expect_eq(drained(), 0);

	/* The loader may write to this segment. */
	image->header[0].p_flags = PF_R | PF_W;
	(void)meet(&object, "/lib/a.so");
	cr_expect_eq(drained(), 1);
	cr_expect_eq(told.content, 0);
	object = load(0, 1);
	(void)meet(&object, "/lib/a.so");
	cr_expect_eq(drained(), 1);
	cr_expect_eq(told.content, 0, "its build id is known");
}

Test(module_event, tells_of_all_again_when_asked)
{
	struct sp_object object = load(0, 1);

	(void)meet(&object, "/lib/a.so");
	cr_expect_eq(drained(), 1);
	again++;
	(void)meet(&object, "/lib/a.so");
	(void)meet(&object, "/lib/a.so");

	cr_expect_eq(drained(), 1);
}

Test(module_event, tries_again_when_there_was_no_room)
{
	struct sp_object object = load(0, 1);

	while (meet(&object, "/lib/a.so"))
		again++;
	object = load(0, 2);
	cr_expect_not(meet(&object, "/lib/b.so"));
	cr_expect_gt(drained(), 10);
	cr_expect_eq(told.build_id[0], 1, "there was room for it after all");
	cr_expect(meet(&object, "/lib/b.so"));

	cr_expect_eq(drained(), 1);
	cr_expect_eq(told.build_id[0], 2);
	cr_expect(meet(&object, "/lib/b.so"), "and now it is known");
	cr_expect_eq(drained(), 0);
}

Test(module_event, keeps_quiet_about_what_could_not_be_found_by_its_path)
{
	struct sp_object object = load(0, 1);
	char name[SP_MODULE_EVENT_PATH_MAX + 1];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	(void)meet(&object, name);
	cr_expect_eq(drained(), 0);
	name[sizeof(name) - 2] = '\0';
	object = load(0, 2);
	(void)meet(&object, name);
	cr_expect_eq(drained(), 1, "one byte less");
	cr_expect_str_eq(told.path, name);
	object = load(0, 3);
	(void)meet(&object, "");
	cr_expect_eq(drained(), 0);
}

/* Nothing can be read behind a name, or behind the part of a long name that is reported. */
Test(module_event, reads_no_more_of_a_name_than_it_tells)
{
	struct sp_object object = load(0, 0);
	char *pages = mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct link_map map = {.l_addr = object.start,
			       .l_name = pages + PAGE - SP_MODULE_EVENT_PATH_MAX};

	cr_assert_neq(pages, MAP_FAILED);
	memset(pages, 'x', PAGE);
	cr_assert_eq(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
	cr_expect(sp_module_event_announce(&map, &object, sp_object_identity(&object, false)));
	cr_expect_eq(drained(), 0);
	pages[PAGE - 1] = '\0';
	map.l_name = pages + PAGE - 10;
	cr_expect(sp_module_event_announce(&map, &object, sp_object_identity(&object, false)));
	cr_expect_eq(drained(), 1);
	cr_expect_str_eq(told.path, "xxxxxxxxx");
}

Test(module_event, works_with_more_objects_than_are_remembered)
{
	const unsigned objects = 4 * SP_MODULE_EVENT_SLOTS;
	struct sp_object first = load(0, 1);
	uint8_t *many = mmap(NULL, (size_t)objects * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(many, MAP_FAILED);
	for (unsigned i = 0; i < objects; i++) {
		struct sp_object object = {.start = (uintptr_t)many + (size_t)i * PAGE};

		object.end = object.start + PAGE;
		object.eh_frame_hdr = object.start + 512;
		memcpy((void *)object.start, (const void *)first.start, PAGE);
		(void)meet(&object, "/lib/a.so");
		cr_expect_eq(drained(), 1, "%u", i);
		(void)meet(&object, "/lib/a.so");
		cr_expect_eq(drained(), 0, "%u", i);
	}
}
