/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes may join the exporter of a family, and how long the exporter stays. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "export/exporter/limits.h"
#include "export/exporter/member.h"
#include "family_unit.h"

TestSuite(family, .init = set_up, .fini = tear_down, .timeout = 60);

static bool runs(void)
{
	return waitpid(program.pid, NULL, WNOHANG) == 0;
}

static bool wait_for_profiles_of(pid_t pid)
{
	for (unsigned i = 0; i < 10000 && profiles_of(pid) == 0; i++)
		(void)poll(NULL, 0, 1);
	return profiles_of(pid) == 1;
}

Test(family, has_one_exporter_until_the_last_of_it_has_ended)
{
	struct host_double first;

	start();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	cr_expect_eq(host.region->exporter_pid, program.pid);
	sample(&first, 1);
	sample(&host, 2);
	sample(&host, 2);

	end(&first);
	cr_assert(wait_for_profiles_of(first.pid));
	cr_assert(becomes(&first.region->exporter, SP_EXPORTER_GONE));
	cr_expect(status_has(first.pid, "\"put\": 1,\n  \"drained\": 1"));
	cr_expect(runs());
	cr_expect_eq(profiles_of(host.pid), 0, "its upload interval is not over");

	program_flush(&host);
	cr_assert(becomes(&host.region->flush_done, 1));
	cr_expect_eq(profiles_of(host.pid), 1);
	cr_expect(status_has(host.pid, "\"put\": 2,\n  \"drained\": 2"));
	end_with(&host);
}

Test(family, may_come_back_as_long_as_its_program_runs)
{
	struct host_double first;

	start();
	first = host_make_another();
	end(&first);
	cr_assert(becomes(&first.region->exporter, SP_EXPORTER_GONE));
	cr_assert(runs());

	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	sample(&host, 2);
	end_with(&host);
	cr_expect_eq(profiles_of(host.pid), 1);
}

Test(family, is_left_at_once_when_its_program_has_ended)
{
	start();
	end(&host);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_GONE));
	cr_expect(runs());
	(void)kill(leader, SIGKILL);
	cr_expect_eq(program_status(), 0);
}

/* The process would be reported by rules that are not its own. */
Test(family, is_not_whoever_has_another_configuration)
{
	struct host_double first;

	start();
	first = host_make_another();
	environment ^= 1;
	host_start(join);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	end(&host);
	end_with(&first);
}

static void join_as_nobody(void)
{
	if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
		_exit(1);
	join();
	atomic_store(&host.region->state, SP_REGION_STOPPED);
}

/* The exporter would open files for the process that it may not open itself. */
Test(family, is_not_whoever_has_another_user)
{
	struct host_double first;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	start();
	first = host_make_another();
	host_start(join_as_nobody);
	cr_assert(becomes(&host.region->state, SP_REGION_STOPPED));
	cr_expect_eq(host.region->exporter, SP_EXPORTER_NONE, "its memory was mapped");
	end(&host);
	end_with(&first);
}

/* The region is mapped in the parent as well, which would prove its claim. */
static void join_as_parent(void)
{
	join_as(getppid());
}

Test(family, is_not_whoever_says_that_it_is_another_process)
{
	struct host_double first;

	start();
	first = host_make_another();
	host_start(join_as_parent);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	end(&host);
	end_with(&first);
}

/* The region and the kernel both tell the owner of the region. Everything else is correct. */
static pid_t owner;

static void join_for_another(void)
{
	char folder[32];

	(void)snprintf(folder, sizeof(folder), "/proc/%d", (int)owner);
	join_with(getpid(), owner, folder);
	atomic_store(&host.region->state, SP_REGION_STOPPED);
}

Test(family, is_not_whoever_brings_the_region_of_another)
{
	struct host_double first;

	start();
	first = host_make_another();
	host_start(NULL);
	owner = host.pid;
	host_start(join_for_another);
	host.region->pid = (uint32_t)owner;
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	end(&host);
	(void)kill(owner, SIGKILL);
	end_with(&first);
}

/* The parent would find the exporter among its children when it waits for them. */
Test(family, is_not_the_parent_of_the_exporter)
{
	struct host_double first;

	start();
	first = host_make_another();
	join();
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	end_with(&first);
}

static void join_with_fewer_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) != 0)
		_exit(1);
	data[0].effective = data[0].permitted &= ~(1U << CAP_CHOWN);
	if (syscall(SYS_capset, &head, data) != 0)
		_exit(1);
	join();
}

