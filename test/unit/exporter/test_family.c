/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exporter for several processes: who joins and who may not, and for how long it is there. The test
 * starts it for a first process, and others join it as libspanprof.so does.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "export/clock.h"
#include "export/exporter/member.h"
#include "export/exporter/program.h"
#include "host_double.h"
#include "program_unit.h"

static struct sockaddr_un name;
static socklen_t name_len;
static pid_t leader;
static uint64_t environment;

static void set_up(void)
{
	program_set_up("%p.json");
	environment = sp_family_environment(environ);
	/* What came of the orphans that we make is to be seen. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void tear_down(void)
{
	if (leader > 0)
		(void)kill(leader, SIGKILL);
	program_tear_down();
}

TestSuite(family, .init = set_up, .fini = tear_down, .timeout = 60);

static pid_t start_leader(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		(void)pause();
}

/* As a program would name it. */
static int listen_for_family(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int n;

	name.sun_family = AF_UNIX;
	n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, SP_FAMILY_NAME,
		     (unsigned long long)sp_clock_mono_ns(), (unsigned)geteuid());
	name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	cr_assert_eq(bind(fd, (struct sockaddr *)&name, name_len), 0);
	cr_assert_eq(listen(fd, 16), 0);
	return fd;
}

static void start_exporter(void)
{
	int listener = listen_for_family();

	host.region->program_pid = leader;
	program_start(listener);
	(void)close(listener);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
}

static void start(void)
{
	leader = start_leader();
	host_start(NULL);
	start_exporter();
}

/* In a process of its own, of which the kernel knows the number. */
static void join_as(pid_t pid)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {0};
	struct sp_family_join message = {
		.version = SP_REGION_VERSION, .pid = (uint32_t)pid, .environment = environment};
	struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int fd[3] = {host.fd, open("/proc/self", O_PATH | O_DIRECTORY), host.fd};
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	host.region->pid = (uint32_t)pid;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), fd, sizeof(fd));
	if (connect(s, (struct sockaddr *)&name, name_len) != 0)
		_exit(1);
	/* Strangers are left as soon as they come. */
	if (sendmsg(s, &m, MSG_NOSIGNAL) >= 0 && geteuid() == 65534)
		(void)recv(s, &message, sizeof(message), 0);
	(void)close(s);
}

static void join(void)
{
	join_as(getpid());
}

static void sample(struct host_double *of, uint64_t span_id)
{
	const struct sp_sample s = {.span_id = span_id,
				    .weight = 1,
				    .depth = 1,
				    .flags = SP_SAMPLE_ROOTED,
				    .pc = {(uintptr_t)sample}};

	cr_assert_eq(sp_ring_put(&of->ring, &s), 0);
	atomic_fetch_add(&of->region->counter[SP_COUNT_SAMPLES_PUT], 1);
}

static unsigned profiles_of(pid_t pid)
{
	char pattern[64];

	(void)snprintf(pattern, sizeof(pattern), "spanprof-shop-%d-*.pb.gz", (int)pid);
	return program_profiles(pattern);
}

static bool status_has(pid_t pid, const char *part)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%d.json", program.dir, (int)pid);
	return strstr(program_file(path), part) != NULL;
}

static void end(struct host_double *of)
{
	cr_assert_eq(kill(of->pid, SIGKILL), 0);
	cr_assert_eq(waitpid(of->pid, NULL, 0), of->pid);
}

/* The program of the family ends, then the last process: and so does the exporter. */
static void end_with(struct host_double *last)
{
	(void)kill(leader, SIGKILL);
	end(last);
	cr_expect_eq(program_status(), 0);
}

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

/* It would be told of by rules that are not its own. */
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

/* Its exporter would open files for it that it may not open itself. */
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

/* The region is mapped there as well, and would prove it. */
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

static int silent_server;

/* A server that takes connections and never says a word. */
static void send_to_silence(void)
{
	static char address[64];
	struct sockaddr_in {
		sa_family_t family;
		uint16_t port;
		uint32_t address;
		char pad[8];
	} a = {.family = AF_INET, .address = 0x0100007f};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	silent_server = fd;
	(void)snprintf(address, sizeof(address), "http://127.0.0.1:%u",
		       (unsigned)(a.port >> 8 | (a.port & 0xff) << 8));
	program.config.output_dir = NULL;
	program.config.server_address = address;
}

/* The last one has to wait, as what is queued would go with it; until then there is time. */
Test(family, lets_its_members_end_while_a_server_hangs)
{
	struct host_double first;
	uint64_t begun;

	send_to_silence();
	start();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	sample(&host, 1);
	begun = sp_clock_mono_ns();
	program_flush(&host);
	cr_assert(becomes(&host.region->flush_done, 1));
	cr_expect_lt(sp_clock_mono_ns() - begun, 3 * SP_NS_PER_S);
	end(&host);
	(void)kill(program.pid, SIGKILL);
	end(&first);
	(void)program_status();
}

static bool is_drained(const struct host_double *of)
{
	const _Atomic uint64_t *drained = &of->region->exporter_counter[SP_COUNT_SAMPLES_DRAINED];

	for (unsigned i = 0; i < 10000 && atomic_load(drained) == 0; i++)
		(void)poll(NULL, 0, 1);
	return atomic_load(drained) != 0;
}

