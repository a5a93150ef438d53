/* SPDX-License-Identifier: Apache-2.0 */
/* Joining a family. A child process of the test stands for the exporter. */
#define _GNU_SOURCE
#include "preload/exporter/exporter.h"
#include "region_version.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "as_exporter.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/syscall.h"
#include "sampler/region/region.h"
#include "test/unit/emulated.h"

static char one[] = "ONE=1";
static char *environment[] = {one, NULL};
static struct sp_exporter_start start;
static pid_t child;

/* a listening socket whose owner gives up on the first process that comes */
static int impatient = -1;

/* Replaces the product's function: a process that joins is held up between its connect and its message. */
long sp_syscall_make(long number, const long arg[6])
{
	if (number == SYS_sendmsg && impatient >= 0) {
		(void)close(accept(impatient, NULL, NULL));
		impatient = -1;
	}
	return sp_syscall_result(sp_arch_syscall6(number, arg));
}

static void make_region(void)
{
	const uint64_t bytes[SP_REGION_PARTS] = {4096, 0, 100};

	start = (struct sp_exporter_start){
		.region_fd = sp_region_create(bytes),
		.folder_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC),
		.maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
		.environment = environment,
		.region = sp_region,
	};
	cr_assert_geq(start.region_fd, 3);
	cr_assert_geq(start.folder_fd, 0);
	cr_assert_geq(start.maps_fd, 0);
}

static void init(void)
{
	sp_exporter_family_load(true);
	/* as before the first fork */
	(void)sp_exporter_family_is_asked();
	make_region();
}

static void end_child(void)
{
	if (child == 0)
		return;
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	child = 0;
}

static unsigned open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned n = 0;

	cr_assert_not_null(folder);
	while (readdir(folder) != NULL)
		n++;
	closedir(folder);
	return n;
}

static bool same_file(int a, int b)
{
	struct stat x;
	struct stat y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev && (fcntl(a, F_GETFL) & O_PATH) == (fcntl(b, F_GETFL) & O_PATH);
}

/* Takes the oldest message and its descriptors from a listening socket. */
static bool take(int listening, struct sp_family_join *message, int descriptor[3])
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec part = {message, sizeof(*message)};
	struct msghdr all = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct pollfd ready = {.fd = listening, .events = POLLIN};
	int fd;

	if (poll(&ready, 1, 10000) != 1)
		return false;
	fd = accept(listening, NULL, NULL);
	if (fd < 0 || recvmsg(fd, &all, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*message) ||
	    control.head.cmsg_len != CMSG_LEN(3 * sizeof(int)))
		return false;
	memcpy(descriptor, CMSG_DATA(&control.head), 3 * sizeof(int));
	return close(fd) == 0;
}

static bool listens(int fd)
{
	int value = 0;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value == 1;
}

static void begin_exporter(void)
{
	int told[2];
	char byte;

	cr_assert_eq(pipe(told), 0);
	child = fork();
	if (child == 0) {
		if (listen_here(&start))
			(void)!write(told[1], "", 1);
		for (;;)
			(void)pause();
	}
	cr_assert_eq(read(told[0], &byte, 1), 1);
	cr_assert_eq(close(told[0]) | close(told[1]), 0);
}

TestSuite(exporter_family, .init = init, .fini = end_child, .timeout = 30);

Test(exporter_family, the_first_process_listens_for_the_others)
{
	unsigned before = open_descriptors();
	int value = 0;
	socklen_t size = sizeof(value);

	errno = 4711;
	cr_expect_eq(sp_exporter_who(), 0, "nobody listens");
	cr_assert_not(sp_exporter_family_join(&start));

	cr_expect_eq(errno, 4711);
	cr_assert_geq(start.family_fd, 0);
	cr_expect_eq(open_descriptors(), before + 1);
	cr_expect_eq(fcntl(start.family_fd, F_GETFD), FD_CLOEXEC);
	cr_assert_eq(getsockopt(start.family_fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size), 0);
	cr_expect_eq(value, 0, "its exporter will listen");
	cr_assert_eq(getsockopt(start.family_fd, SOL_SOCKET, SO_TYPE, &value, &size), 0);
	cr_expect_eq(value, SOCK_SEQPACKET);
	cr_expect_eq(sp_region->exporter_pid, 0);
}

