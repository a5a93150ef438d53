/* SPDX-License-Identifier: Apache-2.0 */
/* The owners of this C library's locks, which this thread holds, and of words that are no locks. */
#define _GNU_SOURCE
#include "export/off_cpu/lock_owner.h"

#include <criterion/criterion.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/compiler.h"

#define PI2 13

static uint64_t first, last; /* addresses of bytes that were read */
static unsigned reads;
static bool is_refused;

static bool read_own(void *arg, uint64_t at, void *out, size_t bytes)
{
	const void *from;

	(void)arg;
	first = reads == 0 || at < first ? at : first;
	last = at + bytes > last ? at + bytes : last;
	reads++;
	memcpy(&from, &at, sizeof(from));
	if (!is_refused)
		memcpy(out, from, bytes);
	return !is_refused;
}

static struct sp_task_place place;

static uint32_t owner(const void *word, int operation, uint32_t value)
{
	const struct sp_lock_memory memory = {read_own, NULL};

	place = (struct sp_task_place){.state = SP_TASK_CALLS,
				       .number = SYS_futex,
				       .arg = {(uintptr_t)word, (uint64_t)operation,
					       /* the kernel shows whole registers */
					       UINT64_C(0xabcdef0100000000) | value}};
	reads = 0;
	last = 0;
	return sp_lock_owner(&place, &memory);
}

static uint32_t self(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static pthread_mutex_t mutex;

static void hold(int type, int robust, int shared, int protocol)
{
	pthread_mutexattr_t attr;

	cr_assert_eq(pthread_mutexattr_init(&attr), 0);
	cr_assert_eq(pthread_mutexattr_settype(&attr, type), 0);
	cr_assert_eq(pthread_mutexattr_setrobust(&attr, robust), 0);
	cr_assert_eq(pthread_mutexattr_setpshared(&attr, shared), 0);
	cr_assert_eq(pthread_mutexattr_setprotocol(&attr, protocol), 0);
	cr_assert_eq(pthread_mutex_init(&mutex, &attr), 0);
	cr_assert_eq(pthread_mutex_lock(&mutex), 0);
}

TestSuite(lock_owner, .timeout = 20);

static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
			    PTHREAD_MUTEX_ADAPTIVE_NP};

Test(lock_owner, is_who_holds_a_mutex)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(types); i++) {
		hold(types[i], PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_NONE);
		cr_expect_eq(owner(&mutex, FUTEX_WAIT_PRIVATE, 2), self());
		cr_expect(first >= (uintptr_t)&mutex && last <= (uintptr_t)(&mutex + 1));
		cr_expect_eq(owner(&mutex, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 2),
			     self());
		/* a thread that waits for this private mutex uses a private futex, and waits for the value 2 */
		cr_expect_eq(owner(&mutex, FUTEX_WAIT, 2), 0);
		cr_expect_eq(owner(&mutex, FUTEX_WAIT_PRIVATE, 1), 0);
		cr_expect_eq(owner(&mutex, FUTEX_WAIT_PRIVATE, 0), 0);
		cr_expect_eq(owner(&mutex, FUTEX_WAIT_PRIVATE, FUTEX_WAITERS | self()), 0);
		cr_expect_eq(pthread_mutex_unlock(&mutex), 0);
		cr_expect_eq(owner(&mutex, FUTEX_WAIT_PRIVATE, 2), 0);

		hold(types[i], PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_SHARED, PTHREAD_PRIO_NONE);
		cr_expect_eq(owner(&mutex, FUTEX_WAIT, 2), self());
		cr_expect_eq(owner(&mutex, FUTEX_WAIT_PRIVATE, 2), 0);
	}
}

Test(lock_owner, is_who_holds_a_robust_mutex)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(types) - 1; i++) {
		hold(types[i], PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_NONE);
		cr_expect_eq(owner(&mutex, FUTEX_WAIT, FUTEX_WAITERS | self()), self());
		cr_expect_eq(owner(&mutex, FUTEX_WAIT_PRIVATE, FUTEX_WAITERS | self()), 0);
		cr_expect_eq(owner(&mutex, FUTEX_WAIT, self()), 0, "who waits says so first");
		cr_expect_eq(owner(&mutex, FUTEX_WAIT, 2), 0);
		cr_expect_eq(pthread_mutex_unlock(&mutex), 0);
	}
}

/* The words that the kernel itself writes. */
Test(lock_owner, is_whom_the_kernel_lends_priority)
{
	uint32_t word = FUTEX_WAITERS | FUTEX_OWNER_DIED | 4711;

	cr_expect_eq(owner(&word, FUTEX_LOCK_PI_PRIVATE, 0), 4711);
	cr_expect_eq(owner(&word, FUTEX_LOCK_PI, 0), 4711);
	cr_expect_eq(owner(&word, PI2 | FUTEX_PRIVATE_FLAG, 0), 4711);
	cr_expect_eq(last - first, sizeof(word));
	cr_expect_eq(owner(&word, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0), 0);
	cr_expect_eq(reads, 0);
	hold(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE,
	     PTHREAD_PRIO_INHERIT);
	cr_expect_eq(owner(&mutex, FUTEX_LOCK_PI_PRIVATE, 0), self());
	cr_expect_eq(owner(&mutex, FUTEX_WAIT_PRIVATE, 2), 0, "nobody waits for it so");
	cr_expect_eq(pthread_mutex_unlock(&mutex), 0);
}

