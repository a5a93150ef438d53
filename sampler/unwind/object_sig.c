/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that a walk passes (object_sig.h), in three parts.
 *
 * The identity of an object is computed from its address and its build id, which are read in the
 * mapped headers: ELF header, program headers, notes. A page of code may be execute-only, and
 * reading it would be a fault in the host. So the ELF header is read only if its mapping also has
 * .eh_frame_hdr, which is readable data, and all other reads are inside that mapping.
 *
 * Module events announce each object once, from these headers. The thread runs in the object, or
 * will return into it, so object and link map stay mapped during the call. For the same reason no
 * second object can be mapped at the addresses of an object before all samples of the first one are
 * in the ring.
 *
 * The cache asks the dynamic loader which object an address belongs to. dl_iterate_phdr and dladdr
 * take the loader's lock, which the interrupted thread may hold; _dl_find_object takes none and is
 * the one look-up that glibc documents as async-signal-safe. If another thread unmaps an object
 * (dlclose) while one of its return addresses is still on this stack, the host is already broken.
 * An object that _dl_find_object no longer reports is not read.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 * sp_object_cache_init() is APP.
 */
#include "sampler/unwind/object_sig.h"

#include <elf.h>
#include <errno.h>
#include <sys/auxv.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define NAME_BYTES 4U
#define NOTES_MAX 8U
/*
 * Linkers put the program headers right behind the ELF header. Only headers in the same page as the
 * ELF header are read, because that page is known to be readable.
 */
#define HEADERS_END 4096U
#define ID_BYTES_MAX 64U

static struct sp_cursor bytes_at(const struct sp_object *object, uint64_t offset, uint64_t n)
{
	struct sp_cursor c = sp_cursor_over(object->start, object->end);

	sp_cursor_skip(&c, offset);
	if (n > sp_cursor_left(&c))
		c.failed = true;
	else
		c.end = c.at + n;
	return c;
}

/* The build id among these notes. Names and values are padded to 4 bytes. */
static struct sp_cursor find_id(struct sp_cursor c)
{
	for (unsigned n = 0; n < NOTES_MAX && sp_cursor_left(&c) > 0; n++) {
		uint64_t name = sp_cursor_unsigned(&c, 4);
		uint64_t bytes = sp_cursor_unsigned(&c, 4);
		uint64_t type = sp_cursor_unsigned(&c, 4);

		if (name == NAME_BYTES && type == NT_GNU_BUILD_ID && bytes != 0 &&
		    bytes <= ID_BYTES_MAX) {
			sp_cursor_skip(&c, NAME_BYTES);
			c.failed = c.failed || bytes > sp_cursor_left(&c);
			c.end = c.failed ? c.end : c.at + bytes;
			return c;
		}
		sp_cursor_skip(&c, (name + 3) & ~UINT64_C(3));
		sp_cursor_skip(&c, (bytes + 3) & ~UINT64_C(3));
	}
	c.failed = true;
	return c;
}

/* The object's mapped program headers. NULL if they are not where linkers put them. */
static const ElfW(Phdr) * headers_of(const struct sp_object *object, unsigned *n)
{
	static const unsigned char magic[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64};
	const ElfW(Ehdr) *elf = (const void *)object->start;

	*n = 0;
	if (object->end - object->start < HEADERS_END)
		return NULL;
	for (unsigned i = 0; i < sizeof(magic); i++) {
		if (elf->e_ident[i] != magic[i])
			return NULL;
	}
	if (elf->e_phentsize != sizeof(ElfW(Phdr)) || elf->e_phoff % _Alignof(ElfW(Phdr)) != 0 ||
	    elf->e_phoff > HEADERS_END ||
	    elf->e_phoff + elf->e_phnum * sizeof(ElfW(Phdr)) > HEADERS_END)
		return NULL;
	*n = elf->e_phnum;
	return (const void *)(object->start + elf->e_phoff);
}

/*
 * The mapped bytes of its build id. The cursor has failed if there is none. Only notes inside the
 * first segment count, because that segment is known to be mapped.
 */
static struct sp_cursor build_id_of(const struct sp_object *object)
{
	struct sp_cursor none = {.failed = true};
	unsigned n = 0;
	const ElfW(Phdr) *header = headers_of(object, &n);
	uint64_t first = 0;

