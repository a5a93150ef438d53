/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an ELF file of an object that is mapped (object_image.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/objects/object_image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define SP_DYNAMIC_MAX 4096U /* entries */
#define SP_DYNAMIC_CHUNK 64U
#define SP_IMAGE_SYMBOLS_MAX (1U << 18)
#define SP_HASH_CHUNK 1024U /* words */
#define SP_BUCKETS_MAX (1U << 20)
#define SP_FRAMES_MIN 16U

/* The tables that the dynamic section refers to; addresses are those of the file, 0 = none. */
struct tables {
	uint64_t symbols;
	uint64_t strings;
	uint64_t strings_bytes;
	uint64_t versions;
	uint64_t hash;
	uint64_t gnu_hash;
	uint64_t soname; /* offset in the strings; UINT64_MAX = none */
};

struct making {
	const struct sp_object_layout *f;
	const struct sp_object_reader *reader;
	struct tables t;
};

/* The number of bytes from the address to the end of its segment; 0 if that is not readable. */
static uint64_t room_at(const struct sp_object_layout *f, uint64_t vaddr)
{
	for (unsigned i = 0; i < f->loads; i++) {
		const struct sp_object_load *l = &f->load[i];

		if ((l->flags & PF_R) != 0 && vaddr >= l->vaddr && vaddr - l->vaddr < l->filesz)
			return l->filesz - (vaddr - l->vaddr);
	}
	return 0;
}

static bool read_at(const struct making *m, uint64_t vaddr, void *out, uint64_t bytes)
{
	return bytes <= room_at(m->f, vaddr) &&
	       m->reader->read(m->reader->arg, vaddr, out, (size_t)bytes);
}

/* glibc adds the bias in place, musl does not. */
static uint64_t address_of(const struct making *m, uint64_t pointer)
{
	uint64_t moved = pointer - m->reader->bias;

	return moved >= m->f->lo && moved < m->f->hi ? moved : pointer;
}

static void take_entry(struct making *m, const Elf64_Dyn *entry)
{
	uint64_t value = entry->d_un.d_val;

	switch (entry->d_tag) {
	case DT_SYMTAB:
		m->t.symbols = address_of(m, value);
		break;
	case DT_STRTAB:
		m->t.strings = address_of(m, value);
		break;
	case DT_STRSZ:
		m->t.strings_bytes = value;
		break;
	case DT_VERSYM:
		m->t.versions = address_of(m, value);
		break;
	case DT_HASH:
		m->t.hash = address_of(m, value);
		break;
	case DT_GNU_HASH:
		m->t.gnu_hash = address_of(m, value);
		break;
	case DT_SONAME:
		m->t.soname = value;
		break;
	default:
		break;
	}
}

static void read_tables(struct making *m)
{
	uint64_t left = m->f->dynamic_bytes / sizeof(Elf64_Dyn);
	uint64_t at = m->f->dynamic;
	Elf64_Dyn entry[SP_DYNAMIC_CHUNK];

	m->t = (struct tables){.soname = UINT64_MAX};
	left = left < SP_DYNAMIC_MAX ? left : SP_DYNAMIC_MAX;
	while (left != 0) {
		uint64_t n = left < SP_DYNAMIC_CHUNK ? left : SP_DYNAMIC_CHUNK;

		if (!read_at(m, at, entry, n * sizeof(*entry)))
			return;
		for (uint64_t i = 0; i < n; i++) {
			if (entry[i].d_tag == DT_NULL)
				return;
			take_entry(m, &entry[i]);
		}
		at += n * sizeof(*entry);
		left -= n;
	}
}

void sp_object_soname(const struct sp_object_layout *f, const struct sp_object_reader *reader,
		      char name[SP_OBJECT_SONAME_MAX])
{
	struct making m = {.f = f, .reader = reader};
	const char *last;
	uint64_t room;

	name[0] = '\0';
	read_tables(&m);
	if (m.t.soname >= m.t.strings_bytes)
		return;
	room = m.t.strings_bytes - m.t.soname;
	room = room < SP_OBJECT_SONAME_MAX ? room : SP_OBJECT_SONAME_MAX;
	if (!read_at(&m, m.t.strings + m.t.soname, name, room) ||
	    memchr(name, '\0', (size_t)room) == NULL) {
		name[0] = '\0';
		return;
	}
	/*
	 * The name may be a path that was given to the linker: jna has
	 * "../build/libjnidispatch.so".
	 */
	last = strrchr(name, '/');
	if (last != NULL)
		memmove(name, last + 1, strlen(last));
}

/* The highest number in the buckets; 0 = they are empty, or cannot be read. */
static uint32_t last_of_buckets(const struct making *m, uint64_t at, uint32_t buckets)
{
	uint32_t word[SP_HASH_CHUNK];
	uint32_t last = 0;

	for (uint32_t done = 0; done < buckets;) {
		uint32_t n = buckets - done < SP_HASH_CHUNK ? buckets - done : SP_HASH_CHUNK;

		if (!read_at(m, at + (uint64_t)done * 4, word, (uint64_t)n * 4))
			return 0;
		for (uint32_t i = 0; i < n; i++)
			last = word[i] > last ? word[i] : last;
		done += n;
	}
	return last;
}

/*
 * The number of symbols. The GNU table does not contain it: the last symbol is the end of the chain that begins last.
 * A table with more than SP_IMAGE_SYMBOLS_MAX symbols counts as one with exactly that many.
 */
static uint32_t count_by_gnu_hash(const struct making *m)
{
	struct {
		uint32_t buckets, first, words, shift;
	} head = {0};
	uint64_t at = m->t.gnu_hash + sizeof(head);
	uint32_t word[SP_HASH_CHUNK];
	uint32_t last;

	if (!read_at(m, m->t.gnu_hash, &head, sizeof(head)) || head.buckets > SP_BUCKETS_MAX)
		return 0;
	at += (uint64_t)head.words * 8;
	last = last_of_buckets(m, at, head.buckets);
	at += (uint64_t)head.buckets * 4;
	if (last < head.first)
		return 0;
	at += (uint64_t)(last - head.first) * 4;
	while (last < SP_IMAGE_SYMBOLS_MAX) {
		uint64_t n = room_at(m->f, at) / sizeof(*word);

		n = n < SP_HASH_CHUNK ? n : SP_HASH_CHUNK;
		if (n == 0 || !read_at(m, at, word, n * sizeof(*word)))
			return 0;
		for (uint64_t i = 0; i < n; i++, last++)
			if ((word[i] & 1) != 0)
				return last + 1;
		at += n * sizeof(*word);
	}
	return SP_IMAGE_SYMBOLS_MAX;
}

static uint32_t count_symbols(const struct making *m)
{
	struct {
		uint32_t buckets, chains;
	} head = {0};

	if (m->t.symbols == 0 || m->t.strings == 0)
		return 0;
	if (m->t.hash == 0 || !read_at(m, m->t.hash, &head, sizeof(head)))
		return m->t.gnu_hash != 0 ? count_by_gnu_hash(m) : 0;
	return head.chains < SP_IMAGE_SYMBOLS_MAX ? head.chains : SP_IMAGE_SYMBOLS_MAX;
}

enum { SECTION_SYMBOLS = 1, SECTION_STRINGS, SECTION_VERSIONS, SECTION_NAMES, SECTION_CODE };

/* The parts of the image, in this order. Offsets are multiples of 8. */
struct plan {
	uint32_t symbols;
	uint64_t frames_bytes;
	size_t at_symbols, at_strings, at_versions, at_names, at_frames, at_sections, bytes;
	unsigned sections;
};

static const char section_names[] = "\0.dynsym\0.dynstr\0.gnu.version\0.shstrtab\0.text";
static const uint32_t name_of[] = {0, 1, 9, 17, 30, 40};

static size_t aligned(uint64_t n)
{
	return (size_t)((n + 7) & ~(uint64_t)7);
}

static void lay_out(struct plan *p, uint64_t strings, unsigned code)
{
	p->sections = SECTION_CODE + code;
	p->at_symbols = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
	p->at_strings = p->at_symbols + p->symbols * sizeof(Elf64_Sym);
	p->at_versions = p->at_strings + aligned(strings);
	p->at_names = p->at_versions + aligned((uint64_t)p->symbols * 2);
	p->at_frames = p->at_names + aligned(sizeof(section_names));
	p->at_sections = p->at_frames + aligned(p->frames_bytes);
	p->bytes = p->at_sections + p->sections * sizeof(Elf64_Shdr);
}

static unsigned count_code(const struct sp_object_layout *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->loads; i++)
		n += (f->load[i].flags & PF_X) != 0;
	return n;
}

