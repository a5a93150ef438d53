/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands out, enrols and frees thread blocks. A thread that is created by pthread_create() gets its
 * block from its creator. Any other thread is enrolled by its first hooked call, by its first
 * sample or by the scan of /proc. Its block is freed when it ends, or by the scan if it ended
 * without a hook.
 *
 * So two threads may try to enrol or free the same thread at once, and the kernel may reuse a
 * thread id. The entry for the id in the map decides, by one compare-and-swap: the loser gives its
 * own block back. Lock-free, because a hooked call must never wait for another thread. Contexts:
 * APP (the thread itself, or another one that enrols or frees it). thread.h says who may do what.
 *
 * The scan of /proc/self/task uses raw system calls instead of opendir(), which would allocate in
 * the middle of a call of the host. The scan takes about 5 us for a thread without a timer and
 * hardly less for a thread with one, because the kernel makes an entry of /proc for each; a thread
 * of the host waits meanwhile. So a call continues where the last call ended, and reads a limited
 * number of threads or blocks.
 */
#include "sampler/thread/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/arena.h"
#include "sampler/base/counters.h"
#include "sampler/base/cpu_clock.h"
#include "sampler/base/process.h"
#include "sampler/base/random.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/region/region.h"
#include "sampler/region/thread_labels.h"
#include "sampler/thread/signals.h"

#define TABLE (&sp_thread_table)

static uint32_t own_tid(void)
{
	return (uint32_t)sp_syscall(SYS_gettid);
}

/* Makes sure that the slab of that index is mapped. The loser of a race uses the winner's slab. */
static bool has_slab(uint32_t index)
{
	char *_Atomic *at = &TABLE->slab[index / SP_THREAD_SLAB];
	const size_t size = (size_t)SP_THREAD_SLAB * SP_THREAD_STRIDE;
	char *none = NULL;
	char *made;

	if (atomic_load_explicit(at, memory_order_acquire) != NULL)
		return true;
	made = sp_arena_map(size);
	if (made != NULL && !atomic_compare_exchange_strong_explicit(
				    at, &none, made, memory_order_acq_rel, memory_order_acquire))
		sp_arena_unmap(made, size);
	return made != NULL || none != NULL;
}

#define LEAF_BYTES (SP_TID_LEAF * sizeof(uint16_t))

_Atomic uint16_t *sp_thread_by_tid(uint32_t tid)
{
	_Atomic uint16_t *_Atomic *at = &TABLE->leaf[tid / SP_TID_LEAF % SP_TID_LEAVES];
	_Atomic uint16_t *leaf = atomic_load_explicit(at, memory_order_acquire);
	_Atomic uint16_t *made;

	if (tid == 0 || tid >= SP_TID_MAX)
		return NULL;
	if (leaf != NULL)
		return &leaf[tid % SP_TID_LEAF];
	made = sp_arena_map(LEAF_BYTES);
	if (made == NULL)
		return NULL;
	if (atomic_compare_exchange_strong_explicit(at, &leaf, made, memory_order_acq_rel,
						    memory_order_acquire))
		leaf = made;
	else
		sp_arena_unmap((void *)(uintptr_t)made, LEAF_BYTES);
	return &leaf[tid % SP_TID_LEAF];
}

int sp_thread_init(void)
{
	int saved = errno;

	if (TABLE->ready)
		return 0;
	if (!has_slab(0))
		return -ENOMEM;
	sp_process_set();
	TABLE->limit = SP_THREADS_MAX;
	sp_thread_limit_init();
	TABLE->ready = true;
	errno = saved;
	return 0;
}

static struct sp_thread *pop_free(void)
{
	/* pairs with push_free() */
	uint64_t top = atomic_load_explicit(&TABLE->free, memory_order_acquire);

	for (int i = 0; i < 1000 && (uint32_t)top != 0; i++) {
		struct sp_thread *t = sp_thread_at((uint32_t)top - 1);
		uint32_t below = atomic_load_explicit(&t->next_free, memory_order_relaxed);
		uint64_t next = ((top >> 32) + 1) << 32 | below;

		if (atomic_compare_exchange_weak_explicit(
			    &TABLE->free, &top, next, memory_order_acq_rel, memory_order_acquire))
			return t;
	}
	return NULL;
}

