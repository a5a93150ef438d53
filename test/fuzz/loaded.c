/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes objects as the loader shows them. What it proved by mapping them is sound here as well: the
 * segments; everything else that the program headers point at is the input's: notes, call frame
 * information, the ELF header itself. Behind the image is no memory, so reading past it is seen
 * also in code that the sanitizers leave alone.
 *
 * Input: how many headers there are besides the segment's, the headers, then the image.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>

#include "export/mapped.h"
#include "export/modules.h"
#include "sampler/counters.h"
#include "sampler/object_id_sig.h"
#include "sampler/ring.h"
#include "sampler/sighting.h"
#include "test/fuzz/fuzz.h"

#define PAGE 4096U
#define IMAGE_MAX (16U * PAGE)
#define HEADERS_MAX 7U

/* counters.c needs all of the threads. */
_Atomic uint64_t sp_counters[SP_COUNTER_N];

static struct {
	uint8_t *room; /* the image, and a page that nobody may touch */
	uint8_t *image;
	size_t size;
	ElfW(Phdr) header[HEADERS_MAX + 1];
	uint16_t headers;
} object;

static int iterate(sp_phdr_callback fn, void *arg)
{
	struct dl_phdr_info info = {
		.dlpi_addr = (uintptr_t)object.image,
		.dlpi_name = "lib\x1b.so",
		.dlpi_phdr = object.header,
		.dlpi_phnum = object.headers,
		.dlpi_adds = 1,
	};

	return fn(&info, sizeof(info), arg);
}

static void map_room(void)
{
	object.room =
		mmap(NULL, IMAGE_MAX + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FUZZ_CHECK(object.room != MAP_FAILED);
	object.room += PAGE;
	FUZZ_CHECK(mprotect(object.room, IMAGE_MAX, PROT_READ | PROT_WRITE) == 0);
}

/* The image ends where the memory does, and begins on a page, as the loader maps it. */
static void take_image(const uint8_t *data, size_t size)
{
	size_t whole;

	size = size > IMAGE_MAX ? IMAGE_MAX : size;
	whole = size != 0 ? (size + PAGE - 1) / PAGE * PAGE : PAGE;
	object.image = object.room + IMAGE_MAX - whole;
	object.size = whole;
	memset(object.image, 0, whole);
	if (size != 0)
		memcpy(object.image, data, size);
}

static void take_headers(const uint8_t **data, size_t *size)
{
	unsigned n = *size != 0 ? (*data)[0] % (HEADERS_MAX + 1) : 0;

	*data += *size != 0;
	*size -= *size != 0;
	object.headers = 1;
	for (; n != 0 && *size >= sizeof(ElfW(Phdr)); n--) {
		memcpy(&object.header[object.headers], *data, sizeof(ElfW(Phdr)));
		*data += sizeof(ElfW(Phdr));
		*size -= sizeof(ElfW(Phdr));
		/* More segments than are mapped are not the loader's. */
		if (object.header[object.headers].p_type != PT_LOAD)
			object.headers++;
	}
}

static void ask_modules(void)
{
	struct sp_modules *m = sp_modules_new(iterate);
	const struct sp_module *mod;
	uint64_t start;

	FUZZ_CHECK(m != NULL);
	FUZZ_CHECK(sp_modules_refresh(m) == 0);
	mod = sp_modules_find(m, (uintptr_t)object.image, sp_modules_epoch(m));
	FUZZ_CHECK(mod != NULL && mod->build_id_len <= SP_BUILD_ID_MAX);
	for (size_t at = 0; at < object.size; at += 61)
		if (sp_modules_function(m, mod, (uintptr_t)object.image + at, &start) == 0)
			FUZZ_CHECK(start <= at);
	sp_modules_free(m);
}

static void ask_mapped(void)
{
	static struct sp_mapped *m;
	struct sp_mapped_object found;
	uint64_t word;

	if (m == NULL)
		m = sp_mapped_new(iterate);
	FUZZ_CHECK(m != NULL);
	sp_mapped_forget(m);
	if (sp_mapped_find(m, (uintptr_t)object.image, &found))
		FUZZ_CHECK(found.lo <= (uintptr_t)object.image);
	for (size_t at = 0; at <= object.size; at += 511) {
		bool inside = at + sizeof(word) <= object.size;

		FUZZ_CHECK(sp_mapped_read(m, (uintptr_t)object.image + at, &word, sizeof(word)) ==
			   inside);
		FUZZ_CHECK(!inside || memcmp(&word, object.image + at, sizeof(word)) == 0);
	}
	FUZZ_CHECK(!sp_mapped_read(m, (uintptr_t)object.image - 1, &word, 1));
}

static void ask_identity(void)
{
	struct sp_object whole = {(uintptr_t)object.image, (uintptr_t)object.image + object.size,
				  (uintptr_t)object.image + object.header[0].p_memsz / 2};

	FUZZ_CHECK(sp_object_identity(&whole, true) != 0);
	FUZZ_CHECK(sp_object_identity(&whole, false) == sp_object_identity(&whole, false));
}

static void put(const struct sp_sample *s, void *arg)
{
	struct sp_sighting sighting;

	FUZZ_CHECK(s->flags == SP_SAMPLE_OBJECT && s->depth * sizeof(s->pc[0]) == sizeof(sighting));
	memcpy(&sighting, s->pc, sizeof(sighting));
	FUZZ_CHECK(strnlen(sighting.path, sizeof(sighting.path)) < sizeof(sighting.path));
	sp_modules_sight(arg, &sighting);
}

static int iterate_nothing(sp_phdr_callback fn, void *arg)
{
	(void)fn;
	(void)arg;
	return 0;
}

/* The way of an object that the loader's list never showed. */
static void ask_sighting(void)
{
	static struct sp_ring ring;
	struct sp_object whole = {(uintptr_t)object.image, (uintptr_t)object.image + object.size,
				  (uintptr_t)object.image + 64};
	struct link_map map = {.l_addr = whole.start, .l_name = (char *)(uintptr_t) "/lib/x.so"};
	struct sp_modules *m = sp_modules_new(iterate_nothing);

	FUZZ_CHECK(m != NULL);
	if (ring.word == NULL)
		FUZZ_CHECK(sp_ring_init(&ring, 1 << 14) == 0);
	sp_sighting_init(&ring);
	sp_sighting_again();
	(void)sp_sighting_note(&map, &whole, sp_object_identity(&whole, false));
	FUZZ_CHECK(sp_ring_drain(&ring, put, m, 2) <= 1);
	(void)sp_modules_find(m, whole.start, sp_modules_epoch(m));
	FUZZ_CHECK(sp_modules_refresh(m) == 0);
	sp_modules_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (object.room == NULL)
		map_room();
	take_headers(&data, &size);
	take_image(data, size);
	object.header[0] = (ElfW(Phdr)){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_filesz = object.size,
		.p_memsz = object.size,
		.p_align = PAGE,
	};
	ask_modules();
	ask_mapped();
	ask_identity();
	ask_sighting();
	return 0;
}
