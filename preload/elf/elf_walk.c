/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over the loaded objects: which symbols they define, where they are mapped, which objects
 * they need, and which of their memory can be read. Each question takes one walk or a few. No
 * answer is stored, because the program may load and unload objects at any time.
 *
 * dl_iterate_phdr() holds a lock of the loader. If another thread forks during a walk, nobody in
 * the child gives that lock back, and the child's first walk hangs (seen with glibc 2.36, whose
 * fork() resets other locks of the loader, but not dl_load_write_lock). Likewise a page that is
 * writable while we write a slot would stay writable in the child. So a fork waits until no thread
 * is in such a section of ours, and before a section our threads wait until the forks under way are
 * done, as malloc() does. Threads of the host that walk over the objects themselves do not wait. In
 * INIT there is one thread, and nothing waits.
 *
 * Contexts: INIT, APP.
 */
#define _GNU_SOURCE
#include "preload/elf/elf_walk.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/readable_sig.h"
#include "sampler/base/seccomp.h"

#define PRINTED_MAX 4096U
/* A bound for damaged or hostile objects; no real table has chains this long. */
#define CHAIN_MAX 65536U
#define VERSYM_HIDDEN 0x8000U

/*
 * --- What a fork must not interrupt
 * ---------------------------------------------------------------
 */

#define WAIT_NS SP_NS_PER_S

/* glibc: nptl/register-atfork.c; what pthread_atfork() calls. Absent from other C libraries. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static _Atomic unsigned inside;  /* sections in all threads */
static _Atomic unsigned forking; /* threads between prepare and the end of their fork */
/*
 * Sections that will never end, because their thread was cancelled in one or jumped out of a signal
 * handler. A fork waits WAIT_NS for such a section; later forks do not wait for it again. The
 * section of a thread that is only stopped counts as lost until it ends.
 */
static _Atomic unsigned lost;
/*
 * Sections that wait for forks. Later forks wait for these sections, because several threads that
 * fork in turn leave no moment without a fork. A fork that has waited WAIT_NS for them sets the
 * number to 0.
 */
static _Atomic unsigned waiting;

/* A signal handler of the host may interrupt a section, the wait before one, or a fork, and call us. */
static SP_TLS unsigned own_sections;
static SP_TLS uint16_t own_forks;
static SP_TLS uint16_t own_waits;

static bool is_over(uint64_t end)
{
	(void)sp_syscall(SYS_sched_yield);
	return sp_monotonic_ns() >= end;
}

/* Lost sections never leave `inside`, so `lost` is at most `inside`. */
static void lower_lost(unsigned most)
{
	unsigned n = atomic_load_explicit(&lost, memory_order_seq_cst);

	while (n > most && !atomic_compare_exchange_weak_explicit(
				   &lost, &n, most, memory_order_seq_cst, memory_order_seq_cst))
		;
}

/*
 * seq_cst, as in before_fork(): either the fork sees that this section has ended, or this thread
 * sees that the fork counted it as lost.
 */
static void finish(void)
{
	lower_lost(atomic_fetch_sub_explicit(&inside, 1, memory_order_seq_cst) - 1);
}

/* seq_cst, as in before_fork(): either the fork sees this section, or this thread sees the fork. */
static bool begin(void)
{
	atomic_fetch_add_explicit(&inside, 1, memory_order_seq_cst);
	if (own_forks != 0 || atomic_load_explicit(&forking, memory_order_seq_cst) == 0)
		return true;
	finish();
	return false;
}

static __attribute__((noinline, cold)) void begin_after_forks(void)
{
	uint64_t end = sp_monotonic_ns() + WAIT_NS;
	bool has_begun = false;
	unsigned n;

	own_waits++;
	n = atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed) + 1;
	while (!has_begun && !is_over(end))
		has_begun = begin();
	if (!has_begun)
		atomic_fetch_add_explicit(&inside, 1, memory_order_seq_cst);
	/* A fork may have set `waiting` to 0 meanwhile. */
	while (n != 0 && !atomic_compare_exchange_weak_explicit(
				 &waiting, &n, n - 1, memory_order_relaxed, memory_order_relaxed))
		;
	own_waits--;
}