Test(exporter_family, the_next_one_hands_over_what_is_its_own)
{
	struct sp_family_join message;
	int got[3] = {-1, -1, -1};
	unsigned before;
	int listening;

	cr_assert_not(sp_exporter_family_join(&start));
	listening = start.family_fd;
	begin_exporter();
	make_region();
	before = open_descriptors();
	errno = 4711;
	cr_assert(sp_exporter_family_join(&start));

	cr_expect_eq(errno, 4711);
	cr_expect_eq(open_descriptors(), before);
	cr_expect_eq(start.family_fd, -1);
	cr_expect_eq(sp_region->exporter_pid, child);
	sp_region->exporter_pid = 1;
	cr_expect_eq(sp_exporter_who(), child, "whatever the region says");
	cr_expect_eq(open_descriptors(), before);
	cr_assert(take(listening, &message, got));
	cr_expect_eq(message.version, SP_REGION_VERSION);
	cr_expect_eq(message.pid, (uint32_t)getpid());
	cr_expect_eq(message.environment, sp_family_environment(environment));
	cr_expect(same_file(got[0], start.region_fd));
	cr_expect(same_file(got[1], start.folder_fd));
	cr_expect(same_file(got[2], start.maps_fd));
}

Test(exporter_family, who_was_given_up_for_slowness_joins_again)
{
	struct sp_family_join message;
	int got[3];
	int listening;

	cr_assert_not(sp_exporter_family_join(&start));
	listening = start.family_fd;
	cr_assert(listen_here(&start));
	impatient = listening;
	make_region();
	cr_assert(sp_exporter_family_join(&start));

	cr_expect_eq(impatient, -1);
	cr_assert(take(listening, &message, got));
	cr_expect(same_file(got[0], start.region_fd));
}