	for (; n != 0; n--, header++) {
		struct sp_cursor id;

		if (header->p_type == PT_LOAD && header->p_offset == 0)
			first = header->p_filesz;
		if (header->p_type != PT_NOTE || header->p_offset > first ||
		    header->p_filesz > first - header->p_offset)
			continue;
		id = find_id(bytes_at(object, header->p_offset, header->p_filesz));
		if (!id.failed)
			return id;
	}
	return none;
}

SP_SIGSAFE uint64_t sp_object_identity(const struct sp_object *object, bool permanent)
{
	uint64_t hash =
		sp_object_mix(sp_object_mix(object->start, object->end), object->eh_frame_hdr);
	struct sp_cursor id;

	if (permanent)
		return hash | 1;
	id = build_id_of(object);
	if (id.failed)
		return 0;
	while (sp_cursor_left(&id) >= 4)
		hash = sp_object_mix(hash, sp_cursor_unsigned(&id, 4));
	while (sp_cursor_left(&id) != 0)
		hash = sp_object_mix(hash, sp_cursor_u8(&id));
	return hash;
}

#define PATH_STEP UINT64_C(0x100000001b3)

#define MODULE_EVENT_WAYS 4U

/* The table of announced objects. */
static struct slot {
	_Atomic uintptr_t start; /* 0 = free */
	_Atomic uintptr_t end;
	_Atomic uint64_t stamp; /* hash of identity and generation; 0 = announce the object again */
} slots[SP_MODULE_EVENT_SLOTS];

struct sp_module_event_state sp_module_event_state;

static const _Atomic uint32_t never;

void sp_module_event_move(struct sp_ring *ring, const _Atomic uint32_t *again)
{
	atomic_store_explicit(&sp_module_event_state.again, again != NULL ? again : &never,
			      memory_order_relaxed);
	/*
	 * both pair with the acquires in sp_module_event_announce(): objects are announced again in the
	 * new ring
	 */
	atomic_store_explicit(&sp_module_event_state.ring, ring, memory_order_release);
	atomic_fetch_add_explicit(&sp_module_event_state.moves, 1, memory_order_release);
}

/*
 * A hash of the object's first page. 0 if the page is not known to be readable, or the loader may
 * have changed it.
 */
static uint64_t content_of(const struct sp_object *object)
{
	unsigned n = 0;
	const ElfW(Phdr) *header = headers_of(object, &n);

	for (; n != 0; n--, header++)
		if (header->p_type == PT_LOAD && header->p_offset == 0)
			return (header->p_flags & PF_W) == 0
				       ? sp_module_content((const void *)object->start)
				       : 0;
	return 0;
}

/*
 * The identity of an object without a build id, at one address: a hash of its first page and its
 * file name.
 */
static uint64_t by_content(const struct link_map *map, const struct sp_object *object)
{
	uint64_t hash = sp_object_mix(sp_object_identity(object, true), content_of(object));

	for (unsigned i = 0; i < SP_MODULE_EVENT_PATH_MAX && map->l_name[i] != '\0'; i++)
		hash = (hash ^ (unsigned char)map->l_name[i]) * PATH_STEP;
	return hash;
}

static struct slot *ways_of(uintptr_t start)
{
	uint64_t hash = (uint64_t)start * UINT64_C(0x9e3779b97f4a7c15) >> 40;

	return &slots[hash % (SP_MODULE_EVENT_SLOTS / MODULE_EVENT_WAYS) * MODULE_EVENT_WAYS];
}

static bool is_told(uintptr_t start, uint64_t stamp)
{
	struct slot *way = ways_of(start);

	for (unsigned i = 0; i < MODULE_EVENT_WAYS; i++)
		/*
		 * pairs with the release in remember(): the object's record is in the ring before
		 * our sample
		 */
		if (atomic_load_explicit(&way[i].start, memory_order_relaxed) == start)
			return atomic_load_explicit(&way[i].stamp, memory_order_acquire) == stamp;
	return false;
}

/*
 * The objects that were announced at these addresses before are unmapped. If such an object is
 * mapped again, it has to be announced again.
 */