void sp_fork_barrier_enter(void)
{
	if (own_sections == 0 && !begin())
		begin_after_forks();
	own_sections++;
}

void sp_fork_barrier_exit(void)
{
	if (--own_sections == 0)
		finish();
}

int sp_fork_barrier_walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg)
{
	int result;

	sp_fork_barrier_enter();
	result = dl_iterate_phdr(visit, arg);
	sp_fork_barrier_exit();
	return result;
}

/*
 * A fork waits for the threads that wait to begin a section, with two exceptions. If the fork's own
 * thread is in a section or in another fork, those threads may be waiting for the end of that. And
 * a signal handler may have interrupted the wait of the fork's own thread.
 */
static void let_waiting_begin(void)
{
	uint64_t end;

	if (atomic_load_explicit(&waiting, memory_order_relaxed) == 0 || own_sections != 0 ||
	    own_forks != 0 || own_waits != 0)
		return;
	end = sp_monotonic_ns() + WAIT_NS;
	while (atomic_load_explicit(&waiting, memory_order_relaxed) != 0) {
		if (is_over(end)) {
			atomic_store_explicit(&waiting, 0, memory_order_relaxed);
			return;
		}
	}
}

static void before_fork(void)
{
	unsigned own = own_sections != 0;
	uint64_t end;
	unsigned now;
	int saved = errno;

	let_waiting_begin();
	end = sp_monotonic_ns() + WAIT_NS;
	own_forks++;
	own += atomic_load_explicit(&lost, memory_order_relaxed);
	atomic_fetch_add_explicit(&forking, 1, memory_order_seq_cst);
	while ((now = atomic_load_explicit(&inside, memory_order_seq_cst)) > own) {
		if (is_over(end)) {
			atomic_store_explicit(&lost, now - (own_sections != 0),
					      memory_order_seq_cst);
			lower_lost(atomic_load_explicit(&inside, memory_order_seq_cst));
			break;
		}
	}
	errno = saved;
}

static void after_fork_in_parent(void)
{
	own_forks--;
	atomic_fetch_sub_explicit(&forking, 1, memory_order_release);
}

/* The child has one thread. */
static void after_fork_in_child(void)
{
	own_forks = 0;
	atomic_store_explicit(&forking, 0, memory_order_relaxed);
	atomic_store_explicit(&inside, own_sections != 0, memory_order_relaxed);
	atomic_store_explicit(&lost, 0, memory_order_relaxed);
	atomic_store_explicit(&waiting, 0, memory_order_relaxed);
}

void sp_fork_barrier_start(void)
{
	static _Atomic bool started;

	if (__register_atfork == NULL || atomic_load_explicit(&started, memory_order_relaxed) ||
	    atomic_exchange_explicit(&started, true, memory_order_relaxed))
		return;
	(void)__register_atfork(before_fork, after_fork_in_parent, after_fork_in_child,
				&__dso_handle);
}

/* --- Symbols -------------------------------------------------------------------------------------- */

/* Where the object's dynamic section is, or NULL. */
static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info)
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

bool sp_elf_read_tables(const struct dl_phdr_info *info, struct sp_elf_tables *o)
{
	const ElfW(Dyn) *d = dynamic_of(info);
	uintptr_t base = info->dlpi_addr;

	*o = (struct sp_elf_tables){.base = base};
	for (; d != NULL && d->d_tag != DT_NULL; d++) {
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
		case DT_RELA:
			o->rela = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_RELASZ:
			o->relas = d->d_un.d_val / sizeof(*o->rela);
			break;
		case DT_JMPREL:
			o->jmprel = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			o->jmprels = d->d_un.d_val / sizeof(*o->jmprel);
			break;
		default:
			break;
		}
	}
	return o->sym != NULL && o->str != NULL;
}

/* The symbol that is searched, and the best definition found so far. */
struct search {
	const struct sp_elf_tables *o;
	const char *name;
	bool tls;
	int best;
	const ElfW(Sym) * found;
};

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

/*
 * Considers entry i of the symbol table: does it define the name, in the default or an older
 * (hidden) version?
 */
