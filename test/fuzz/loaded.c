/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes objects: as files of a host's mappings, and as the signal handler meets them in memory. Only the ELF header
 * of the file is sound. The input has everything else: program headers, notes, call frame information. In memory
 * nothing is mapped behind the image, so reading past it is noticed even in uninstrumented code.
 *
 * Input: one byte, the headers, then the image. The byte is the number of headers besides the header of one segment
 * around the image; plus 128, if some of these headers may be segments too.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "export/objects/host_objects.h"
#include "export/objects/modules.h"
#include "sampler/base/counters.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/object_sig.h"
#include "test/common/own_memory.h"
#include "test/fuzz/fuzz.h"

#define PAGE 4096U
#define IMAGE_MAX (16U * PAGE)
#define HEADERS_MAX 7U

/* counters.c needs the counters of all threads. */
static _Atomic uint64_t counters[SP_COUNTER_N];
_Atomic(_Atomic uint64_t *) sp_counters = counters;

static struct {
	uint8_t *room; /* the image, and an inaccessible page */
	uint8_t *image;
	size_t size;
	ElfW(Phdr) header[HEADERS_MAX + 1];
	uint16_t headers;
	bool loads;    /* there may be segments besides the first one */
	int file;      /* the image, with an ELF header, then the program headers */
	char proc[64]; /* a folder whose "maps" names that file */
} object;

#define AT UINT64_C(0x10000000)

static void map_room(void)
{
	object.room =
		mmap(NULL, IMAGE_MAX + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FUZZ_CHECK(object.room != MAP_FAILED);
	object.room += PAGE;
	FUZZ_CHECK(mprotect(object.room, IMAGE_MAX, PROT_READ | PROT_WRITE) == 0);
}

/* The image ends at the end of readable memory, and begins on a page, as the loader maps it. */
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

	object.loads = *size != 0 && (*data)[0] >= 128;
	*data += *size != 0;
	*size -= *size != 0;
	object.headers = 1;
	for (; n != 0 && *size >= sizeof(ElfW(Phdr)); n--) {
		memcpy(&object.header[object.headers], *data, sizeof(ElfW(Phdr)));
		*data += sizeof(ElfW(Phdr));
		*size -= sizeof(ElfW(Phdr));
		if (object.loads || object.header[object.headers].p_type != PT_LOAD)
			object.headers++;
	}
}

static void remove_folder(void)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/maps", object.proc);
	(void)unlink(path);
	(void)rmdir(object.proc);
}

static void make_folder(void)
{
	object.file = memfd_create("object", MFD_CLOEXEC);
	FUZZ_CHECK(object.file >= 0);
	(void)snprintf(object.proc, sizeof(object.proc), "/tmp/spanprof-fuzz-%d", (int)getpid());
	FUZZ_CHECK(mkdir(object.proc, 0700) == 0);
	(void)atexit(remove_folder);
}

static void write_file(void)
{
	const size_t bytes = object.headers * sizeof(object.header[0]);
	const ElfW(Ehdr) eh = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, 1},
		.e_type = ET_DYN,
#ifdef __aarch64__
		.e_machine = EM_AARCH64,
#else
		.e_machine = EM_X86_64,
#endif
		.e_phoff = object.size,
		.e_phentsize = sizeof(object.header[0]),
		.e_phnum = object.headers,
	};
	struct stat st;
	char path[96];
	FILE *maps;

	FUZZ_CHECK(ftruncate(object.file, 0) == 0);
	FUZZ_CHECK(pwrite(object.file, object.image, object.size, 0) == (ssize_t)object.size);
	FUZZ_CHECK(pwrite(object.file, &eh, sizeof(eh), 0) == sizeof(eh));
	FUZZ_CHECK(pwrite(object.file, object.header, bytes, (off_t)object.size) == (ssize_t)bytes);
	FUZZ_CHECK(fstat(object.file, &st) == 0);
	(void)snprintf(path, sizeof(path), "%s/maps", object.proc);
	maps = fopen(path, "w");
	FUZZ_CHECK(maps != NULL);
	fprintf(maps, "%lx-%lx r-xp 00000000 %02x:%02x %lu /proc/self/fd/%d\n", (unsigned long)AT,
		(unsigned long)(AT + object.size), major(st.st_dev), minor(st.st_dev),
		(unsigned long)st.st_ino, object.file);
	FUZZ_CHECK(fclose(maps) == 0);
}

