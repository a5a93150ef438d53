/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the owner of a lock from the memory of the host (lock_owner.h).
 *
 * A thread that waits for a lock waits in the system call futex, whose first argument is the address of a word. In
 * the locks of glibc the holder's thread id is beside that word: a thread writes its id after it has taken the lock,
 * and clears the id before it releases the lock. So the thread with that id holds the lock at that moment. But the
 * word need not belong to a lock: condition variables, semaphores and the locks of other languages wait in the same
 * system call. So the code compares everything that glibc has there: the value that the thread waits for, the
 * alignment, the kind of the lock, whether processes share it, and how often it is held. If one of these differs, the
 * answer is 0.
 *
 * With priority inheritance the word itself is the owner's thread id, and the kernel finds the thread by it; the same
 * is true of a robust lock.
 *
 * Layouts: pthread_mutex_t as it is since glibc 2.4, pthread_rwlock_t since 2.25, on x86-64 and aarch64. The readers
 * of a read-write lock are not known. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/off_cpu/lock_owner.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include "sampler/base/arch_sig.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

#define PAGE UINT64_C(4096)

/* The fields of pthread_mutex_t that are used here. */
struct mutex {
	/* the word: 1 = held, 2 = held and perhaps waited for; or the owner's thread id with flags */
	uint32_t lock;
	uint32_t count; /* how often a recursive lock is held */
	uint32_t owner;
	/* 1 for the holder, and 1 for each thread that waits for a condition with this lock */
	uint32_t users;
	uint32_t kind;
};

#define MUTEX_RECURSIVE 1U
#define MUTEX_TYPES 3U
#define MUTEX_ROBUST 16U
#define MUTEX_PROTECTS 64U
#define MUTEX_SHARED 128U
#define MUTEX_ELISION (256U | 512U)
/* A lock with a priority ceiling (PTHREAD_PRIO_PROTECT) has the ceiling in its word. */
#define MUTEX_CEILING UINT32_C(0xfff80000)

/* pthread_rwlock_t; its threads wait for one of two words. */
struct rwlock {
	uint32_t readers;
	uint32_t writers;
	uint32_t writes;       /* word: readers wait for it */
	uint32_t writers_word; /* word: writers wait for it */
	uint32_t unused[2];
	uint32_t writer; /* the thread that writes */
	uint32_t shared;
};

#define RWLOCK_WAITED_FOR 2U
#define RWLOCK_HELD_AND_WAITED_FOR 3U

static uint32_t operation(const struct sp_task_place *p)
{
	return (uint32_t)p->arg[1] & (uint32_t)FUTEX_CMD_MASK;
}

static bool is_private(const struct sp_task_place *p)
{
	return (p->arg[1] & FUTEX_PRIVATE_FLAG) != 0;
}

static bool waits(const struct sp_task_place *p)
{
	return operation(p) == FUTEX_WAIT || operation(p) == FUTEX_WAIT_BITSET;
}

static bool inherits(const struct sp_task_place *p)
{
	return operation(p) == FUTEX_LOCK_PI || operation(p) == FUTEX_LOCK_PI2;
}

bool sp_lock_may_have_owner(const struct sp_task_place *place)
{
	return place->state == SP_TASK_CALLS && place->number == SYS_futex &&
	       (waits(place) || inherits(place)) && place->arg[0] % sizeof(uint32_t) == 0 &&
	       place->arg[0] >= PAGE && place->arg[0] < SP_ARCH_ADDRESS_END - PAGE;
}

static uint32_t owner_of_word(uint32_t word)
{
	return word & FUTEX_TID_MASK;
}

/*
 * Whether the fields are those of a held lock of its kind: robust locks and locks with a ceiling have a count of 1,
 * though they are not recursive.
 */
static bool is_held(const struct mutex *m)
{
	if (m->users == 0)
		return false;
	if ((m->kind & MUTEX_TYPES) == MUTEX_RECURSIVE)
		return m->count != 0;
	return m->count <= ((m->kind & (MUTEX_ROBUST | MUTEX_PROTECTS)) != 0);
}

/* The owner, or 0. The thread waits as long as the word has that value. */
static uint32_t owner_of_mutex(const struct sp_task_place *p, const struct mutex *m, uint32_t value)
{
	uint32_t rest = m->kind & ~(MUTEX_TYPES | MUTEX_SHARED | MUTEX_ELISION);

	if (!is_held(m))
		return 0;
	/* The kernel does not know whether a robust lock is shared, so glibc treats all of them as shared. */
	if (rest == MUTEX_ROBUST)
		return (value & FUTEX_WAITERS) != 0 && !is_private(p) ? owner_of_word(m->lock) : 0;
	if (is_private(p) != ((m->kind & MUTEX_SHARED) == 0))
		return 0;
	if (rest == 0)
		return value == 2 && (m->lock == 1 || m->lock == 2) ? m->owner : 0;
	return rest == MUTEX_PROTECTS && (value & ~MUTEX_CEILING) == 2 ? m->owner : 0;
}

static uint32_t owner_of_rwlock(const struct sp_task_place *p, const struct rwlock *l)
{
	uint32_t word = p->arg[0] % 8 == 0 ? l->writes : l->writers_word;

	/*
	 * When a thread takes the lock without knowing that others wait, the word loses its second bit, and a thread
	 * that waited before may sleep on.
	 */
	if ((word | RWLOCK_WAITED_FOR) != RWLOCK_HELD_AND_WAITED_FOR || l->unused[0] != 0 ||
	    l->unused[1] != 0 || l->shared > 1 || is_private(p) != (l->shared == 0))
		return 0;
	return l->writer;
}

uint32_t sp_lock_owner(const struct sp_task_place *place, const struct sp_lock_memory *memory)
{
	uint64_t at = place->arg[0];
	uint32_t value = (uint32_t)place->arg[2];
	struct rwlock rwlock;
	struct mutex mutex;
	uint32_t word;

	if (!sp_lock_may_have_owner(place))
		return 0;
	if (inherits(place))
		return memory->read(memory->arg, at, &word, sizeof(word)) ? owner_of_word(word) : 0;
	if (value == RWLOCK_HELD_AND_WAITED_FOR) {
		at -= at % 8 == 0 ? offsetof(struct rwlock, writes)
				  : offsetof(struct rwlock, writers_word);
		return memory->read(memory->arg, at, &rwlock, sizeof(rwlock))
			       ? owner_of_rwlock(place, &rwlock)
			       : 0;
	}
	if (at % 8 != 0 || !memory->read(memory->arg, at, &mutex, sizeof(mutex)))
		return 0;
	return owner_of_mutex(place, &mutex, value);
}