static void consider(struct search *q, uint32_t i)
{
	const struct sp_elf_tables *o = q->o;
	const ElfW(Sym) *s = &o->sym[i];
	unsigned char type = ELF64_ST_TYPE(s->st_info);
	int version = o->versym != NULL && (o->versym[i] & VERSYM_HIDDEN) ? 1 : 2;
	/* the value of a thread-local variable is its offset, which may be 0 */
	bool is_of_kind = q->tls ? type == STT_TLS
				 : s->st_value != 0 && (type == STT_FUNC || type == STT_OBJECT ||
							type == STT_NOTYPE);

	/* A table of the old form (DT_HASH) also lists symbols that the object only refers to. */
	if (s->st_shndx == SHN_UNDEF)
		return;
	if (version <= q->best || ELF64_ST_BIND(s->st_info) == STB_LOCAL || !is_of_kind ||
	    strcmp(o->str + s->st_name, q->name) != 0)
		return;
	q->best = version;
	q->found = s;
}

static void lookup_gnu(struct search *q)
{
	const struct sp_elf_tables *o = q->o;
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
			consider(q, i);
		if (chain[i - first] & 1U)
			break;
	}
}

static void lookup_sysv(struct search *q)
{
	const struct sp_elf_tables *o = q->o;
	uint32_t nbuckets = o->sysv_hash[0];
	uint32_t nchain = o->sysv_hash[1];
	const uint32_t *bucket = &o->sysv_hash[2];

	if (nbuckets == 0)
		return;
	uint32_t i = bucket[sysv_hash_of(q->name) % nbuckets];

	for (uint32_t n = 0; i != 0 && i < nchain && n < CHAIN_MAX; n++) {
		consider(q, i);
		i = bucket[nbuckets + i];
	}
}

/* The definition of name, the default version first; NULL if there is none. */
static const ElfW(Sym) * find(const struct sp_elf_tables *o, const char *name, bool tls)
{
	struct search q = {.o = o, .name = name, .tls = tls};

	if (o->gnu_hash != NULL)
		lookup_gnu(&q);
	else if (o->sysv_hash != NULL)
		lookup_sysv(&q);
	return q.found;
}

static void *address_in(const struct sp_elf_tables *o, const char *name)
{
	const ElfW(Sym) *s = find(o, name, false);

	return s != NULL ? (void *)(o->base + s->st_value) : NULL;
}

/* The address at which our object is loaded (defined by the linker). */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/*
 * The path as the loader has it. The string lives as long as our object, which is never unloaded.
 */
static const char *own_path = "";

struct query {
	const char *name;
	const char *const *together;
	bool past_ours;
	unsigned max;
	unsigned n;
	void **found;
};

/* Our object is linked at address 0, so its load address is that of its ELF header. */
static bool is_ours(const struct dl_phdr_info *info)
{
	return info->dlpi_addr == (uintptr_t)__ehdr_start;
}

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct query *q = arg;
	struct sp_elf_tables o;

	if (is_ours(info)) {
		q->past_ours = true;
		return 0;
	}
	if (!q->past_ours || !sp_elf_read_tables(info, &o))
		return 0;
	for (const char *const *t = q->together; t != NULL && *t != NULL; t++) {
		if (address_in(&o, *t) == NULL)
			return 0;
	}
	void *found = address_in(&o, q->name);

	if (found == NULL)
		return 0;
	if (q->n < q->max)
		q->found[q->n] = found;
	q->n++;
	return q->together != NULL || q->max == 1;
}

void *sp_elf_find(const char *name, const char *const *together)
{
	void *found = NULL;
	struct query q = {.name = name, .together = together, .max = 1, .found = &found};

	(void)sp_fork_barrier_walk(visit, &q);
	return found;
}

unsigned sp_elf_find_all(const char *name, void **found, unsigned max)
{
	struct query q = {.name = name, .max = max, .found = found};

	(void)sp_fork_barrier_walk(visit, &q);
	return q.n;
}

