/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about joining, with a child process of the test for the exporter. */
#define _GNU_SOURCE
#include "preload/exporter/exporter.h"
#include "region_version.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/region/region.h"
#include "test/unit/emulated.h"

static char one[] = "ONE=1";
static char *environment[] = {one, NULL};
static struct sp_exporter_start start;
static pid_t child;

static int impatient = -1; /* a socket that listens, whose owner gives up who comes first */

/* In place of the C library's: the one who joins is held up between its connect and its message. */
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list args;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	va_start(args, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_sendmsg && impatient >= 0) {
		(void)close(accept(impatient, NULL, NULL));
		impatient = -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
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

/* Takes the oldest message and its descriptors from a socket that listens. */
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

/* As an exporter does at its beginning: the socket is its own from then on. */
static void begin_exporter(void)
{
	int told[2];
	char byte;

	cr_assert_eq(pipe(told), 0);
	child = fork();
	if (child == 0) {
		if (listen(start.family_fd, 4096) == 0)
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
	cr_expect_eq(value, 1);
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
	start.folder_fd = -1;
	start.maps_fd = -1;
	cr_assert(sp_exporter_family_join(&start));

	cr_expect_eq(sp_region->exporter_pid, getpid(), "nobody has listened again");
	cr_assert(take(listening, &message, got));
	for (unsigned i = 0; i < 3; i++)
		cr_expect(same_file(got[i], start.region_fd));
}

#define PROCESSES 40

/* Prefork servers: the master records no span, and its workers begin together. */
static _Noreturn void work(int go, int result)
{
	struct sp_family_join message;
	int got[3];
	char byte;

	(void)!read(go, &byte, 1);
	byte = sp_exporter_family_join(&start) ? 'j' : start.family_fd >= 0 ? 'l' : 'a';
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

static void expect_alone(void)
{
	unsigned before = open_descriptors();

	cr_expect_not(sp_exporter_family_join(&start));
	cr_expect_eq(start.family_fd, -1);
	cr_expect_eq(sp_region->exporter_pid, 0);
	cr_expect_eq(open_descriptors(), before);
}

/* Where somebody has the name and does not listen, is of another user, or lets nobody in. */
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

	cr_assert_eq(listen(fd, 0), 0);
	cr_assert(sp_exporter_family_join(&start));
	sp_region->exporter_pid = 0;

	expect_alone();
}

Test(exporter_family, another_users_process_is_not_joined)
{
	struct sp_family_join message;
	int fd = take_name();
	int status = -1;
	pid_t pid;
	int accepted;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	pid = fork();
	if (pid == 0)
		_exit(setresuid(65534, 65534, 65534) == 0 && listen(fd, 10) == 0 ? 0 : 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);

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
	/* The leak sanitizer needs some. */
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