Test(family, is_not_whoever_has_fewer_rights_as_the_same_user)
{
	struct host_double first;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	start();
	first = host_make_another();
	host_start(join_with_fewer_capabilities);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	cr_expect_eq(host.region->exporter_pid, 0, "it was served for a while");
	end(&host);
	end_with(&first);
}

/* The exporter limits the addresses of all regions. The first member needs some of them. */
Test(family, is_refused_before_addresses_run_out)
{
	struct host_double first;
	pid_t pid[SP_LIMITS_REGIONS >> 30];

	start();
	first = host;
	host_bytes = (uint64_t)1 << 30;
	for (unsigned i = 0; i < SP_LIMITS_REGIONS >> 30; i++) {
		(void)host_make_another();
		host_start(join);
		pid[i] = host.pid;
		if (i < (SP_LIMITS_REGIONS >> 30) - 1)
			cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING), "%u", i);
		else
			cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	}
	for (unsigned i = 0; i < SP_LIMITS_REGIONS >> 30; i++)
		(void)kill(pid[i], SIGKILL);
	end_with(&first);
}

static void connect_and_say_nothing(void)
{
	int s[8];

	for (unsigned i = 0; i < 8; i++) {
		s[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (connect(s[i], (struct sockaddr *)&name, name_len) != 0 ||
		    (i % 2 == 0 && send(s[i], "x", 1, 0) != 1))
			_exit(1);
	}
}

Test(family, is_served_whatever_else_connects)
{
	struct host_double first;

	start();
	first = host_make_another();
	host_start(connect_and_say_nothing);
	sample(&first, 1);
	program_flush(&first);
	cr_expect(becomes(&first.region->flush_done, 1));
	cr_expect_eq(profiles_of(first.pid), 1);
	end(&host);
	end_with(&first);
}

/*
 * Otherwise no descriptor would be left to refuse the process, and to compare the rights of the
 * others.
 */
Test(family, is_refused_before_descriptors_run_out)
{
	struct host_double first;
	struct host_double second;

	program.descriptors = 64 + 2 * 4;
	start();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	second = host_make_another();
	host_start(join);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	end(&host);

	end(&second);
	cr_assert(becomes(&second.region->exporter, SP_EXPORTER_GONE));
	(void)host_make_another();
	host_start(join);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	end(&host);
	end_with(&first);
}

static uint64_t cpu_ns_of(pid_t pid)
{
	struct timespec t = {0};
	clockid_t clock;

	cr_assert_eq(clock_getcpuclockid(pid, &clock), 0);
	cr_assert_eq(clock_gettime(clock, &t), 0);
	return (uint64_t)t.tv_sec * SP_NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	return cpu_ns_of(program.pid);
}

static void connect_for_ever(void)
{
	/*
	 * Other users than root are strangers at once; the exporter would wait for each message of
	 * root.
	 */
	if (setresuid(65534, 65534, 65534) != 0)
		_exit(1);
	for (;;) {
		int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		(void)connect(s, (struct sockaddr *)&name, name_len);
		(void)close(s);
	}
}

static void connect_and_wait(void)
{
	int s[200];

	for (unsigned i = 0; i < 200; i++) {
		s[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		(void)connect(s[i], (struct sockaddr *)&name, name_len);
	}
	(void)recv(s[199], s, 1, 0);
	atomic_store(&host.region->state, SP_REGION_STOPPED);
	(void)pause();
}

Test(family, costs_little_while_strangers_connect_without_a_pause)
{
	struct host_double first;
	struct host_double stranger;
	uint64_t before;
	uint64_t strangers;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	start();
	first = host_make_another();
	host_start(connect_for_ever);
	stranger = host;
	(void)poll(NULL, 0, 300);
	before = cpu_ns();
	strangers = cpu_ns_of(stranger.pid);
	(void)poll(NULL, 0, 1000);
	/* A ratio, so that the load of the machine does not matter. */
	cr_expect_lt(2 * (cpu_ns() - before), cpu_ns_of(stranger.pid) - strangers, "%llu of %llu",
		     (unsigned long long)(cpu_ns() - before),
		     (unsigned long long)(cpu_ns_of(stranger.pid) - strangers));

	(void)host_make_another();
	host_start(join);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_WORKING), "it is kept out");
	end(&host);
	(void)kill(stranger.pid, SIGKILL);
	end_with(&first);
}

/*
 * Connections of our own user that send nothing: the exporter waits for the first ones, 50 ms each.
 */