static void push_free(struct sp_thread *t)
{
	uint64_t top = atomic_load_explicit(&TABLE->free, memory_order_relaxed);
	uint64_t next;

	do {
		atomic_store_explicit(&t->next_free, (uint32_t)top, memory_order_relaxed);
		next = ((top >> 32) + 1) << 32 | (t->index + 1);
	} while (!atomic_compare_exchange_weak_explicit(
		&TABLE->free, &top, next, memory_order_acq_rel, memory_order_relaxed));
}

static void clean(struct sp_thread *t)
{
	/* The scan may have started a timer for the block after its last thread gave it back. */
	sp_thread_disarm(t);
	sp_span_stack_clear(&t->spans);
	t->bounds = (struct sp_stack_bounds){0, 0};
	t->allocation_bounds = (struct sp_stack_bounds){0, 0};
	t->allocated_levels = 0;
	t->in_handler = false;
	atomic_store_explicit(&t->is_taken, false, memory_order_relaxed);
	t->spare.n = 0;
	t->part.root_id = 0;
	sp_thread_context_clean(&t->context);
	atomic_store_explicit(&t->unarmed, SP_UNARMED_NOT, memory_order_relaxed);
	atomic_store_explicit(&t->alternate_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&t->alternate_at, 0, memory_order_relaxed);
	atomic_store_explicit(&t->stack_bytes, 0, memory_order_relaxed);
	t->start = NULL;
	t->start_arg = NULL;
}

struct sp_thread *sp_thread_claim(void)
{
	struct sp_thread *t;

	/*
	 * Threads of a child that shares the process's memory (vfork) are not ours: their samples
	 * would count as this process's.
	 */
	if (!TABLE->ready || !sp_process_is_ours())
		return NULL;
	t = pop_free();
	if (t == NULL) {
		uint32_t i = atomic_load_explicit(&TABLE->used, memory_order_relaxed);

		do {
			if (i >= TABLE->limit || !has_slab(i)) {
				sp_count(SP_COUNT_THREADS_NO_BLOCK);
				return NULL;
			}
		} while (!atomic_compare_exchange_weak_explicit(
			&TABLE->used, &i, i + 1, memory_order_acq_rel, memory_order_relaxed));
		sp_span_table_threads(i + 1);
		t = sp_thread_at(i);
		t->index = i;
	}
	clean(t);
	return t;
}

void sp_thread_unclaim(struct sp_thread *t)
{
	atomic_store_explicit(&t->tid, 0, memory_order_relaxed);
	push_free(t);
}

/*
 * Writes the numbers of threads into the region, at once after each change: if the exporter sees
 * more threads in the kernel than here, it asks for a scan, which costs a server with thousands of
 * threads a tenth of a second in all.
 */
static void publish_numbers(void)
{
	struct sp_region *r = sp_region_now();

	atomic_store_explicit(&r->threads_known, sp_thread_known(), memory_order_relaxed);
	atomic_store_explicit(&r->threads_armed, sp_thread_armed(), memory_order_relaxed);
}

void sp_thread_account_begin_at(struct sp_thread *t, uint64_t cpu_ns)
{
	atomic_store_explicit(&t->account.since_ns, cpu_ns, memory_order_relaxed);
	atomic_store_explicit(&t->account.settled_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&t->account.told_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&t->account.outside,
			      atomic_load_explicit(&t->unarmed, memory_order_relaxed) !=
				      SP_UNARMED_NOT,
			      memory_order_relaxed);
	sp_span_stack_count_roots(&t->spans);
}

void sp_thread_account_begin(struct sp_thread *t, uint32_t tid)
{
	uint64_t now = 0;

	(void)sp_cpu_clock_ns(SP_THREAD_CPU_CLOCK(tid), &now);
	sp_thread_account_begin_at(t, now);
	t->root_cpu = (struct sp_thread_root_cpu){.random = sp_random_scramble(now << 32 | tid)};
}

/*
 * Binds a claimed block to a thread id; the loser of the race gets the winner's block. NULL =
 * impossible.
 */
static struct sp_thread *bind(struct sp_thread *t, uint32_t tid)
{
	_Atomic uint16_t *slot = sp_thread_by_tid(tid);
	uint16_t none = 0;