/* The section of code that contains the address, or SHN_ABS. */
static Elf64_Section section_of(const struct sp_object_layout *f, uint64_t vaddr)
{
	Elf64_Section n = SECTION_CODE;

	for (unsigned i = 0; i < f->loads; i++) {
		const struct sp_object_load *l = &f->load[i];

		if ((l->flags & PF_X) == 0)
			continue;
		if (vaddr >= l->vaddr && vaddr - l->vaddr < l->memsz)
			return n;
		n++;
	}
	return SHN_ABS;
}

/* The section numbers in the symbols belong to the original file, so they are replaced. */
static bool copy_symbols(const struct making *m, const struct plan *p, uint8_t *image)
{
	Elf64_Sym *symbol = (void *)(image + p->at_symbols);

	if (p->symbols == 0)
		return true;
	if (!read_at(m, m->t.symbols, symbol, p->symbols * sizeof(*symbol)) ||
	    !read_at(m, m->t.strings, image + p->at_strings, m->t.strings_bytes) ||
	    image[p->at_strings + m->t.strings_bytes - 1] != '\0')
		return false;
	for (uint32_t i = 0; i < p->symbols; i++)
		if (symbol[i].st_shndx != SHN_UNDEF)
			symbol[i].st_shndx = section_of(m->f, symbol[i].st_value);
	return true;
}