Test(family, does_not_wait_for_each_of_many_who_say_nothing)
{
	struct host_double first;
	uint64_t before;

	start();
	first = host_make_another();
	before = sp_clock_mono_ns();
	host_start(connect_and_wait);
	cr_assert(becomes(&host.region->state, SP_REGION_STOPPED), "the last one is not let go");
	cr_expect_lt(sp_clock_mono_ns() - before, 5 * SP_NS_PER_S, "ten seconds of waits");
	sample(&first, 1);
	program_flush(&first);
	cr_expect(becomes(&first.region->flush_done, 1));
	(void)kill(host.pid, SIGKILL);
	end_with(&first);
}

/* The socket stays readable. */
Test(family, sleeps_while_it_cannot_accept_anybody)
{
	const struct rlimit none = {3, 4096}; /* the limit that poll() needs */
	const struct rlimit many = {256, 4096};
	uint64_t before;
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	start();
	end(&host);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_GONE));
	cr_assert_eq(prlimit(program.pid, RLIMIT_NOFILE, &none, NULL), 0);
	cr_assert_eq(connect(s, (struct sockaddr *)&name, name_len), 0);
	before = cpu_ns();
	(void)poll(NULL, 0, 300);
	cr_expect_lt(cpu_ns() - before, 100 * SP_NS_PER_MS);

	cr_assert_eq(prlimit(program.pid, RLIMIT_NOFILE, &many, NULL), 0);
	(void)host_make_another();
	host_start(join);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	end_with(&host);
}

static void become(uid_t user)
{
	while (atomic_load(&host.region->state) != SP_REGION_STOPPED)
		(void)poll(NULL, 0, 1);
	if (setresuid(user, user, user) != 0)
		_exit(1);
	atomic_store(&host.region->state, SP_REGION_SAMPLING);
}

#define ONE_USER 4002

static void become_one_user(void)
{
	become(ONE_USER);
}

static void join_and_become_another(void)
{
	join();
	become(4003);
}

static void let_become(struct host_double *of)
{
	atomic_store(&of->region->state, SP_REGION_STOPPED);
	cr_assert(becomes(&of->region->state, SP_REGION_SAMPLING));
	program_flush(of);
}

/* Otherwise the exporter could no longer open the files of the others. */
Test(family, is_left_by_whoever_becomes_another_user)
{
	struct host_double first;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	leader = start_leader();
	host_start(become_one_user);
	start_exporter();
	first = host_make_another();
	host_start(join_and_become_another);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));

	let_become(&host);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	program_flush(&first);
	cr_expect(becomes(&first.region->flush_done, 1));
	cr_expect_eq(first.region->exporter, SP_EXPORTER_WORKING);
	end(&host);
	end_with(&first);
}

/* Connects as that user and returns the user that listens, as the kernel tells it; -1 = none. */
static int user_at(const struct sockaddr_un *where, socklen_t bytes)
{
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t size = sizeof(peer);

	if (connect(s, (const struct sockaddr *)where, bytes) == 0)
		cr_assert_eq(getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
	cr_assert_eq(close(s), 0);
	return (int)peer.uid;
}

Test(family, is_found_by_its_new_user_when_its_last_process_is_another_user)
{
	struct sockaddr_un new_name = {.sun_family = AF_UNIX};
	int n;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	leader = start_leader();
	host_start(become_one_user);
	host.region->program_loaded_ns = sp_clock_mono_ns();
	start_exporter();
	let_become(&host);
	cr_assert(becomes(&host.region->flush_done, 1));
	cr_expect_eq(host.region->exporter, SP_EXPORTER_WORKING, "it has followed");
	cr_expect_eq(user_at(&name, name_len), -1, "for a user of before");
	n = snprintf(new_name.sun_path + 1, sizeof(new_name.sun_path) - 1, SP_FAMILY_NAME, "", "p",
		     (unsigned long long)host.region->program_loaded_ns, ONE_USER);
	cr_expect_eq(user_at(&new_name,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
		     ONE_USER);
	end_with(&host);
}

/*
 * The process may be unable to start another exporter; the others are able, and still have their
 * rights.
 */
Test(family, follows_who_has_started_it_and_refuses_the_others)
{
	struct host_double first;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	leader = start_leader();
	host_start(become_one_user);
	start_exporter();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));

	let_become(&first);
	cr_assert(becomes(&first.region->flush_done, 1));
	cr_expect_eq(first.region->exporter, SP_EXPORTER_WORKING);
	program_flush(&host);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_REFUSED));
	end(&host);
	end_with(&first);
}