Test(exporter_family, a_forked_process_says_who_executed_its_program)
{
	pid_t program = getpid();
	int status;

	cr_assert_not(sp_exporter_family_join(&start));
	cr_expect_eq(start.region->program_pid, 0);
	cr_assert(listen_here(&start));
	child = fork();
	if (child == 0) {
		make_region();
		_exit(sp_exporter_family_join(&start) && start.region->program_pid == program ? 0
											      : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	child = 0;
	cr_expect_eq(status, 0);
}

Test(exporter_family, the_region_stands_for_what_a_process_has_not)
{
	struct sp_family_join message;
	int got[3] = {-1, -1, -1};
	int listening;

	cr_assert_not(sp_exporter_family_join(&start));
	listening = start.family_fd;
	cr_assert(listen_here(&start));
	start.folder_fd = -1;
	start.maps_fd = -1;
	cr_assert(sp_exporter_family_join(&start));

	cr_expect_eq(sp_region->exporter_pid, getpid(), "nobody has listened again");
	cr_assert(take(listening, &message, got));
	for (unsigned i = 0; i < 3; i++)
		cr_expect(same_file(got[i], start.region_fd));
}

#define PROCESSES 40

/* Prefork servers: the master records no span, and its workers start profiling together. */
static _Noreturn void work(int go, int result)
{
	struct sp_family_join message;
	int got[3];
	char byte;

	(void)!read(go, &byte, 1);
	byte = sp_exporter_family_join(&start) ? 'j' : start.family_fd >= 0 ? 'l' : 'a';
	if (byte == 'l' && !listen_here(&start))
		_exit(1);
	(void)!write(result, &byte, 1);
	for (unsigned n = 0; byte == 'l' && n < PROCESSES - 1; n++)
		if (!take(start.family_fd, &message, got))
			_exit(1);
	_exit(0);
}

Test(exporter_family, of_many_that_begin_together_one_listens)
{
	int go[2];
	int result[2];
	int status;
	unsigned joined = 0;
	unsigned listen_for_others = 0;
	char byte;

	if (emulated())
		cr_skip_test("forty emulators on two processors take longer than anybody waits");
	cr_assert_eq(pipe(go) | pipe(result), 0);
	for (unsigned i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		cr_assert_geq(pid, 0);
		if (pid == 0) {
			(void)close(go[1]);
			work(go[0], result[1]);
		}
	}
	cr_assert_eq(close(go[1]), 0);
	for (unsigned i = 0; i < PROCESSES; i++) {
		cr_assert_eq(read(result[0], &byte, 1), 1);
		joined += byte == 'j';
		listen_for_others += byte == 'l';
	}
	while (wait(&status) > 0)
		cr_expect_eq(status, 0, "all have arrived");

	cr_expect_eq(listen_for_others, 1);
	cr_expect_eq(joined, PROCESSES - 1);
}

Test(exporter_family, who_has_parted_joins_nobody)
{
	int first;

	cr_assert_not(sp_exporter_family_join(&start));
	first = start.family_fd;
	cr_assert_geq(first, 0);
	cr_expect(sp_exporter_family_part());
	cr_expect_not(sp_exporter_family_part());
	cr_expect_not(sp_exporter_family_join(&start));
	cr_expect_eq(start.family_fd, -1, "another one listens");
	cr_assert_eq(close(first), 0);
	cr_expect_not(sp_exporter_family_join(&start));
	cr_expect_geq(start.family_fd, 0, "its own children find it");
	begin_exporter();
	sp_exporter_family_forked(NULL);
	cr_expect(sp_exporter_family_join(&start));
}

/* --- A process that forks, and was asked --------------------------------------------------- */

static void wait_for(pid_t pid)
{
	int status = -1;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

/* By a child that ends, as that user; 0 = as our own. */
static void be_asked(uid_t user)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (user != 0 && setresuid(user, user, user) != 0)
			_exit(1);
		errno = 4711;
		sp_exporter_family_ask_parent();
		_exit(errno == 4711 ? 0 : 2);
	}
	wait_for(pid);
}

Test(exporter_family, a_child_asks_its_parent_once)
{
	cr_expect_not(sp_exporter_family_is_asked());
	be_asked(0);

	errno = 4711;
	cr_expect(sp_exporter_family_is_asked());
	cr_expect_eq(errno, 4711);
	cr_expect_not(sp_exporter_family_is_asked());
}

Test(exporter_family, a_child_asks_nobody_but_its_parent)
{
	pid_t pid;

	be_asked(0);
	pid = fork();
	if (pid == 0)
		_exit(sp_exporter_family_is_asked());
	wait_for(pid);
	cr_expect(sp_exporter_family_is_asked());
}

Test(exporter_family, who_is_another_user_asks_in_vain)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	be_asked(65534);

	cr_expect_not(sp_exporter_family_is_asked());
}

Test(exporter_family, who_has_parted_asks_nobody)
{
	cr_assert(sp_exporter_family_part());
	be_asked(0);

	cr_expect_not(sp_exporter_family_is_asked());
}

/* Below a filter of the program no system call of ours is made. */
Test(exporter_family, nobody_asks_or_is_asked_below_a_filter)
{
	sp_seccomp_begin();
	be_asked(0);
	sp_seccomp_take_back();
	cr_expect_not(sp_exporter_family_is_asked());
	be_asked(0);
	sp_seccomp_begin();
	cr_expect_not(sp_exporter_family_is_asked());
	sp_seccomp_take_back();
	cr_expect(sp_exporter_family_is_asked());
}

Test(exporter_family, a_program_that_names_no_sink_shares_no_page)
{
	sp_exporter_family_load(false);
	be_asked(0);

	cr_expect_not(sp_exporter_family_is_asked());
}

static void expect_name(int fd, const char *forkers)
{
	struct sockaddr_un address = {0};
	socklen_t size = sizeof(address);
	char name[64];

	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	(void)snprintf(name, sizeof(name), SP_FAMILY_NAME, forkers, "",
		       (unsigned long long)sp_region_now()->program_loaded_ns, (unsigned)geteuid());
	cr_expect_str_eq(address.sun_path + 1, name);
}

/* The exporter of a worker listens. This process is asked; returns its socket. */
static int listen_for_children(void)
{
	cr_assert_not(sp_exporter_family_join(&start));
	expect_name(start.family_fd, "");
	cr_assert(listen_here(&start));
	be_asked(0);
	cr_assert(sp_exporter_family_is_asked());
	make_region();
	cr_assert_not(sp_exporter_family_join(&start));
	cr_assert_geq(start.family_fd, 0);
	expect_name(start.family_fd, "f");
	return start.family_fd;
}