static int visit_before(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct query *q = arg;
	struct sp_elf_tables o;

	if (!is_ours(info) && sp_elf_read_tables(info, &o))
		q->n += address_in(&o, q->name) != NULL;
	return is_ours(info) || q->n != 0;
}

bool sp_elf_is_before(const char *name)
{
	struct query q = {.name = name};

	(void)sp_fork_barrier_walk(visit_before, &q);
	return q.n != 0;
}

/* --- Which objects there are ---------------------------------------------------------------------- */

/*
 * The number of objects when our constructor ran. Objects that earlier constructors opened are the
 * last of them.
 */
static unsigned startup_objects;
static unsigned own_index;

/*
 * The name may be the SONAME, the path that the object was loaded from, or the last part of that
 * path.
 */
static bool is_named(const struct dl_phdr_info *info, const char *name)
{
	const ElfW(Dyn) *d = dynamic_of(info);
	struct sp_elf_tables o;
	const char *path = info->dlpi_name != NULL ? info->dlpi_name : "";
	const char *slash = strrchr(path, '/');

	if (strcmp(path, name) == 0 || (slash != NULL && strcmp(slash + 1, name) == 0))
		return true;
	if (!sp_elf_read_tables(info, &o))
		return false;
	while (d->d_tag != DT_SONAME && d->d_tag != DT_NULL)
		d++;
	return d->d_tag == DT_SONAME && strcmp(o.str + d->d_un.d_val, name) == 0;
}

struct named {
	const char *name;
	unsigned n;
};

static int visit_named(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct named *q = arg;

	q->n++;
	return is_named(info, q->name);
}

/* The number of the first object of that name, counted from 1; 0 = no object has the name. */
static unsigned number_of(const char *name)
{
	struct named q = {.name = name};

	return sp_fork_barrier_walk(visit_named, &q) != 0 ? q.n : 0;
}

struct start {
	unsigned end;
	unsigned index; /* of the object that the walk visits */
	bool is_whole;
};

static int visit_start_object(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct start *s = arg;
	const ElfW(Dyn) *d = dynamic_of(info);
	struct sp_elf_tables o;
	unsigned needed;

	if (s->index++ == s->end)
		return 1;
	if (!sp_elf_read_tables(info, &o))
		return 0;
	for (; d->d_tag != DT_NULL && s->is_whole; d++) {
		if (d->d_tag != DT_NEEDED)
			continue;
		needed = number_of(o.str + d->d_un.d_val);
		s->is_whole = needed != 0;
		s->end = needed > s->end ? needed : s->end;
	}
	return !s->is_whole;
}

/*
 * How many objects the loader had mapped before any constructor ran. These are never unloaded: the
 * program, the preloaded objects, and behind them the objects that they need. If an object has
 * another name than the name by which it is needed, the answer is the number of objects when our
 * constructor ran. Called only for objects that may have an SDK.
 */
static unsigned objects_of_start(void)
{
	static _Atomic unsigned known;
	unsigned n = atomic_load_explicit(&known, memory_order_relaxed);
	struct start s = {.end = own_index + 1, .is_whole = true};

	if (n != 0 || startup_objects == 0)
		return n;
	(void)sp_fork_barrier_walk(visit_start_object, &s);
	n = s.is_whole && s.end < startup_objects ? s.end : startup_objects;
	atomic_store_explicit(&known, n, memory_order_relaxed);
	return n;
}

struct spot {
	uintptr_t address;
	unsigned index;
	unsigned of_start;
	struct sp_elf_range range;
	const char *name;
	void *found;
	size_t size;
};

struct sp_elf_range sp_elf_range_of(const struct dl_phdr_info *info)
{
	uintptr_t start = UINTPTR_MAX;
	uintptr_t end = 0;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + p->p_memsz > end ? at + p->p_memsz : end;
	}
	return (struct sp_elf_range){.start = start, .size = end > start ? end - start : 0};
}

struct each {
	const struct sp_elf_range *object;
	const char *const *names;
	void **found;
	unsigned n;
	bool past_ours;
};

static bool covers(const struct dl_phdr_info *info, const void *address)
{
	struct sp_elf_range range = sp_elf_range_of(info);

	return sp_elf_within(&range, address);
}