static void write_sections(const struct making *m, const struct plan *p, bool has_versions,
			   uint8_t *image)
{
	Elf64_Shdr *section = (void *)(image + p->at_sections);
	unsigned n = SECTION_CODE;

	section[SECTION_SYMBOLS] = (Elf64_Shdr){
		.sh_name = name_of[SECTION_SYMBOLS],
		.sh_type = SHT_DYNSYM,
		.sh_offset = p->at_symbols,
		.sh_size = p->symbols * sizeof(Elf64_Sym),
		.sh_link = SECTION_STRINGS,
		.sh_info = 1,
		.sh_addralign = 8,
		.sh_entsize = sizeof(Elf64_Sym),
	};
	section[SECTION_STRINGS] = (Elf64_Shdr){
		.sh_name = name_of[SECTION_STRINGS],
		.sh_type = SHT_STRTAB,
		.sh_offset = p->at_strings,
		.sh_size = p->symbols != 0 ? m->t.strings_bytes : 0,
		.sh_addralign = 1,
	};
	section[SECTION_VERSIONS] = (Elf64_Shdr){
		.sh_name = name_of[SECTION_VERSIONS],
		.sh_type = has_versions ? SHT_GNU_versym : SHT_NULL,
		.sh_offset = p->at_versions,
		.sh_size = p->symbols * sizeof(Elf64_Half),
		.sh_link = SECTION_SYMBOLS,
		.sh_addralign = 2,
		.sh_entsize = sizeof(Elf64_Half),
	};
	section[SECTION_NAMES] = (Elf64_Shdr){
		.sh_name = name_of[SECTION_NAMES],
		.sh_type = SHT_STRTAB,
		.sh_offset = p->at_names,
		.sh_size = sizeof(section_names),
		.sh_addralign = 1,
	};
	memcpy(image + p->at_names, section_names, sizeof(section_names));
	for (unsigned i = 0; i < m->f->loads; i++) {
		const struct sp_object_load *l = &m->f->load[i];

		if ((l->flags & PF_X) != 0)
			section[n++] = (Elf64_Shdr){
				.sh_name = name_of[SECTION_CODE],
				.sh_type = SHT_NOBITS,
				.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				.sh_addr = l->vaddr,
				.sh_offset = p->at_sections,
				.sh_size = l->memsz,
				.sh_addralign = 1,
			};
	}
}