static void ask_memory(struct sp_host_objects *host)
{
	const struct sp_host_object *found = sp_host_objects_find(host, AT);
	uint64_t word;

	if (found != NULL)
		FUZZ_CHECK(found->lo <= AT && AT < found->hi);
	for (size_t at = 0; at <= object.size; at += 511) {
		bool inside = at + sizeof(word) <= object.size;
		bool there = sp_host_objects_read(host, AT + at, &word, sizeof(word));

		if (object.loads)
			continue;
		FUZZ_CHECK(there == inside);
		FUZZ_CHECK(!inside || at < sizeof(ElfW(Ehdr)) ||
			   memcmp(&word, object.image + at, sizeof(word)) == 0);
	}
	(void)sp_host_objects_is_data(host, AT);
}

static void ask_modules(void)
{
	struct sp_modules *m = sp_modules_new(object.proc, -1);
	const struct sp_module *mod;

	FUZZ_CHECK(m != NULL);
	FUZZ_CHECK(sp_modules_refresh(m) == 0);
	mod = sp_modules_find(m, AT, sp_modules_epoch(m));
	FUZZ_CHECK(mod != NULL || object.loads);
	FUZZ_CHECK(mod == NULL || mod->build_id_len <= SP_BUILD_ID_MAX);
	ask_memory(sp_modules_host(m));
	sp_modules_free(m);
}

static void ask_identity(void)
{
	struct sp_object whole = {(uintptr_t)object.image, (uintptr_t)object.image + object.size,
				  (uintptr_t)object.image + object.header[0].p_memsz / 2};

	FUZZ_CHECK(sp_object_identity(&whole, true) != 0);
	FUZZ_CHECK(sp_object_identity(&whole, false) == sp_object_identity(&whole, false));
}

static void put(const struct sp_record *record, void *arg)
{
	const struct sp_module_event *event = &record->module_event;

	FUZZ_CHECK(record->kind == SP_RECORD_MODULE_EVENT);
	FUZZ_CHECK(strnlen(event->path, sizeof(event->path)) < sizeof(event->path));
	sp_modules_take_event(arg, event);
}

/* Handles an object that was gone when the mappings were read. */
static void ask_event(void)
{
	static struct sp_ring ring;
	struct sp_object whole = {(uintptr_t)object.image, (uintptr_t)object.image + object.size,
				  (uintptr_t)object.image + 64};
	struct link_map map = {.l_addr = whole.start, .l_name = (char *)(uintptr_t) "/lib/x.so"};
	struct sp_modules *m = sp_modules_new("/nonexistent", -1);

	FUZZ_CHECK(m != NULL);
	if (ring.word == NULL)
		FUZZ_CHECK(ring_init(&ring, 1 << 14) == 0);
	sp_module_event_move(&ring, NULL);
	(void)sp_module_event_announce(&map, &whole, sp_object_identity(&whole, false));
	FUZZ_CHECK(sp_ring_drain(&ring, put, m, 2) <= 1);
	(void)sp_modules_find(m, whole.start, sp_modules_epoch(m));
	FUZZ_CHECK(sp_modules_refresh(m) < 0);
	sp_modules_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (object.room == NULL) {
		map_room();
		make_folder();
	}
	take_headers(&data, &size);
	take_image(data, size);
	object.header[0] = (ElfW(Phdr)){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_filesz = object.size,
		.p_memsz = object.size,
		.p_align = PAGE,
	};
	write_file();
	ask_modules();
	ask_identity();
	ask_event();
	return 0;
}
