/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one object's dynamic symbol table where it is mapped (elf_symbols.h). Context: APP. */
#include "preload/elf/elf_symbols.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

/* The bound for a damaged or hostile object; no real table has chains this long. */
#define CHAIN_MAX 65536U
#define VERSYM_HIDDEN 0x8000U

const ElfW(Dyn) * sp_elf_dynamic(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	return NULL;
}

/* The loader relocates d_ptr in place for most objects, but not for the vDSO. */
static const void *dyn_ptr(uintptr_t base, ElfW(Addr) p)
{
	return (const void *)(p < base ? base + p : p);
}

bool sp_elf_symbols_read(uintptr_t base, const ElfW(Dyn) * d, struct sp_elf_symbols *o)
{
	memset(o, 0, sizeof(*o));
	o->base = base;
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			o->sym = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			o->str = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			o->gnu_hash = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_HASH:
			o->sysv_hash = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_VERSYM:
			o->versym = dyn_ptr(base, d->d_un.d_ptr);
			break;
		default:
			break;
		}
	}
	return o->sym != NULL && o->str != NULL && (o->gnu_hash != NULL || o->sysv_hash != NULL);
}

/* What is looked for, and the best that was found so far. */
struct search {
	const struct sp_elf_symbols *o;
	const char *name;
	bool tls;
	int best;
	const ElfW(Sym) * found;
};

static bool is_of_kind(const ElfW(Sym) * s, bool tls)
{
	unsigned char type = ELF64_ST_TYPE(s->st_info);

	/* the value of a thread-local variable is its offset, which may be 0 */
	if (tls)
		return type == STT_TLS;
	return s->st_value != 0 && (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE);
}

/* 2 = the default version, 1 = an older (hidden) version, 0 = not a definition of name. */
static int match(const struct search *q, uint32_t i)
{
	const struct sp_elf_symbols *o = q->o;
	const ElfW(Sym) *s = &o->sym[i];

	if (s->st_shndx == SHN_UNDEF || ELF64_ST_BIND(s->st_info) == STB_LOCAL ||
	    !is_of_kind(s, q->tls) || strcmp(o->str + s->st_name, q->name) != 0)
		return 0;
	return o->versym != NULL && (o->versym[i] & VERSYM_HIDDEN) ? 1 : 2;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name != '\0'; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

static uint32_t sysv_hash_of(const char *name)
{
	uint32_t h = 0;

	for (; *name != '\0'; name++) {
		h = (h << 4) + (uint8_t)*name;
		h = (h ^ ((h & 0xf0000000U) >> 24)) & 0x0fffffffU;
	}
	return h;
}

static void better(struct search *q, uint32_t i)
{
	int m = match(q, i);

	if (m <= q->best)
		return;
	q->best = m;
	q->found = &q->o->sym[i];
}

static void lookup_gnu(struct search *q)
{
	const struct sp_elf_symbols *o = q->o;
	uint32_t nbuckets = o->gnu_hash[0];
	uint32_t first = o->gnu_hash[1];
	uint32_t bloom_words = o->gnu_hash[2];
	uint32_t shift = o->gnu_hash[3];
	const ElfW(Addr) *bloom = (const void *)&o->gnu_hash[4];
	const uint32_t *bucket = (const void *)&bloom[bloom_words];
	const uint32_t *chain = &bucket[nbuckets];
	uint32_t h = gnu_hash_of(q->name);

	if (nbuckets == 0 || bloom_words == 0)
		return;
	ElfW(Addr) word = bloom[(h / 64) % bloom_words];

	if (!((word >> (h % 64)) & (word >> ((h >> shift) % 64)) & 1))
		return;
	uint32_t i = bucket[h % nbuckets];

	for (uint32_t n = 0; i >= first && n < CHAIN_MAX; n++, i++) {
		if ((chain[i - first] | 1U) == (h | 1U))
			better(q, i);
		if (chain[i - first] & 1U)
			break;
	}
}

static void lookup_sysv(struct search *q)
{
	const struct sp_elf_symbols *o = q->o;
	uint32_t nbuckets = o->sysv_hash[0];
	uint32_t nchain = o->sysv_hash[1];
	const uint32_t *bucket = &o->sysv_hash[2];

	if (nbuckets == 0)
		return;
	uint32_t i = bucket[sysv_hash_of(q->name) % nbuckets];

	for (uint32_t n = 0; i != 0 && i < nchain && n < CHAIN_MAX; n++) {
		better(q, i);
		i = bucket[nbuckets + i];
	}
}

static const ElfW(Sym) * find(const struct sp_elf_symbols *o, const char *name, bool tls)
{
	struct search q = {.o = o, .name = name, .tls = tls};

	if (o->gnu_hash != NULL)
		lookup_gnu(&q);
	else
		lookup_sysv(&q);
	return q.found;
}

void *sp_elf_symbols_find(const struct sp_elf_symbols *o, const char *name)
{
	const ElfW(Sym) *s = find(o, name, false);

	return s != NULL ? (void *)(o->base + s->st_value) : NULL;
}

const ElfW(Sym) * sp_elf_symbols_find_symbol(const struct sp_elf_symbols *o, const char *name)
{
	return find(o, name, false);
}

const ElfW(Sym) * sp_elf_symbols_find_tls(const struct sp_elf_symbols *o, const char *name)
{
	return find(o, name, true);
}