static int visit_each(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct each *e = arg;
	struct sp_elf_tables o;

	if (is_ours(info)) {
		e->past_ours = true;
		return 0;
	}
	if (!e->past_ours || (e->object != NULL && !covers(info, (const void *)e->object->start)) ||
	    !sp_elf_read_tables(info, &o))
		return 0;
	for (unsigned i = 0; i < e->n; i++) {
		if (e->found[i] == NULL)
			e->found[i] = address_in(&o, e->names[i]);
	}
	return 0;
}

void sp_elf_find_each(const struct sp_elf_range *object, const char *const *names, void **found,
		      unsigned n)
{
	struct each e = {.object = object, .names = names, .found = found, .n = n};

	(void)sp_fork_barrier_walk(visit_each, &e);
}

static uint64_t mix(uint64_t print, const void *bytes, size_t n)
{
	/* FNV-1a */
	for (size_t i = 0; i < n; i++)
		print = (print ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return print;
}

static uint64_t print_of(const struct dl_phdr_info *info)
{
	uint64_t print = UINT64_C(0xcbf29ce484222325);
	struct sp_elf_tables o;

	if (info->dlpi_name != NULL)
		print = mix(print, info->dlpi_name, strlen(info->dlpi_name));
	if (!sp_elf_read_tables(info, &o))
		return print;
	/* Linkers put the strings behind the symbols. */
	if ((uintptr_t)o.str > (uintptr_t)o.sym) {
		size_t n = (uintptr_t)o.str - (uintptr_t)o.sym;

		print = mix(print, o.sym, n < PRINTED_MAX ? n : PRINTED_MAX);
	}
	return print;
}

static int visit_spot(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct spot *spot = arg;
	struct sp_elf_range range = sp_elf_range_of(info);
	const ElfW(Sym) * s;
	struct sp_elf_tables o;
	unsigned index = spot->index++;

	if (!sp_elf_within(&range, (const void *)spot->address))
		return 0;
	if (spot->name == NULL) {
		range.permanent = index < spot->of_start;
		range.unloads = info->dlpi_subs;
		range.print = print_of(info);
		spot->range = range;
		return 1;
	}
	if (!sp_elf_read_tables(info, &o))
		return 1;
	s = find(&o, spot->name, false);
	if (s != NULL) {
		spot->found = (void *)(info->dlpi_addr + s->st_value);
		spot->size = s->st_size;
	}
	return 1;
}

struct sp_elf_range sp_elf_object_at(const void *address)
{
	struct spot spot = {.address = (uintptr_t)address, .of_start = objects_of_start()};

	(void)sp_fork_barrier_walk(visit_spot, &spot);
	return spot.range;
}

/* How many objects the loader has loaded and unloaded so far. */
struct counts {
	unsigned long long adds;
	unsigned long long subs;
};

static int visit_counts(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	*(struct counts *)arg = (struct counts){info->dlpi_adds, info->dlpi_subs};
	return 1;
}

unsigned long long sp_elf_adds(void)
{
	struct counts now = {0};

	(void)sp_fork_barrier_walk(visit_counts, &now);
	return now.adds;
}

bool sp_elf_stayed(struct sp_elf_range *object)
{
	struct counts counts = {0};
	struct sp_elf_range now;

	(void)sp_fork_barrier_walk(visit_counts, &counts);
	if (atomic_load_explicit(&object->unloads, memory_order_relaxed) == counts.subs)
		return object->size != 0;
	now = sp_elf_object_at((const void *)object->start);
	if (object->size == 0 || now.size != object->size || now.print != object->print)
		return false;
	atomic_store_explicit(&object->unloads, now.unloads, memory_order_relaxed);
	return true;
}

static int visit_start(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	unsigned index = (*(unsigned *)arg)++;

	if (is_ours(info)) {
		own_index = index;
		if (info->dlpi_name != NULL)
			own_path = info->dlpi_name;
	}
	return 0;
}

const char *sp_elf_own_path(void)
{
	return own_path;
}

struct place {
	const void *address;
	char *path;
	size_t size;
};

static int visit_path(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct place *p = arg;
	const char *path = info->dlpi_name != NULL ? info->dlpi_name : "";
	size_t bytes = strlen(path) + 1;

	if (!covers(info, p->address))
		return 0;
	if (bytes > p->size) {
		path += bytes - p->size;
		bytes = p->size;
	}
	memcpy(p->path, path, bytes);
	return 1;
}

void sp_elf_path_at(const void *address, char *path, size_t size)
{
	struct place p = {.address = address, .path = path, .size = size};

	path[0] = '\0';
	(void)sp_fork_barrier_walk(visit_path, &p);
}

void sp_elf_startup(void)
{
	unsigned n = 0;

	(void)sp_fork_barrier_walk(visit_start, &n);
	startup_objects = n;
}

/* --- Thread-local variables ----------------------------------------------------------------------- */

struct tls_query {
	const char *name;
	unsigned index;
	bool past_ours;
	bool is_defined;
	size_t room; /* bytes at most beside the thread pointer for the objects of the start */
	struct sp_elf_tls *out;
};

/*
 * A C library may put this many bytes between the thread pointer and the storage of the first
 * object.
 */
#define TLS_HEAD 64U

static int visit_tls_room(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct tls_query *q = arg;
	struct sp_elf_tables o;

	for (int i = 0; q->index < startup_objects && i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			q->room += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	}
	q->index++;
	q->is_defined = q->is_defined || (!is_ours(info) && sp_elf_read_tables(info, &o) &&
					  find(&o, q->name, true) != NULL);
	return 0;
}

/*
 * Whether the storage lies beside the thread pointer, at the same distance in every thread. Objects
 * that constructors before ours opened count as objects of the start, but their storage is
 * somewhere else in each thread.
 */
static bool is_beside(const struct dl_phdr_info *info, size_t room)
{
	uintptr_t at = (uintptr_t)info->dlpi_tls_data;
	uintptr_t tp = sp_arch_thread_pointer();

	return (at < tp ? tp - at : at - tp) <= room;
}

/*
 * The storage of an object of the start is at the same distance from the thread pointer in every
 * thread.
 */
static void note_storage(const struct dl_phdr_info *info, struct sp_elf_tls *out)
{
	intptr_t at = (intptr_t)((uintptr_t)info->dlpi_tls_data - sp_arch_thread_pointer());

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		intptr_t end = at + (intptr_t)p->p_memsz;

		if (p->p_type != PT_TLS)
			continue;
		if (out->begin == out->end)
			out->begin = out->end = at;
		out->begin = at < out->begin ? at : out->begin;
		out->end = end > out->end ? end : out->end;
	}
}