Test(exporter_family, who_was_asked_listens_beside_the_exporter_of_a_worker)
{
	(void)listen_for_children();
}

/* In a child of this process. 0: it has joined the exporter that is `child`. */
static int join_as_child(void)
{
	pid_t exporter = child;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		make_region();
		if (!sp_exporter_family_join(&start))
			_exit(start.family_fd >= 0 ? 1 : 2);
		_exit(sp_region->exporter_pid == exporter && sp_exporter_who() == exporter &&
				      sp_exporter_family_listens()
			      ? 0
			      : 3);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

Test(exporter_family, children_join_the_exporter_of_who_was_asked)
{
	struct sp_family_join message;
	int listening = listen_for_children();
	int got[3];

	begin_exporter();
	cr_expect_eq(join_as_child(), 0);
	cr_expect(take(listening, &message, got));
}

Test(exporter_family, children_meet_as_before_where_the_exporter_of_who_was_asked_has_ended)
{
	int of_worker;
	int status = -1;
	pid_t pid;

	cr_assert_not(sp_exporter_family_join(&start));
	of_worker = start.family_fd;
	be_asked(0);
	cr_assert(sp_exporter_family_is_asked());
	begin_exporter();
	cr_expect_eq(join_as_child(), 0, "that of a worker is there");
	end_child();
	cr_assert_eq(close(of_worker), 0);

	pid = fork();
	if (pid == 0) {
		unsigned before = open_descriptors();

		make_region();
		/* Three for the region, and one for the socket. */
		if (sp_exporter_family_join(&start) || start.family_fd < 0 ||
		    open_descriptors() != before + 4)
			_exit(1);
		expect_name(start.family_fd, "");
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

Test(exporter_family, who_was_refused_or_has_parted_joins_the_exporter_of_no_parent)
{
	(void)listen_for_children();
	begin_exporter();
	make_region();
	cr_assert(sp_exporter_family_join(&start));

	sp_exporter_family_refused();
	cr_expect_not(sp_exporter_family_join(&start));
	sp_exporter_family_forked(NULL);
	cr_expect(sp_exporter_family_join(&start));
	cr_expect(sp_exporter_family_part());
	cr_expect_not(sp_exporter_family_join(&start));
}

/* Any process may listen at a name. */
Test(exporter_family, who_was_asked_meets_as_before_where_a_stranger_has_the_name)
{
	be_asked(0);
	cr_assert(sp_exporter_family_is_asked());
	cr_assert_not(sp_exporter_family_join(&start));
	expect_name(start.family_fd, "f");
	cr_assert_eq(listen(start.family_fd, 10), 0);
	make_region();

	cr_expect_not(sp_exporter_family_join(&start));
	cr_assert_geq(start.family_fd, 0);
	expect_name(start.family_fd, "");
}

Test(exporter_family, the_region_says_when_the_program_was_loaded)
{
	struct sockaddr_un address = {0};
	socklen_t size = sizeof(address);
	char name[64];

	cr_assert_not(sp_exporter_family_join(&start));
	cr_assert_eq(getsockname(start.family_fd, (struct sockaddr *)&address, &size), 0);
	(void)snprintf(name, sizeof(name), SP_FAMILY_NAME, "", "",
		       (unsigned long long)sp_region_now()->program_loaded_ns, (unsigned)geteuid());
	cr_expect_str_eq(address.sun_path + 1, name);
}

Test(exporter_family, an_exporter_is_woken_without_a_flush)
{
	struct sp_region *r = sp_region_now();

	sp_exporter_wake(r);
	cr_expect_eq(r->wake, 1);
	cr_expect_eq(r->flush_asked, 0);
}

static void expect_alone(void)
{
	unsigned before = open_descriptors();

	cr_expect_not(sp_exporter_family_join(&start));
	cr_expect_eq(start.family_fd, -1);
	cr_expect_eq(sp_region->exporter_pid, 0);
	cr_expect_eq(open_descriptors(), before);
}

/* The name is taken by a process that does not listen, is another user's, or lets no process in. */
static int take_name(void)
{
	struct sockaddr_un address;
	socklen_t size = sizeof(address);
	int fd;

	cr_assert_not(sp_exporter_family_join(&start));
	cr_assert_eq(getsockname(start.family_fd, (struct sockaddr *)&address, &size), 0);
	cr_assert_eq(close(start.family_fd), 0);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
	return fd;
}

Test(exporter_family, a_name_that_nobody_listens_at_is_not_waited_for)
{
	(void)take_name();

	expect_alone();
}

Test(exporter_family, where_too_many_wait_a_process_is_alone)
{
	int fd = take_name();

	start.family_fd = fd;
	cr_assert(listen_here(&start));
	cr_assert_eq(listen(fd, 0), 0);
	cr_assert(sp_exporter_family_join(&start));
	sp_region->exporter_pid = 0;

	expect_alone();
}

Test(exporter_family, another_users_process_is_not_joined)
{
	struct sp_family_join message;
	int fd = take_name();
	pid_t pid;
	int accepted;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	pid = fork();
	start.family_fd = fd;
	if (pid == 0) {
		if (setresuid(65534, 65534, 65534) == 0 && listen_here(&start))
			for (;;)
				(void)pause();
		_exit(1);
	}
	child = pid;
	for (unsigned i = 0; i < 5000 && !listens(fd); i++)
		(void)poll(NULL, 0, 1);

	expect_alone();
	accepted = accept(fd, NULL, NULL);
	cr_assert_geq(accepted, 0);
	cr_expect_eq(recv(accepted, &message, sizeof(message), 0), 0, "it was told nothing");
}

Test(exporter_family, without_descriptors_a_process_is_alone)
{
	struct rlimit before;
	struct rlimit none;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){3, before.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);

	cr_expect_not(sp_exporter_family_join(&start));
	cr_expect_eq(start.family_fd, -1);
	cr_expect(sp_exporter_family_listens(), "nobody knows");
	/* The leak sanitizer needs some descriptors. */
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}

Test(exporter_family, whose_exporter_has_ended_is_told)
{
	cr_assert_not(sp_exporter_family_join(&start));
	begin_exporter();
	cr_assert_eq(close(start.family_fd), 0);
	cr_assert(sp_exporter_family_join(&start));

	cr_expect(sp_exporter_family_listens());
	end_child();
	errno = 4711;
	cr_expect_not(sp_exporter_family_listens());
	cr_expect_eq(errno, 4711);
}

/*
 * Starts a process of ours that listens like an exporter: it puts the proof into its arguments, and then executes
 * that program, or nothing.
 */
static void begin_listener(const char *proof, char *const *program)
{
	int fd = take_name();

	child = fork();
	if (child == 0) {
		char name[SP_PROOF_BYTES];

		if (proof == NULL)
			sp_exporter_proof(start.secret, (uint64_t)getpid(), start_of(getpid()),
					  name);
		if (prctl(PR_SET_NAME, proof != NULL ? proof : "listener") != 0 ||
		    listen(fd, 10) != 0)
			_exit(1);
		for (unsigned i = 0; program != NULL && program[i] != NULL; i++)
			if (proof == NULL && strcmp(program[i], "PROOF") == 0)
				memcpy(program[i], name, sizeof("PROOF"));
		if (program != NULL)
			(void)execv(program[0], program);
		for (;;)
			(void)pause();
	}
	for (unsigned i = 0; i < 5000 && !listens(fd); i++)
		(void)poll(NULL, 0, 1);
	cr_assert(listens(fd));
	start.family_fd = fd;
}

static void expect_stranger(void)
{
	struct sp_family_join message;
	int fd = start.family_fd;
	int accepted;

	expect_alone();
	accepted = accept(fd, NULL, NULL);
	cr_assert_geq(accepted, 0);
	cr_expect_eq(recv(accepted, &message, sizeof(message), 0), 0, "it was told nothing");
	cr_expect_eq(sp_exporter_who(), 0, "it would get the right to trace");
	cr_expect_not(sp_exporter_family_listens(), "it would be waited for");
}

Test(exporter_family, a_process_of_the_same_user_without_the_secret_is_handed_nothing)
{
	begin_listener("spanprof-export", NULL);

	expect_stranger();
}

Test(exporter_family, the_proof_of_another_exporter_proves_nothing)
{
	char proof[SP_PROOF_BYTES];

	cr_assert_not(sp_exporter_family_join(&start));
	sp_exporter_proof(start.secret, (uint64_t)getpid(), start_of(getpid()), proof);
	cr_assert_eq(close(start.family_fd), 0);
	begin_listener(proof, NULL);

	expect_stranger();
}

static void become_one_of_another_time(void)
{
	const uint64_t began = start_of(getpid());

	if (listen_as_exporter(start.family_fd, start.secret, getpid(), began + 1))
		for (;;)
			(void)pause();
	_exit(1);
}

Test(exporter_family, an_exporter_that_had_the_number_before_proves_nothing)
{
	start.family_fd = take_name();
	child = fork();
	if (child == 0)
		become_one_of_another_time();
	for (unsigned i = 0; i < 5000 && !listens(start.family_fd); i++)
		(void)poll(NULL, 0, 1);

	expect_stranger();
}

Test(exporter_family, another_secret_proves_nothing)
{
	const uint64_t other[2] = {1, 2};

	start.family_fd = take_name();
	child = fork();
	if (child == 0) {
		if (listen_as_exporter(start.family_fd, other, getpid(), start_of(getpid())))
			for (;;)
				(void)pause();
		_exit(1);
	}
	for (unsigned i = 0; i < 5000 && !listens(start.family_fd); i++)
		(void)poll(NULL, 0, 1);

	expect_stranger();
}

/*
 * Whether a shell is joined that waits for ever, with `more` before its last argument. The shell has the listening
 * socket.
 */
static bool is_joined_with_arguments(char *more, bool is_last)
{
	int waits[2];
	char last[SP_PROOF_BYTES];
	char *program[] = {(char[]){"/bin/sh"},
			   (char[]){"-c"},
			   (char[]){"read x"},
			   more,
			   last,
			   is_last ? NULL : (char[]){"after"},
			   NULL};
	int fd = take_name();
	bool is_joined;

	cr_assert_eq(pipe(waits), 0);
	start.family_fd = fd;
	child = fork();
	if (child == 0) {
		(void)dup2(waits[0], STDIN_FILENO);
		(void)close(waits[1]);
		sp_exporter_proof(start.secret, (uint64_t)getpid(), start_of(getpid()), last);
		if (fcntl(fd, F_SETFD, 0) == 0 && listen(fd, 10) == 0)
			(void)execv(program[0], program);
		_exit(1);
	}
	for (unsigned i = 0; i < 5000 && !listens(fd); i++)
		(void)poll(NULL, 0, 1);
	for (unsigned i = 0; i < 5000; i++) {
		char path[32];
		char text[8];
		int file;
		ssize_t got;

		(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)child);
		file = open(path, O_RDONLY | O_CLOEXEC);
		got = read(file, text, sizeof(text));
		(void)close(file);
		if (got == 8 && memcmp(text, "/bin/sh", 8) == 0)
			break;
		(void)poll(NULL, 0, 1);
	}
	is_joined = sp_exporter_family_join(&start);
	start.family_fd = fd;
	cr_expect_eq(is_joined, sp_region->exporter_pid == child);
	(void)close(waits[0]);
	(void)close(waits[1]);
	return is_joined;
}

Test(exporter_family, the_last_argument_proves_an_exporter)
{
	cr_expect(is_joined_with_arguments((char[]){"more"}, true));
}

Test(exporter_family, an_argument_before_the_last_proves_nothing)
{
	cr_expect_not(is_joined_with_arguments((char[]){"more"}, false));
}

Test(exporter_family, the_proof_is_found_behind_long_paths)
{
	static char more[20000];

	/* 1,024 bytes are read at once: the proof, which begins after 19 other bytes, is cut in each place. */
	for (size_t len = 988; len <= 1006; len += 2) {
		memset(more, 'm', len);
		more[len] = '\0';
		cr_assert(is_joined_with_arguments(more, true), "%zu", len);
		end_child();
		cr_assert_eq(close(start.family_fd), 0);
		make_region();
	}
	memset(more, 'm', sizeof(more) - 1);
	cr_assert_not(is_joined_with_arguments(more, true), "endless arguments are not read");
}
