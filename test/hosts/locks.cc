// SPDX-License-Identifier: Apache-2.0
//
// Threads that hold locks of all kinds and wait for them, each time in a separate span. The lock's name is the
// span's, and its attributes tell the truth: the numbers while the span held the lock ("first" to "last"), and the
// numbers while it may have waited for others ("from" to "to"). A number is drawn with the lock held, so no
// clock decides who held it when. "held" is the duration in nanoseconds; and for each lock "wall NAME NANOSECONDS"
// is printed: a thread that was woken and gets no processor waits for a lock that nobody holds.
//
// Usage: locks THREADS SECTIONS [NAME,...]: number of threads, and of sections of each lock. Or locks deadlock SECONDS: two
// threads that wait for each other for that long.
#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <future>
#include <linux/futex.h>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <shared_mutex>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

// Most sections do this with the lock held.
__attribute__((noinline)) static void hold_asleep()
{
	const timespec ts = {0, 2000000};

	HOST_CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, nullptr) == 0);
	__asm__ volatile(""); /* no tail call */
}

namespace
{
void *tracer;

// Each lock has its own counter.
std::atomic<int> counter;

struct section {
	int from, first, last, to;
	int64_t held_ns;
};

void hold(section &s)
{
	const int64_t begun = host_clock_ns(CLOCK_MONOTONIC);

	s.first = s.last = s.to = ++counter;
	if (s.first % 4 == 0)
		host_burn_ms(1);
	else
		hold_asleep();
	s.held_ns += host_clock_ns(CLOCK_MONOTONIC) - begun;
}

// As above, called by a plugin.
void hold_for(void *arg)
{
	hold(*static_cast<section *>(arg));
}

// Mutexes of POSIX.

struct attributes {
	int type, protocol, robust, shared;
};

class posix_mutex
{
      public:
	explicit posix_mutex(const attributes &a)
	{
		pthread_mutexattr_t attr;

		HOST_CHECK(pthread_mutexattr_init(&attr) == 0);
		HOST_CHECK(pthread_mutexattr_settype(&attr, a.type) == 0);
		HOST_CHECK(pthread_mutexattr_setprotocol(&attr, a.protocol) == 0);
		HOST_CHECK(pthread_mutexattr_setrobust(&attr, a.robust) == 0);
		HOST_CHECK(pthread_mutexattr_setpshared(&attr, a.shared) == 0);
		HOST_CHECK(pthread_mutex_init(&mutex, &attr) == 0);
	}
	void lock()
	{
		HOST_CHECK(pthread_mutex_lock(&mutex) == 0);
	}
	void unlock()
	{
		HOST_CHECK(pthread_mutex_unlock(&mutex) == 0);
	}
	pthread_mutex_t mutex;
};

template <class Lock> void exclusively(Lock &lock, section &s)
{
	lock.lock();
	hold(s);
	lock.unlock();
}

const attributes kinds[] = {
	{PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE},
	{PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED,
	 PTHREAD_PROCESS_PRIVATE},
	{PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED,
	 PTHREAD_PROCESS_PRIVATE},
	{PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED,
	 PTHREAD_PROCESS_PRIVATE},
	{PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED,
	 PTHREAD_PROCESS_PRIVATE},
	{PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST,
	 PTHREAD_PROCESS_PRIVATE},
	{PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_PRIVATE},
	{PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_SHARED},
	{PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_SHARED},
	{PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED,
	 PTHREAD_PROCESS_SHARED},
	{PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_PROTECT, PTHREAD_MUTEX_STALLED,
	 PTHREAD_PROCESS_PRIVATE},
	{PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_PROTECT, PTHREAD_MUTEX_STALLED,
	 PTHREAD_PROCESS_SHARED},
};

template <int Kind> void with_mutex(section &s)
{
	static posix_mutex lock(kinds[Kind]);

	exclusively(lock, s);
}

// A thread that takes a mutex with a ceiling gets the ceiling as its priority, so the thread must have a real-time
// priority.
template <int Kind> void with_priority(section &s)
{
	static posix_mutex lock(kinds[Kind]);
	const sched_param priority = {sched_get_priority_min(SCHED_FIFO)};

	HOST_CHECK(pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0);
	exclusively(lock, s);
}

void with_timed(section &s)
{
	static std::timed_mutex lock;

	while (!lock.try_lock_for(std::chrono::seconds(60)))
		;
	hold(s);
	lock.unlock();
}

template <class Lock> void with(section &s)
{
	static Lock lock;

	exclusively(lock, s);
}

// Readers wait for writers, and writers for both. Three of four threads are writers.
void with_readers(section &s)
{
	static std::shared_mutex lock;
	static std::atomic<int> turn;

	if (turn++ % 4 != 0) {
		exclusively(lock, s);
		return;
	}
	lock.lock_shared();
	s.to = counter;
	hold_asleep();
	lock.unlock_shared();
}

// A POSIX lock that is shared between processes; writers do not wait for later readers.
void with_writers(section &s)
{
	static pthread_rwlock_t lock = [] {
		pthread_rwlock_t made;
		pthread_rwlockattr_t attr;

		HOST_CHECK(pthread_rwlockattr_init(&attr) == 0);
		HOST_CHECK(pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
		HOST_CHECK(pthread_rwlockattr_setkind_np(
				   &attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
		HOST_CHECK(pthread_rwlock_init(&made, &attr) == 0);
		return made;
	}();

	HOST_CHECK(pthread_rwlock_wrlock(&lock) == 0);
	hold(s);
	HOST_CHECK(pthread_rwlock_unlock(&lock) == 0);
}

// A thread that waits for a condition has held the mutex before, and holds it again afterwards.
void with_condition(section &s)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	timespec end;
	int first;

	HOST_CHECK(pthread_mutex_lock(&mutex) == 0);
	first = ++counter;
	pthread_cond_broadcast(&condition);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += 3000000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	(void)pthread_cond_timedwait(&condition, &mutex, &end);
	hold(s);
	s.first = first;
	HOST_CHECK(pthread_mutex_unlock(&mutex) == 0);
}

void with_semaphore(section &s)
{
	static sem_t semaphore = [] {
		sem_t made;

		HOST_CHECK(sem_init(&made, 0, 1) == 0);
		return made;
	}();

	while (sem_wait(&semaphore) != 0)
		;
	hold(s);
	HOST_CHECK(sem_post(&semaphore) == 0);
}

// Waits without a holder: for the end of a thread, for a future's value, for an item that another thread makes. The
// threads of such a section do not exclude each other, so each thread waits 16 times.

template <void (*Wait)()> void often(section &s)
{
	for (int i = 0; i < 16; i++)
		Wait();
	hold(s);
}

void wait_for_end()
{
	std::thread other(hold_asleep);

	other.join();
}

void wait_for_value()
{
	std::promise<int> promise;
	std::thread other([&promise] {
		hold_asleep();
		promise.set_value(1);
	});

	HOST_CHECK(promise.get_future().get() == 1);
	other.join();
}

// One of eight threads makes it.
void wait_for_one()
{
	static std::once_flag flags[4096];
	static std::atomic<unsigned> n;

	std::call_once(flags[n++ / 8 % 4096], hold_asleep);
}

// Words that are no locks of the C library but look like them in memory, with a thread as their owner that does not
// hold them.

struct imposter {
	std::atomic<uint32_t> word;
	uint32_t count, owner, users, kind;
	uint64_t rest[3];
};

long wait_by_library(void *word)
{
	return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, nullptr, nullptr, 0);
}

long wait_by_itself(void *word)
{
#ifdef __x86_64__
	long result = SYS_futex;
	register const void *timeout __asm__("r10") = nullptr;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(word), "S"(FUTEX_WAIT_PRIVATE), "d"(2), "r"(timeout)
			 : "rcx", "r11", "memory");
	return result;
#else
	return wait_by_library(word);
#endif
}

void lock_imposter(imposter &lock, long (*wait)(void *word))
{
	uint32_t was = 0;

	if (lock.word.compare_exchange_strong(was, 1))
		return;
	while (lock.word.exchange(2) != 0)
		(void)wait(&lock.word);
}

template <long (*Wait)(void *word)> void with_imposter(section &s)
{
	static imposter lock alignas(8);

	lock_imposter(lock, Wait);
	hold(s);
	// The leaving thread writes itself as the owner.
	lock.owner = static_cast<uint32_t>(syscall(SYS_gettid));
	lock.users = 1;
	if (lock.word.exchange(0) == 2)
		(void)syscall(SYS_futex, &lock.word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// void locks_plugin(void (*hold)(void *arg), void *arg): calls hold while it holds a lock of its own language.
using plugin = void (*)(void (*)(void *), void *);

template <int Which> void with_plugin(section &s)
{
	static const plugin call = [] {
		const char *path = getenv(Which == 0 ? "LOCKS_RUST" : "LOCKS_GO");
		void *object = path != nullptr ? dlopen(path, RTLD_NOW) : nullptr;

		return object != nullptr ? reinterpret_cast<plugin>(dlsym(object, "locks_plugin"))
					 : nullptr;
	}();

	if (call != nullptr)
		call(hold_for, &s);
}

const struct {
	const char *name;
	void (*section)(struct section &);
} locks[] = {
	{"normal", with_mutex<0>},
	{"recursive", with_mutex<1>},
	{"errorcheck", with_mutex<2>},
	{"adaptive", with_mutex<3>},
	{"inherit", with_mutex<4>},
	{"inherit_robust", with_mutex<5>},
	{"robust", with_mutex<6>},
	{"robust_shared", with_mutex<7>},
	{"shared", with_mutex<8>},
	{"inherit_shared", with_mutex<9>},
	{"protect", with_priority<10>},
	{"protect_shared", with_priority<11>},
	{"timed", with_timed},
	{"std_mutex", with<std::mutex>},
	{"std_recursive", with<std::recursive_mutex>},
	{"std_shared", with<std::shared_mutex>},
	{"writers", with_writers},
	{"readers", with_readers},
	{"condition", with_condition},
	{"semaphore", with_semaphore},
	{"join", often<wait_for_end>},
	{"future", often<wait_for_value>},
	{"once", often<wait_for_one>},
	{"imposter", with_imposter<wait_by_library>},
	{"imposter_inline", with_imposter<wait_by_itself>},
	{"rust", with_plugin<0>},
	{"go", with_plugin<1>},
};

void go(const char *name, void (*run)(section &), int sections)
{
	for (int i = 0; i < sections; i++) {
		section s = {0, 0, 0, 0, 0};
		void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_SERVER, nullptr);
		void *attributes = otelc_create_attr_map();

		s.from = counter;
		run(s);
		otelc_set_int64_t_attr(attributes, "from", s.from);
		otelc_set_int64_t_attr(attributes, "first", s.first);
		otelc_set_int64_t_attr(attributes, "last", s.last);
		otelc_set_int64_t_attr(attributes, "to", s.to);
		otelc_set_int64_t_attr(attributes, "held", s.held_ns);
		otelc_set_span_attrs(span, attributes);
		otelc_destroy_attr_map(attributes);
		otelc_end_span(span);
	}
}

// Both threads have their lock before either asks for the other's.
std::timed_mutex ours[2];
std::atomic<int> ready;

void block_each_other(int which, int seconds)
{
	void *span = otelc_start_span(tracer, which == 0 ? "debit" : "credit",
				      OTELC_SPAN_KIND_SERVER, nullptr);

	ours[which].lock();
	ready++;
	while (ready < 2)
		hold_asleep();
	HOST_CHECK(!ours[1 - which].try_lock_for(std::chrono::seconds(seconds)));
	otelc_end_span(span);
	ready++;
	while (ready < 4)
		hold_asleep();
	ours[which].unlock();
}

bool is_wanted(const std::string &name, const std::string &wanted)
{
	return wanted.empty() || ("," + wanted + ",").find("," + name + ",") != std::string::npos;
}
} // namespace

int main(int argc, char **argv)
{
	const int threads = argc > 1 ? atoi(argv[1]) : 4;
	const int sections = argc > 2 ? atoi(argv[2]) : 20;

	otelc_init_tracer_provider("locks", "1.0", "test", "");
	tracer = otelc_get_tracer();
	// Profiling begins with it, so that all threads are known from their birth.
	otelc_end_span(otelc_start_span(tracer, "first", OTELC_SPAN_KIND_INTERNAL, nullptr));
	if (argc > 1 && strcmp(argv[1], "deadlock") == 0) {
		std::thread debit(block_each_other, 0, sections);
		std::thread credit(block_each_other, 1, sections);

		debit.join();
		credit.join();
		otelc_destroy_tracer_provider();
		return 0;
	}
	for (const auto &lock : locks) {
		std::vector<std::thread> all;

		if (!is_wanted(lock.name, argc > 3 ? argv[3] : ""))
			continue;
		const int64_t begun = host_clock_ns(CLOCK_MONOTONIC);

		counter = 0;
		for (int i = 0; i < threads; i++)
			all.emplace_back(go, lock.name, lock.section, sections / threads);
		for (auto &thread : all)
			thread.join();
		printf("wall %s %lld\n", lock.name,
		       static_cast<long long>(host_clock_ns(CLOCK_MONOTONIC) - begun));
	}
	otelc_destroy_tracer_provider();
	return 0;
}