static void note_definition(const struct dl_phdr_info *info, const ElfW(Sym) * s, bool is_static,
			    struct sp_elf_tls *out)
{
	uintptr_t at = (uintptr_t)info->dlpi_tls_data + s->st_value;

	out->n++;
	if (is_static && out->listed < SP_ELF_TLS_MAX && s->st_size == sizeof(void *))
		out->at[out->listed++] = (intptr_t)(at - sp_arch_thread_pointer());
}

static int visit_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct tls_query *q = arg;
	struct sp_elf_tables o;
	/* glibc passes dlpi_tls_data since 2.4; other C libraries may not. */
	bool is_static = size >= offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof(void *) &&
			 info->dlpi_tls_data != NULL && q->index < startup_objects &&
			 is_beside(info, q->room);
	const ElfW(Sym) * s;

	q->index++;
	if (is_static)
		note_storage(info, q->out);
	if (is_ours(info)) {
		q->past_ours = true;
		return 0;
	}
	if (!sp_elf_read_tables(info, &o))
		return 0;
	s = find(&o, q->name, true);
	if (s == NULL)
		return 0;
	note_definition(info, s, is_static, q->out);
	q->out->before_ours |= !q->past_ours;
	return 0;
}

void sp_elf_find_tls(const char *name, struct sp_elf_tls *out)
{
	struct tls_query q = {.name = name, .room = TLS_HEAD, .out = out};

	memset(out, 0, sizeof(*out));
	(void)sp_fork_barrier_walk(visit_tls_room, &q);
	q.index = 0;
	if (q.is_defined)
		(void)sp_fork_barrier_walk(visit_tls, &q);
}