static void forget_overlapped(const struct sp_object *object)
{
	for (unsigned i = 0; i < SP_MODULE_EVENT_SLOTS; i++) {
		struct slot *slot = &slots[i];
		uintptr_t start = atomic_load_explicit(&slot->start, memory_order_relaxed);
		uintptr_t end = atomic_load_explicit(&slot->end, memory_order_relaxed);

		if (start != 0 && start < object->end && object->start < end)
			atomic_store_explicit(&slot->stamp, 0, memory_order_relaxed);
	}
}

/*
 * Stores the object in its own entry, in a free entry, or in place of another object, which will
 * then be announced once more.
 */
static void remember(const struct sp_object *object, uint64_t stamp)
{
	struct slot *way = ways_of(object->start);
	struct slot *to = &way[stamp >> 32 & (MODULE_EVENT_WAYS - 1)];

	for (unsigned i = MODULE_EVENT_WAYS; i-- > 0;)
		if (atomic_load_explicit(&way[i].start, memory_order_relaxed) == 0)
			to = &way[i];
	for (unsigned i = 0; i < MODULE_EVENT_WAYS; i++)
		if (atomic_load_explicit(&way[i].start, memory_order_relaxed) == object->start)
			to = &way[i];
	/*
	 * A stamp never matches an object with another start, so an entry with words of two writers
	 * is harmless.
	 */
	atomic_store_explicit(&to->end, object->end, memory_order_relaxed);
	atomic_store_explicit(&to->start, object->start, memory_order_relaxed);
	/* pairs with the acquire in is_told() */
	atomic_store_explicit(&to->stamp, stamp, memory_order_release);
}

/* False if the record would not identify the object for the exporter. */
static bool describe(const struct link_map *map, const struct sp_object *object,
		     struct sp_module_event *s)
{
	unsigned headers = 0;
	const ElfW(Phdr) *header = headers_of(object, &headers);
	struct sp_cursor id = build_id_of(object);
	unsigned i = 0;

	s->bias = map->l_addr;
	s->phdr = (uintptr_t)header;
	s->loads = 0;
	for (; headers != 0 && s->loads < SP_MODULE_EVENT_LOADS; headers--, header++) {
		if (header->p_type != PT_LOAD)
			continue;
		s->load[s->loads].vaddr = header->p_vaddr;
		s->load[s->loads].memsz = header->p_memsz;
		s->load[s->loads].offset = header->p_offset;
		s->load[s->loads++].flags = header->p_flags;
	}
	s->build_id_len = 0;
	s->content = id.failed ? content_of(object) : 0;
	while (sp_cursor_left(&id) != 0 && s->build_id_len < SP_MODULE_EVENT_ID_MAX)
		s->build_id[s->build_id_len++] = sp_cursor_u8(&id);
	while (map->l_name[i] != '\0' && i < SP_MODULE_EVENT_PATH_MAX - 1) {
		s->path[i] = map->l_name[i];
		i++;
	}
	s->path[i] = '\0';
	return s->loads != 0 && i != 0 && map->l_name[i] == '\0' && sp_cursor_left(&id) == 0;
}

/* Not inlined: the record would take stack in every step of a walk. */
__attribute__((noinline)) static bool tell(const struct link_map *map,
					   const struct sp_object *object, uint64_t stamp)
{
	struct sp_ring *ring =
		atomic_load_explicit(&sp_module_event_state.ring, memory_order_relaxed);
	struct sp_module_event event;

	if (describe(map, object, &event) &&
	    sp_ring_put(ring, SP_RECORD_MODULE_EVENT, &event, sizeof(event)) != 0)
		return false;
	forget_overlapped(object);
	remember(object, stamp);
	return true;
}

SP_SIGSAFE bool sp_module_event_announce(const void *link_map, const struct sp_object *object,
					 uint64_t identity)
{
	const struct link_map *map = link_map;
	const _Atomic uint32_t *again;
	uint64_t generation;
	uint64_t stamp;

	/* pairs with sp_module_event_move() */
	if (atomic_load_explicit(&sp_module_event_state.ring, memory_order_acquire) == NULL ||
	    map == NULL || map->l_name == NULL)
		return true;
	if (identity == 0)
		identity = by_content(map, object);
	/*
	 * Pairs with sp_module_event_move(): an object that was not announced since a move is
	 * announced in the new ring, or in a later one.
	 */
	generation = atomic_load_explicit(&sp_module_event_state.moves, memory_order_acquire) << 32;
	again = atomic_load_explicit(&sp_module_event_state.again, memory_order_relaxed);
	generation |= atomic_load_explicit(again, memory_order_relaxed);
	stamp = sp_object_mix(identity, generation) | 1;
	return is_told(object->start, stamp) || tell(map, object, stamp);
}