/* It has time for what the last one left, as nobody waits for that; whoever comes then must not either. */
Test(family, serves_who_comes_while_what_others_left_is_sent)
{
	struct host_double first;
	struct pollfd connected;

	send_to_silence();
	start();
	first = host_make_another();
	sample(&first, 1);
	end(&first);
	connected = (struct pollfd){.fd = silent_server, .events = POLLIN};
	cr_assert_eq(poll(&connected, 1, 10000), 1);
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	sample(&host, 2);
	cr_assert(is_drained(&host));
	cr_expect_eq(atomic_load(&first.region->exporter_counter[SP_COUNT_SAMPLES_UNSENT]), 0,
		     "it was served after the others");
	end(&host);
	(void)kill(program.pid, SIGKILL);
	(void)program_status();
}

/* Nobody is left then who would keep the exporter alive: the container may end with the last of them. */
Test(family, waits_for_the_server_when_all_of_it_are_about_to_end)
{
	struct host_double first;
	uint64_t begun;

	program.config.flush_timeout_ms = 400;
	send_to_silence();
	start();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	sample(&first, 1);
	sample(&host, 1);
	begun = sp_clock_mono_ns();
	program_flush(&first);
	program_flush(&host);
	cr_assert(becomes(&first.region->flush_done, 1));
	cr_assert(becomes(&host.region->flush_done, 1));
	cr_expect_geq(sp_clock_mono_ns() - begun, 300 * SP_NS_PER_MS);
	end(&host);
	end(&first);
	(void)kill(leader, SIGKILL);
	cr_expect_eq(program_status(), 0);
}

/* None is left to refuse it by, otherwise, and to look whether the others still have our rights. */
Test(family, is_refused_before_descriptors_run_out)
{
	struct host_double first;
	struct host_double second;

	program.descriptors = 64 + 2 * 3;
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

static uint64_t cpu_ns(void)
{
	struct timespec t = {0};
	clockid_t clock;

	cr_assert_eq(clock_getcpuclockid(program.pid, &clock), 0);
	cr_assert_eq(clock_gettime(clock, &t), 0);
	return (uint64_t)t.tv_sec * SP_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The socket stays readable. */
Test(family, sleeps_while_it_cannot_accept_anybody)
{
	const struct rlimit none = {3, 4096}; /* poll() needs as many */
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

static bool has_mapped(const struct host_double *of)
{
	char path[32];
	char line[512];
	char inode[32];
	bool has = false;
	struct stat st;
	FILE *maps;

	cr_assert_eq(fstat(of->fd, &st), 0);
	(void)snprintf(inode, sizeof(inode), " %lu ", (unsigned long)st.st_ino);
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)program.pid);
	maps = fopen(path, "r");
	cr_assert_not_null(maps);
	while (!has && fgets(line, sizeof(line), maps) != NULL)
		has = strstr(line, "memfd:spanprof") != NULL && strstr(line, inode) != NULL;
	(void)fclose(maps);
	return has;
}

/* While a server is away that may be an hour, and hundreds of processes. */
Test(family, keeps_no_memory_of_who_has_ended_while_profiles_wait)
{
	struct host_double first;

	program.config.flush_timeout_ms = 300;
	send_to_silence();
	start();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	cr_assert(has_mapped(&host));
	sample(&host, 1);
	end(&host);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_GONE));
	for (unsigned i = 0; i < 5000 && has_mapped(&host); i++)
		(void)poll(NULL, 0, 1);
	cr_expect_not(has_mapped(&host));
	cr_expect_not(status_has(host.pid, "\"samples_in_lost_batches\": 1"), "it waits");

	end_with(&first);
	cr_expect(status_has(host.pid, "\"put\": 1,\n  \"drained\": 1"));
	cr_expect(status_has(host.pid, "\"samples_in_lost_batches\": 1"));
}

static void become(uid_t user)
{
	while (atomic_load(&host.region->state) != SP_REGION_STOPPED)
		(void)poll(NULL, 0, 1);
	if (setresuid(user, user, user) != 0)
		_exit(1);
	atomic_store(&host.region->state, SP_REGION_SAMPLING);
}

static void become_one_user(void)
{
	become(4002);
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

/* The exporter cannot have the rights of both. */
Test(family, loses_only_whom_its_exporter_cannot_follow)
{
	struct host_double first;
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (geteuid() != 0)
		cr_skip_test("needs root");
	leader = start_leader();
	host_start(become_one_user);
	start_exporter();
	first = host_make_another();
	host_start(join_and_become_another);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	let_become(&first);
	cr_assert(becomes(&first.region->flush_done, 1));
	cr_expect_neq(connect(s, (struct sockaddr *)&name, name_len), 0, "for a user of before");

	let_become(&host);
	cr_expect(becomes(&host.region->exporter, SP_EXPORTER_FAILED));
	cr_expect_eq(host.region->exporter_error, EPERM);
	program_flush(&first);
	cr_expect(becomes(&first.region->flush_done, 2));
	end(&host);
	end_with(&first);
}

/* It would never be profiled otherwise, for a lack of memory that is ours. */
Test(family, refuses_whom_it_has_taken_in_and_has_no_memory_for)
{
	static struct sp_member member;
	const struct sp_host_descriptors fds = {
		.region = dup(host.fd), .folder = -1, .maps = -1, .joined = true};

	cr_assert_eq(sp_member_open(&member, &fds, &program.config), 0);
	sp_view_tell(&member.view, SP_EXPORTER_WORKING);
	sp_member_close(&member, -ENOMEM);
	cr_expect_eq(host.region->exporter, SP_EXPORTER_REFUSED);
	cr_expect_eq(host.region->exporter_error, 0);
}