	/* Without memory for the map no look-up would find the block. */
	if (slot == NULL) {
		sp_thread_unclaim(t);
		sp_count(SP_COUNT_THREADS_NO_BLOCK);
		return NULL;
	}
	/* while only this thread has the block */
	sp_thread_account_begin(t, tid);
	/* pairs with sp_thread_free_ended(): the index is stored before the id */
	atomic_store_explicit(&t->tid, tid, memory_order_release);
	if (atomic_compare_exchange_strong_explicit(slot, &none, (uint16_t)(t->index + 1),
						    memory_order_acq_rel, memory_order_acquire)) {
		atomic_fetch_add_explicit(&TABLE->known, 1, memory_order_relaxed);
		sp_thread_arm(t, tid);
		publish_numbers();
		return t;
	}
	sp_thread_unclaim(t);
	return sp_thread_at(none - 1U);
}

/* The map's entry for thread tid; NULL if the thread cannot have a block. */
static _Atomic uint16_t *slot_of(uint32_t tid)
{
	return TABLE->ready ? sp_thread_by_tid(tid) : NULL;
}

static struct sp_thread *block_in(const _Atomic uint16_t *slot)
{
	uint16_t have = slot != NULL ? atomic_load_explicit(slot, memory_order_acquire) : 0;

	return have != 0 ? sp_thread_at(have - 1U) : NULL;
}

/*
 * Threads with small stacks from before sampling began. They are few: hardly any program asks for
 * less than 32 KiB. A thread that ends by pthread_exit() stays in the list until its entry is
 * needed. If another thread gets the same id meanwhile, and only the scan finds it, that thread has
 * no timer. Once there were too many such threads, no thread that only the scan finds has a timer.
 */
#define SMALL_MAX 256U
static struct sp_small_thread small[SMALL_MAX];
static _Atomic bool too_many;
static _Atomic bool made_small;

bool sp_small_thread_made(void)
{
	return atomic_load_explicit(&made_small, memory_order_relaxed);
}

/* The stack size of the calling thread, whose id changes at a fork. */
static SP_TLS uint32_t own_stack_bytes;

/*
 * Stands for the id of a thread that has not begun. No thread has this id, and the kernel never
 * answers that a thread with this id is gone.
 */
#define SMALL_UNBORN UINT32_MAX

static bool take_small(struct sp_small_thread *s, bool also_of_gone)
{
	uint32_t tid = atomic_load_explicit(&s->tid, memory_order_acquire);

	if (tid != 0 && (!also_of_gone || !sp_process_thread_is_gone(tid)))
		return false;
	return atomic_compare_exchange_strong_explicit(&s->tid, &tid, SMALL_UNBORN,
						       memory_order_acq_rel, memory_order_relaxed);
}

struct sp_small_thread *sp_small_thread_make(uint32_t stack_bytes)
{
	if (stack_bytes == 0 || stack_bytes >= SP_THREAD_STACK_LEAST || sp_seccomp_is_on() ||
	    atomic_load_explicit(&too_many, memory_order_relaxed))
		return NULL;
	for (unsigned i = 0; i < 2 * SMALL_MAX; i++) {
		struct sp_small_thread *s = &small[i % SMALL_MAX];

		if (take_small(s, i >= SMALL_MAX)) {
			atomic_store_explicit(&made_small, true, memory_order_relaxed);
			atomic_store_explicit(&s->stack_bytes, stack_bytes, memory_order_relaxed);
			return s;
		}
	}
	atomic_store_explicit(&too_many, true, memory_order_seq_cst);
	return NULL;
}

static void note_stack(struct sp_thread *t, uint32_t bytes)
{
	if (bytes != 0)
		atomic_store_explicit(&t->stack_bytes, bytes, memory_order_seq_cst);
}

/*
 * The thread may have a timer already. The next scan that would start one stores the reason why it
 * must not.
 */
static void found_small(struct sp_thread *t, uint32_t bytes)
{
	note_stack(t, bytes);
	sp_thread_disarm(t);
}

/* The stack size of a thread that another one finds; 0 = not known to be small. */
static uint32_t small_stack(uint32_t tid)
{
	for (unsigned i = 0; i < SMALL_MAX; i++) {
		if (atomic_load_explicit(&small[i].tid, memory_order_seq_cst) == tid)
			return atomic_load_explicit(&small[i].stack_bytes, memory_order_relaxed);
	}
	return atomic_load_explicit(&too_many, memory_order_relaxed) ? SP_THREAD_STACK_LEAST - 1
								     : 0;
}