/* The word as the C library writes it: a real ceiling needs rights that a test has not got. */
Test(lock_owner, is_who_holds_a_mutex_with_a_ceiling)
{
	uint32_t words[6] __attribute__((aligned(8))) = {30U << 19 | 2, 1, 4711, 1, 64, 0};

	cr_expect_eq(owner(words, FUTEX_WAIT_PRIVATE, 30U << 19 | 2), 4711);
	cr_expect_eq(owner(words, FUTEX_WAIT_PRIVATE, 30U << 19 | 1), 0);
	words[4] = 64 | 32;
	cr_expect_eq(owner(words, FUTEX_WAIT_PRIVATE, 30U << 19 | 2), 0, "of two protocols");
}

/* Each field has a value that no mutex has. */
Test(lock_owner, is_nobody_where_something_else_is_there)
{
	static const uint32_t good[6] = {2, 0, 4711, 1, 0, 0};
	static const struct {
		unsigned at;
		uint32_t value;
	} bad[] = {{0, 0}, {0, 3}, {1, 1},  {2, 0},  {3, 0},   {4, 1},
		   {4, 4}, {4, 8}, {4, 16}, {4, 32}, {4, 128}, {4, 1024}};
	uint32_t words[7] __attribute__((aligned(8)));

	memcpy(words, good, sizeof(good));
	cr_assert_eq(owner(words, FUTEX_WAIT_PRIVATE, 2), 4711);
	words[4] = 256;
	cr_expect_eq(owner(words, FUTEX_WAIT_PRIVATE, 2), 4711, "one that may be elided");
	words[0] = 1;
	cr_expect_eq(owner(words, FUTEX_WAIT_PRIVATE, 2), 4711, "taken while others slept");
	for (size_t i = 0; i < SP_ARRAY_LEN(bad); i++) {
		memcpy(words, good, sizeof(good));
		words[bad[i].at] = bad[i].value;
		cr_expect_eq(owner(words, FUTEX_WAIT_PRIVATE, 2), 0, "%u in word %u", bad[i].value,
			     bad[i].at);
	}
	memcpy(words + 1, good, sizeof(good));
	cr_expect_eq(owner(words + 1, FUTEX_WAIT_PRIVATE, 2), 0, "not aligned");
	memcpy(words, good, sizeof(good));
	cr_expect_eq(owner((char *)words + 1, FUTEX_WAIT_PRIVATE, 2), 0);
	cr_expect_eq(reads, 0);
	is_refused = true;
	cr_expect_eq(owner(words, FUTEX_WAIT_PRIVATE, 2), 0);
	cr_expect_eq(owner(words, FUTEX_WAIT_PRIVATE, 3), 0);
	cr_expect_eq(owner(words, FUTEX_LOCK_PI_PRIVATE, 3), 0);
	cr_expect_eq(reads, 1);
}

Test(lock_owner, is_read_of_waits_for_words_of_a_process_alone)
{
	const struct sp_lock_memory memory = {read_own, NULL};
	uint32_t word = 4711;

	cr_expect_eq(owner(&word, FUTEX_LOCK_PI, 0), 4711);
	cr_expect(sp_lock_may_have_owner(&place));
	place.number = SYS_read;
	cr_expect_eq(sp_lock_owner(&place, &memory), 0);
	place.number = SYS_futex;
	place.state = SP_TASK_IN_KERNEL;
	cr_expect_eq(sp_lock_owner(&place, &memory), 0);
	reads = 0;
	cr_expect_eq(owner(NULL, FUTEX_LOCK_PI, 0), 0);
	cr_expect_eq(owner((const void *)UINTPTR_MAX, FUTEX_LOCK_PI, 0), 0);
	cr_expect_eq(owner((const void *)(UINTPTR_MAX - 3), FUTEX_LOCK_PI, 0), 0);
	cr_expect_eq(reads, 0);
}

/* Readers of the lock wait for the third word, writers for the fourth. */
Test(lock_owner, is_the_writer_of_a_lock_for_readers_and_writers)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	uint32_t *word = (uint32_t *)&lock;

	cr_assert_eq(pthread_rwlock_wrlock(&lock), 0);
	word[2] |= 2;
	word[3] |= 2;
	cr_expect_eq(owner(word + 2, FUTEX_WAIT_PRIVATE, 3), self());
	cr_expect_eq(owner(word + 3, FUTEX_WAIT_BITSET_PRIVATE, 3), self());
	cr_expect(first >= (uintptr_t)word && last <= (uintptr_t)(&lock + 1));
	cr_expect_eq(owner(word + 2, FUTEX_WAIT_PRIVATE, 2), 0, "a writer waits for readers");
	cr_expect_eq(owner(word + 2, FUTEX_WAIT, 3), 0);
	word[2] = 1;
	cr_expect_eq(owner(word + 2, FUTEX_WAIT_PRIVATE, 3), self());
	word[2] = 2;
	cr_expect_eq(owner(word + 2, FUTEX_WAIT_PRIVATE, 3), 0);
	word[2] = 3;
	word[7] = 1;
	cr_expect_eq(owner(word + 2, FUTEX_WAIT, 3), self(), "between processes");
	word[7] = 2;
	cr_expect_eq(owner(word + 2, FUTEX_WAIT, 3), 0);
	word[7] = 0;
	for (unsigned i = 4; i <= 5; i++) {
		word[i] = 1;
		cr_expect_eq(owner(word + 2, FUTEX_WAIT_PRIVATE, 3), 0);
		word[i] = 0;
	}
	cr_expect_eq(owner(word + 2, FUTEX_WAIT_PRIVATE, 3), self());
	cr_assert_eq(pthread_rwlock_unlock(&lock), 0);
	cr_expect_eq(owner(word + 3, FUTEX_WAIT_PRIVATE, 3), 0);
}