/*
 * struct dl_find_object of <dlfcn.h>, glibc 2.35 and later (checked: 2.36, x86-64; aarch64 has the
 * same layout, DLFO_STRUCT_HAS_EH_DBASE and _COUNT being 0 on both). Our own copy, because an older
 * C library's header, which we may be built with, lacks it.
 */
struct find_object_result {
	unsigned long long flags;
	void *map_start;
	void *map_end;
	void *link_map;
	void *eh_frame; /* the PT_GNU_EH_FRAME segment, that is .eh_frame_hdr; NULL if none */
	unsigned long long reserved[7];
};

typedef int find_object_fn(void *address, struct find_object_result *result);

/*
 * Set once, before the first timer exists. Looked up at run time, so that our object can be loaded
 * with older C libraries, too.
 */
static find_object_fn *find_object;

/* The loader's handle of the program itself, which is never unloaded. */
static const void *program_map;

/* Not inlined, so that the gate for calls through pointers can name it. */
__attribute__((noinline)) static bool loader_find(uintptr_t address,
						  struct find_object_result *found)
{
	/*
	 * One of the two calls through a pointer in the handler (the other is in signals_sig.c).
	 * glibc documents this call as safe in a handler.
	 */
	return find_object != NULL && find_object((void *)address, found) == 0;
}

static void note_program(void)
{
	struct find_object_result found;

	if (loader_find(getauxval(AT_ENTRY), &found))
		program_map = found.link_map;
}

int sp_object_cache_init(void *(*lookup)(const char *name))
{
	void *symbol = lookup("_dl_find_object");

	if (symbol == NULL)
		return -ENOSYS;
	find_object = (find_object_fn *)symbol;
	note_program();
	return 0;
}

SP_SIGSAFE bool sp_object_cache_possible(void)
{
	return find_object != NULL;
}

static bool contains(const struct sp_object *object, uintptr_t address)
{
	return object->start <= address && address < object->end;
}

/*
 * Finds the call frame information for pc and the mapping that has it. If the segments of a program
 * are not adjacent (node), _dl_find_object returns only the segment of that address. Then a second
 * look-up finds the segment of the call frame information.
 */
static bool look_up(struct sp_object_cache *cache, uintptr_t pc, struct sp_cached_object *cached)
{
	struct find_object_result found;
	struct sp_object *object = &cached->object;
	const void *map;

	cache->without_header = false;
	if (!loader_find(pc, &found))
		return false;
	cache->without_header = found.eh_frame == NULL;
	if (cache->without_header)
		return false;
	map = found.link_map;
	cached->start = (uintptr_t)found.map_start;
	cached->end = (uintptr_t)found.map_end;
	object->eh_frame_hdr = (uintptr_t)found.eh_frame;
	object->start = cached->start;
	object->end = cached->end;
	if (!contains(object, object->eh_frame_hdr)) {
		if (!loader_find(object->eh_frame_hdr, &found))
			return false;
		object->start = (uintptr_t)found.map_start;
		object->end = (uintptr_t)found.map_end;
		if (!contains(object, object->eh_frame_hdr))
			return false;
	}
	cached->identity = sp_object_identity(object, map == program_map);
	if (map != program_map && !sp_module_event_announce(map, object, cached->identity))
		cache->untold = true;
	return true;
}

SP_SIGSAFE const struct sp_cached_object *sp_object_cache_find(struct sp_object_cache *cache,
							       uintptr_t pc)
{
	struct sp_cached_object *cached;

	for (unsigned i = 0; i < cache->n && i < SP_OBJECT_CACHE_SIZE; i++) {
		if (cache->entry[i].start <= pc && pc < cache->entry[i].end)
			return &cache->entry[i];
	}
	cached = &cache->entry[cache->n % SP_OBJECT_CACHE_SIZE];
	/* A half-filled entry must not match any address. */
	cached->end = 0;
	if (!look_up(cache, pc, cached)) {
		cached->end = 0;
		return NULL;
	}
	cache->n++;
	return cached;
}