void sp_small_thread_born(struct sp_small_thread *s)
{
	uint32_t tid;
	struct sp_thread *t;

	own_stack_bytes = atomic_load_explicit(&s->stack_bytes, memory_order_relaxed);
	if (sp_seccomp_is_on())
		return;
	tid = own_tid();
	atomic_store_explicit(&s->tid, tid, memory_order_seq_cst);
	/* Pairs with sp_thread_enrol(): either it finds us in the list, or we see its block. */
	t = block_in(slot_of(tid));
	if (t != NULL)
		found_small(t, own_stack_bytes);
}

void sp_small_thread_ended(struct sp_small_thread *s)
{
	atomic_store_explicit(&s->tid, 0, memory_order_release);
}

struct sp_thread *sp_thread_self(void)
{
	struct sp_alternate_stack alternate;
	struct sp_thread *t;
	uint32_t tid;

	if (sp_thread_own != NULL || sp_thread_excluded)
		return sp_thread_own;
	/*
	 * The block that the map has for this id is not used: it may belong to a thread with the
	 * same id that ended unseen.
	 */
	tid = own_tid();
	t = sp_thread_has_storage(tid) ? sp_thread_claim() : NULL;
	if (t == NULL)
		return NULL;
	if (!sp_signals_has_just_looked(tid))
		sp_signals_check(false);
	alternate = sp_alternate_stack_own();
	sp_alternate_stack_store(t, &alternate);
	note_stack(t, own_stack_bytes);
	sp_thread_born(t);
	return sp_thread_own;
}

/* The counters are in the region, which a child of a raw clone() shares with the process. */
void sp_thread_count_missing(void)
{
	if (sp_process_is_ours())
		sp_count(SP_COUNT_SPAN_NO_THREAD);
}

/*
 * Frees the block of thread tid. The thread that removes the entry from the map may free the block:
 * the thread itself and the scan may both try, and the block may already belong to another thread.
 */
static void release(struct sp_thread *t, uint32_t tid)
{
	_Atomic uint16_t *slot = sp_thread_by_tid(tid);
	uint16_t mine = (uint16_t)(t->index + 1);

	if (slot == NULL || !atomic_compare_exchange_strong_explicit(
				    slot, &mine, 0, memory_order_seq_cst, memory_order_relaxed))
		return;
	atomic_fetch_sub_explicit(&TABLE->known, 1, memory_order_relaxed);
	sp_thread_disarm(t);
	sp_thread_labels_end(t->index);
	sp_span_table_thread_ended(&t->spare);
	sp_thread_unclaim(t);
	publish_numbers();
}

void sp_thread_born(struct sp_thread *t)
{
	uint32_t tid = own_tid();
	struct sp_thread *old = block_in(slot_of(tid));

	/*
	 * If the map has a block, either a scan has enrolled this thread already, or the kernel
	 * gave us the id of a thread that ended without a hook. In both cases the old block is
	 * freed, and ours, with a new timer and an empty stack, takes its place. Meanwhile our
	 * handler must not take the old block over.
	 */
	sp_thread_excluded = true;
	atomic_signal_fence(memory_order_seq_cst);
	if (old != NULL)
		release(old, tid);
	sp_thread_has(t);
	sp_thread_has(bind(t, tid));
	atomic_signal_fence(memory_order_seq_cst);
	sp_thread_excluded = false;
}

struct sp_thread *sp_thread_unbind(void)
{
	struct sp_thread *t = sp_thread_own;

	sp_thread_excluded = true;
	sp_thread_has(NULL);
	/* Our handler may still run once. It must see "excluded" before the block is reused. */
	atomic_signal_fence(memory_order_seq_cst);
	if (t != NULL)
		sp_thread_context_ended(&t->context);
	return t;
}

void sp_thread_release(struct sp_thread *t)
{
	/*
	 * Below a seccomp filter the timer cannot be deleted, so its block is never given to
	 * another thread.
	 */
	if (sp_seccomp_is_on())
		sp_span_table_thread_ended(&t->spare);
	else
		release(t, atomic_load_explicit(&t->tid, memory_order_relaxed));
}