static void count_snapshot(const struct sp_snapshot *s, void *arg)
{
	unsigned *n = arg;

	(void)s;
	(*n)++;
}

/*
 * A thread that was stopped in the middle of a snapshot hides the snapshots of others, so the ring
 * only seems empty.
 */
Test(family, knows_when_snapshots_are_hidden_by_one_that_is_not_complete)
{
	static struct sp_snapshot snapshot;
	static struct sp_member member;
	const uint64_t len = offsetof(struct sp_snapshot, stack);
	const struct sp_host_descriptors fds = {
		.region = dup(host.fd), .folder = -1, .maps = -1, .joined = true};
	struct sp_core_ops *ops = &member.ops;
	unsigned put = 0;
	bool is_all = false;

	cr_assert_eq(sp_member_open(&member, &fds, &program.config), 0);
	sp_waiter_init(&member.waiter, &member.view, &member.host, ops->config, NULL);
	cr_expect_eq(ops->drain_snapshots(ops->arg, count_snapshot, &put, 9, &is_all), 0);
	cr_expect(is_all, "there is none");

	atomic_fetch_add(&host.snapshots.ends->head, sizeof(uint64_t) + len);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(sp_ring_put(&host.snapshots, SP_RECORD_SNAPSHOT, &snapshot, len), 0);
	cr_expect_eq(ops->drain_snapshots(ops->arg, count_snapshot, &put, 9, &is_all), 0);
	cr_expect_not(is_all);

	atomic_store(&host.snapshots.word[0], SP_RING_HEADER(SP_RECORD_SNAPSHOT, len));
	cr_expect_eq(ops->drain_snapshots(ops->arg, count_snapshot, &put, 2, &is_all), 2);
	cr_expect_not(is_all, "there was no room for the last one");
	cr_expect_eq(ops->drain_snapshots(ops->arg, count_snapshot, &put, 9, &is_all), 1);
	cr_expect(is_all);
	cr_expect_eq(put, 3);
	sp_member_close(&member);
}

static void count_record(const struct sp_record *record, void *arg)
{
	unsigned *n = arg;

	*n += record->kind == SP_RECORD_SLOW_ROOT;
}

/* Slow roots are no samples. */
Test(family, counts_slow_roots_that_it_takes)
{
	static struct sp_member member;
	static const struct sp_slow_root root = {.span_id = 1};
	const struct sp_host_descriptors fds = {
		.region = dup(host.fd), .folder = -1, .maps = -1, .joined = true};
	struct sp_core_ops *ops = &member.ops;
	unsigned put = 0;

	cr_assert_eq(sp_member_open(&member, &fds, &program.config), 0);
	sp_waiter_init(&member.waiter, &member.view, &member.host, ops->config, NULL);
	cr_expect_null(ops->root_durations(ops->arg), "its region has no room for them");
	member.view.roots = (void *)host.region;
	cr_expect_eq((void *)ops->root_durations(ops->arg), (void *)host.region);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(sp_ring_put(&host.ring, SP_RECORD_SLOW_ROOT, &root, sizeof(root)), 0);
	cr_expect_eq(ops->drain(ops->arg, count_record, &put, 9), 3);
	cr_expect_eq(put, 3);
	cr_expect_eq(host.region->exporter_counter[SP_COUNT_SLOW_ROOTS_DRAINED], 3);
	cr_expect_eq(host.region->exporter_counter[SP_COUNT_SAMPLES_DRAINED], 0);
	member.waiter.barred = true;
	cr_expect_null(ops->root_durations(ops->arg));
	sp_member_close(&member);
}

/* Otherwise it would never be profiled, only because our memory ran out. */
Test(family, refuses_whom_it_has_taken_in_and_has_no_memory_for)
{
	static struct sp_member member;
	const struct sp_host_descriptors fds = {
		.region = dup(host.fd), .folder = -1, .maps = -1, .joined = true};

	cr_assert_eq(sp_member_open(&member, &fds, &program.config), 0);
	sp_view_set_state(&member.view, SP_EXPORTER_WORKING);
	sp_member_send_end(&member, -ENOMEM);
	sp_member_close(&member);
	cr_expect_eq(host.region->exporter, SP_EXPORTER_REFUSED);
	cr_expect_eq(host.region->exporter_error, 0);
}