void *sp_elf_variable_in(const struct sp_elf_range *object, const char *name, size_t *size)
{
	struct spot spot = {.address = object->start, .name = name};

	if (object->size != 0)
		(void)sp_fork_barrier_walk(visit_spot, &spot);
	*size = spot.size;
	return spot.found;
}

void *sp_elf_find_in(const struct sp_elf_range *object, const char *name)
{
	size_t size;

	return sp_elf_variable_in(object, name, &size);
}

void *sp_elf_find_at(const void *header, const char *name)
{
	const ElfW(Ehdr) *e = header;
	const void *segments = (const char *)header + e->e_phoff;
	struct dl_phdr_info info = {
		.dlpi_addr = (ElfW(Addr))header, .dlpi_phdr = segments, .dlpi_phnum = e->e_phnum};
	struct sp_elf_range mapped = sp_elf_range_of(&info);
	struct sp_elf_tables o;

	/* The segments are mapped one behind the other, the header at their start. */
	info.dlpi_addr -= mapped.start - info.dlpi_addr;
	return mapped.size != 0 && sp_elf_read_tables(&info, &o) ? address_in(&o, name) : NULL;
}

bool sp_elf_belongs(const char *name, const void *address, const char *const *together)
{
	struct sp_elf_range object = sp_elf_object_at(address);

	if (address == NULL || sp_elf_find_in(&object, name) != address)
		return false;
	for (; *together != NULL; together++) {
		if (sp_elf_find_in(&object, *together) == NULL)
			return false;
	}
	return true;
}

/* --- Which object needs which --------------------------------------------------------------------- */

/* The search ignores objects with a higher number. */
#define OBJECTS_MAX 1024U

enum { NOT_REACHED, REACHED, FOLLOWED };

struct needs {
	uint8_t state[OBJECTS_MAX];
	const void *from;
	const struct sp_elf_range *wanted;
	unsigned index; /* of the object that the walk visits */
	bool grown;
	bool found;
};

static int visit_needing(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct needs *s = arg;
	unsigned index = s->index++;
	const ElfW(Dyn) *d = dynamic_of(info);
	struct sp_elf_tables o;

	if (index >= OBJECTS_MAX || s->found)
		return 1;
	if (s->state[index] == FOLLOWED ||
	    (s->state[index] == NOT_REACHED && !covers(info, s->from)))
		return 0;
	s->state[index] = FOLLOWED;
	s->found |= covers(info, (const void *)s->wanted->start);
	if (!sp_elf_read_tables(info, &o))
		return 0;
	for (; d->d_tag != DT_NULL && !s->found; d++) {
		unsigned needed = d->d_tag == DT_NEEDED ? number_of(o.str + d->d_un.d_val) : 0;

		if (needed == 0 || needed > OBJECTS_MAX || s->state[needed - 1] != NOT_REACHED)
			continue;
		s->state[needed - 1] = REACHED;
		s->grown = true;
	}
	return 0;
}

bool sp_elf_needs(const void *address, const struct sp_elf_range *other)
{
	struct needs s = {.from = address, .wanted = other};

	/* Each round except the last reaches another object. */
	do {
		s.grown = false;
		s.index = 0;
		(void)sp_fork_barrier_walk(visit_needing, &s);
	} while (s.grown && !s.found);
	return s.found;
}

/* --- The segments of an object, and words in them ------------------------------------------------- */

#define WORD sizeof(uintptr_t)

const struct sp_elf_segment *sp_elf_image_segment(const struct sp_elf_image *image,
						  uintptr_t address, uintptr_t size)
{
	for (unsigned i = 0; i < image->n; i++) {
		const struct sp_elf_segment *g = &image->segment[i];

		if (address - g->start < g->size && g->size - (address - g->start) >= size)
			return g;
	}
	return NULL;
}

bool sp_elf_image_readable(uintptr_t from, uintptr_t size)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t page = from & ~(page_size - 1);

	if (size > UINTPTR_MAX - from)
		return false;
	for (; page < from + size; page += page_size) {
		if (!sp_readable(page))
			return false;
	}
	return true;
}