static void enrol_new(uint32_t tid)
{
	struct sp_thread *t = sp_thread_claim();
	uint32_t bytes;

	if (t == NULL)
		return;
	note_stack(t, small_stack(tid));
	t = bind(t, tid);
	/* The thread may have begun meanwhile: sp_small_thread_born(). */
	bytes = small_stack(tid);
	if (t != NULL && bytes != 0)
		found_small(t, bytes);
}

bool sp_thread_enrol(uint32_t tid)
{
	struct sp_thread *t = block_in(slot_of(tid));

	if (t == NULL) {
		enrol_new(tid);
		return true;
	}
	if (atomic_load_explicit(&t->timer, memory_order_relaxed) != SP_THREAD_TIMER_NONE ||
	    !sp_thread_may_arm())
		return false;
	sp_thread_arm(t, tid);
	return true;
}

void sp_thread_unpublish(void)
{
	uint32_t n = atomic_load_explicit(&TABLE->used, memory_order_acquire);

	if (!sp_thread_context_stop())
		return;
	for (uint32_t i = 0; i < n; i++)
		sp_thread_context_invalidate(&sp_thread_at(i)->context);
}

/* linux/dirent.h: struct linux_dirent64 up to its name. */
struct dirent64_head {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static uint32_t parse_tid(const char *s)
{
	uint64_t n;