static void write_headers(const struct making *m, const struct plan *p, uint8_t *image)
{
	const Elf64_Ehdr head = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = SP_OBJECT_MACHINE,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = p->at_sections,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = p->frames_bytes != 0 ? 2 : 0,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = (Elf64_Half)p->sections,
		.e_shstrndx = SECTION_NAMES,
	};
	Elf64_Phdr frames = {
		.p_type = PT_LOAD,
		.p_flags = PF_R,
		.p_offset = p->at_frames,
		.p_vaddr = m->f->eh_frame_hdr,
		.p_filesz = p->frames_bytes,
		.p_memsz = p->frames_bytes,
		.p_align = 1,
	};

	memcpy(image, &head, sizeof(head));
	memcpy(image + sizeof(head), &frames, sizeof(frames));
	frames.p_type = PT_GNU_EH_FRAME;
	memcpy(image + sizeof(head) + sizeof(frames), &frames, sizeof(frames));
}

uint8_t *sp_object_image(const struct sp_object_layout *f, const struct sp_object_reader *reader,
			 size_t most, size_t *bytes)
{
	struct making m = {.f = f, .reader = reader};
	struct plan p = {0};
	uint8_t *image;
	bool has_versions;

	read_tables(&m);
	/*
	 * The strings are used as a whole or not at all, because cut strings would give wrong
	 * names.
	 */
	if (m.t.strings_bytes != 0 && m.t.strings_bytes <= room_at(f, m.t.strings) &&
	    m.t.strings_bytes <= most / 2)
		p.symbols = count_symbols(&m);
	if (p.symbols > most / 4 / sizeof(Elf64_Sym))
		p.symbols = (uint32_t)(most / 4 / sizeof(Elf64_Sym));
	if (p.symbols * sizeof(Elf64_Sym) > room_at(f, m.t.symbols))
		p.symbols = 0;
	if (p.symbols == 0)
		m.t.strings_bytes = 0;
	lay_out(&p, m.t.strings_bytes, count_code(f));
	p.frames_bytes = f->eh_frame_hdr != 0 ? room_at(f, f->eh_frame_hdr) : 0;
	if (p.bytes >= most)
		return NULL;
	if (p.frames_bytes > most - p.bytes - sizeof(uint64_t))
		p.frames_bytes = most - p.bytes - sizeof(uint64_t);
	if (p.frames_bytes < SP_FRAMES_MIN)
		p.frames_bytes = 0;
	lay_out(&p, m.t.strings_bytes, count_code(f));
	image = calloc(1, p.bytes);
	if (image == NULL)
		return NULL;
	if (!copy_symbols(&m, &p, image))
		p.symbols = 0;
	has_versions = p.symbols != 0 && m.t.versions != 0 &&
		       read_at(&m, m.t.versions, image + p.at_versions, (uint64_t)p.symbols * 2);
	if (p.frames_bytes != 0 &&
	    !read_at(&m, f->eh_frame_hdr, image + p.at_frames, p.frames_bytes))
		p.frames_bytes = 0;
	write_sections(&m, &p, has_versions, image);
	write_headers(&m, &p, image);
	*bytes = p.bytes;
	if (p.symbols != 0 || p.frames_bytes != 0)
		return image;
	free(image);
	return NULL;
}