bool sp_elf_image_word(const struct sp_elf_image *image, uintptr_t address, uintptr_t *word)
{
	if (address % WORD != 0 || sp_elf_image_segment(image, address, WORD) == NULL ||
	    !sp_readable(address))
		return false;
	memcpy(word, (const void *)address, WORD);
	return true;
}

static void add_segment(struct sp_elf_image *image, const struct dl_phdr_info *info,
			const ElfW(Phdr) * p)
{
	bool relro = p->p_type == PT_GNU_RELRO;

	if (image->n < SP_ELF_SEGMENTS_MAX)
		image->segment[image->n] = (struct sp_elf_segment){
			.start = info->dlpi_addr + p->p_vaddr,
			.size = p->p_memsz,
			.from_file = p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz,
			.writable = relro || (p->p_flags & PF_W) != 0,
			.executable = !relro && (p->p_flags & PF_X) != 0,
			.relro = relro,
		};
	image->n++;
}

struct image_query {
	uintptr_t address;
	struct sp_elf_image *image;
};

static int visit_image(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct image_query *q = arg;
	bool here = false;

	q->image->n = 0;
	q->image->fixed = info->dlpi_addr == 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && q->address - info->dlpi_addr - p->p_vaddr < p->p_memsz)
			here = true;
		if ((p->p_type == PT_LOAD || p->p_type == PT_GNU_RELRO) && (p->p_flags & PF_R) != 0)
			add_segment(q->image, info, p);
	}
	return here;
}

bool sp_elf_image_at(const void *address, struct sp_elf_image *image)
{
	struct image_query q = {.address = (uintptr_t)address, .image = image};

	return sp_fork_barrier_walk(visit_image, &q) != 0 && image->n <= SP_ELF_SEGMENTS_MAX;
}

unsigned sp_elf_image_references(const struct sp_elf_image *image, const void *address,
				 const void *const *place[], unsigned max)
{
	uintptr_t bytes_left = SP_ELF_IMAGE_SEARCH_MAX;
	unsigned n = 0;

	for (unsigned i = 0; i < image->n; i++) {
		const struct sp_elf_segment *g = &image->segment[i];
		uintptr_t at = (g->start + WORD - 1) & ~(WORD - 1);

		if (!g->writable || g->relro || g->executable)
			continue;
		if (g->size > bytes_left || !sp_elf_image_readable(g->start, g->size))
			return 0;
		bytes_left -= g->size;
		for (; at + WORD <= g->start + g->size && n < max; at += WORD) {
			const void *const *word = (const void *const *)at;

			if (__atomic_load_n(word, __ATOMIC_RELAXED) == address)
				place[n++] = word;
		}
	}
	return n;
}

static int visit_own(struct dl_phdr_info *info, size_t size SP_UNUSED, void *tables)
{
	return is_ours(info) && sp_elf_read_tables(info, tables);
}

/* The loader treats a symbol with the value 0 as undefined. The tables are in read-only pages. */
void sp_elf_undefine(const char *const *names, void *const *found, unsigned n)
{
	struct sp_elf_tables o = {.sym = NULL};
	struct sp_elf_image image;
	const struct sp_elf_segment *g = NULL;
	int saved = errno;

	if (sp_fork_barrier_walk(visit_own, &o) != 0 && sp_elf_image_at(o.sym, &image))
		g = sp_elf_image_segment(&image, (uintptr_t)o.sym, sizeof(*o.sym));
	if (g != NULL && !g->executable &&
	    sp_syscall(SYS_mprotect, g->start, g->size, PROT_READ | PROT_WRITE) == 0) {
		for (unsigned i = 0; i < n; i++) {
			const ElfW(Sym) *s = found[i] == NULL ? find(&o, names[i], false) : NULL;

			if (s != NULL)
				*(ElfW(Addr) *)(uintptr_t)&s->st_value = 0;
		}
		(void)sp_syscall(SYS_mprotect, g->start, g->size, PROT_READ);
	}
	errno = saved;
}