	return sp_text_number(&s, 10, &n) && *s == '\0' && n <= SP_TID_MAX ? (uint32_t)n : 0;
}

/* After pthread_exit() the thread group leader stays in the list as a zombie. */
static bool is_zombie(int dir, const char *tid)
{
	char path[32];
	char text[128];
	char state;
	long got;
	int fd;

	(void)sp_fmt_snprintf(path, sizeof(path), "%s/stat", tid);
	fd = (int)sp_syscall(SYS_openat, dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = sp_syscall(SYS_read, fd, text, sizeof(text) - 1);
	(void)sp_syscall(SYS_close, fd);
	text[got > 0 ? got : 0] = '\0';
	(void)sp_proc_stat(text, SP_STAT_START, &state);
	return state == 'Z' || state == 'X';
}

/* Where the scan continues. */
static struct {
	uint32_t pid;
	int64_t at;     /* offset for lseek(2); 0 = at the beginning */
	uint32_t block; /* after the end of /proc: the next block to check; 0 = none */
} rest;

bool sp_thread_free_ended(void)
{
	uint32_t n = atomic_load_explicit(&TABLE->used, memory_order_acquire);
	uint32_t i = rest.block;
	uint32_t end = n - i < SP_THREAD_ASK_MAX || i > n ? n : i + SP_THREAD_ASK_MAX;

	rest.block = end < n ? end : 0;
	for (; i < end; i++) {
		struct sp_thread *t = sp_thread_at(i);
		uint32_t tid = atomic_load_explicit(&t->tid, memory_order_acquire);

		if (tid != 0 && sp_process_thread_is_gone(tid))
			release(t, tid);
	}
	return rest.block == 0;
}

struct scan {
	int dir;
	uint32_t self;
	uint32_t leader;
	uint32_t seen; /* entries */
};

static void visit(struct scan *s, const char *name)
{
	uint32_t tid = parse_tid(name);

	if (tid == 0 || tid == s->self || (tid == s->leader && is_zombie(s->dir, name)))
		return;
	(void)sp_thread_enrol(tid);
}

/*
 * False if more threads are to be visited. If threads end meanwhile, others move up in the list and
 * may be missed; the exporter sees that these have no timer, and asks for another scan.
 */
static bool visit_all(struct scan *s)
{
	union {
		struct dirent64_head align;
		char bytes[SP_THREAD_SCAN_BYTES];
	} buf;
	long got;

	if (rest.at != 0)
		(void)sp_syscall(SYS_lseek, s->dir, rest.at, SEEK_SET);
	while ((got = sp_syscall(SYS_getdents64, s->dir, buf.bytes, sizeof(buf.bytes))) > 0) {
		for (long at = 0; at < got;) {
			const struct dirent64_head *d = (const void *)(buf.bytes + at);

			if (s->seen++ == SP_THREAD_SCAN_MAX)
				return false;
			visit(s, d->name);
			rest.at = d->off;
			at += d->reclen;
		}
	}
	return true;
}

/*
 * Whether /proc has the numbers of our pid namespace. A process in a new namespace without a /proc
 * of its own sees the numbers of other processes.
 */
static bool numbers_are_ours(void)
{
	char text[16];
	ssize_t len = sp_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", text, sizeof(text) - 1);

	if (len <= 0)
		return false;
	text[len] = '\0';
	return parse_tid(text) == (uint32_t)sp_syscall(SYS_getpid);
}

bool sp_thread_scan(void)
{
	struct scan s = {
		.self = (uint32_t)sp_syscall(SYS_gettid),
		.leader = (uint32_t)sp_syscall(SYS_getpid),
	};

	if (rest.pid != s.leader)
		rest.at = rest.block = 0;
	rest.pid = s.leader;
	if (rest.block != 0)
		return sp_thread_free_ended();
	if (rest.at == 0)
		sp_timer_limit_read();
	if (!numbers_are_ours())
		return true;
	s.dir = (int)sp_syscall(SYS_openat, AT_FDCWD, "/proc/self/task",
				O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s.dir < 0)
		return true;
	if (visit_all(&s))
		rest.at = 0;
	(void)sp_syscall(SYS_close, s.dir);
	return rest.at == 0 && sp_thread_free_ended();
}

/* Clears the blocks from number n on, as if they had never been handed out. */
static void forget_from(uint32_t n)
{
	uint32_t used = atomic_load_explicit(&TABLE->used, memory_order_relaxed);

	for (uint32_t end, i = n; i < used; i = end) {
		end = i / SP_THREAD_SLAB * SP_THREAD_SLAB + SP_THREAD_SLAB;
		if (end > used)
			end = used;
		/*
		 * Another thread of the parent may have taken one of them without having written
		 * its index.
		 */
		sp_arena_wipe(sp_thread_at(i), (size_t)(end - i) * SP_THREAD_STRIDE);
	}
	atomic_store_explicit(&TABLE->used, n, memory_order_relaxed);
	atomic_store_explicit(&TABLE->free, 0, memory_order_relaxed);
}

/*
 * Moves the only thread to the first block. If it stayed in another block, the child would have to
 * write all blocks below for the stack of free blocks. In a server with thousands of threads that
 * would cost the child thousands of pages, and most children execute another program at once.
 */
static struct sp_thread *move_to_first(struct sp_thread *own)
{
	struct sp_thread *first = sp_thread_at(0);

	if (first == NULL || own == first)
		return own;
	memcpy((void *)first, own, sizeof(*first));
	first->index = 0;
	sp_thread_has(first);
	return first;
}

uint32_t sp_thread_forked(void)
{
	struct sp_thread *own = sp_thread_own;
	uint32_t had = own != NULL ? own->index : UINT32_MAX;
	_Atomic uint16_t *slot;
	uint32_t tid;

	if (!TABLE->ready)
		return had;
	sp_thread_context_forked(own != NULL ? &own->context : NULL);
	/*
	 * Timers are not inherited, and the parent's thread ids will soon belong to other threads,
	 * so all entries are cleared.
	 */
	for (unsigned i = 0; i < SP_TID_LEAVES; i++)
		sp_arena_wipe((void *)(uintptr_t)atomic_load_explicit(&TABLE->leaf[i],
								      memory_order_relaxed),
			      LEAF_BYTES);
	atomic_store_explicit(&TABLE->armed, 0, memory_order_relaxed);
	atomic_store_explicit(&TABLE->known, 0, memory_order_relaxed);
	sp_thread_limit_init();
	if (own != NULL)
		own = move_to_first(own);
	forget_from(own != NULL ? 1 : 0);
	if (own == NULL)
		return had;
	atomic_store_explicit(&own->timer, SP_THREAD_TIMER_NONE, memory_order_relaxed);
	tid = own_tid();
	own->in_handler = false;
	own->part.root_id = 0;
	atomic_store_explicit(&own->tid, tid, memory_order_relaxed);
	slot = sp_thread_by_tid(tid);
	if (slot != NULL)
		atomic_store_explicit(slot, (uint16_t)(own->index + 1), memory_order_relaxed);
	atomic_store_explicit(&TABLE->known, 1, memory_order_relaxed);
	return had;
}
