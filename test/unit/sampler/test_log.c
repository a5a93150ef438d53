/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sampler/base/log.c: the form of a line, and that it cannot hurt the program around it. */
#include "sampler/base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "sampler/base/syscall.h"
#include "stderr_pipe.h"

static int refusing; /* the errno of the next writes */
static int refusals;
static mode_t pretended; /* the type of descriptor 2, unless 0 */

/* Replaces the product's function. */
long sp_syscall_make(long number, const long arg[6])
{
	long result;

	if (number == SYS_write && refusals > 0) {
		refusals--;
		errno = refusing;
		return -1;
	}
	result = sp_syscall_result(sp_arch_syscall6(number, arg));
	if (number == SYS_newfstatat && pretended != 0)
		((struct stat *)arg[2])->st_mode = pretended;
	return result;
}

static char prefix[32];

static const char *own_prefix(void)
{
	(void)snprintf(prefix, sizeof(prefix), "spanprof[%d]: ", (int)getpid());
	return prefix;
}

/* The text of the only line, without prefix and newline. */
static const char *only_line(void)
{
	size_t skip = strlen(own_prefix());

	cr_assert_eq(stderr_end(), 1);
	cr_assert_eq(strncmp(stderr_text, prefix, skip), 0, "got: %s", stderr_text);
	stderr_text[strlen(stderr_text) - 1] = '\0';
	return stderr_text + skip;
}

static int pending(int number)
{
	sigset_t set;

	cr_assert_eq(sigpending(&set), 0);
	return sigismember(&set, number);
}

static int blocked(int number)
{
	sigset_t set;

	cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	return sigismember(&set, number);
}

static void block(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	cr_assert_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
}

/* A socket that polls writable and answers a write with EPIPE and SIGPIPE. */
static void stderr_to_broken_socket(int *kept)
{
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	cr_assert_eq(shutdown(ends[0], SHUT_WR), 0);
	*kept = dup(STDERR_FILENO);
	cr_assert_geq(dup2(ends[0], STDERR_FILENO), 0);
}

Test(log, writes_prefix_text_and_newline, .timeout = 20)
{
	stderr_begin();
	sp_log(SP_LOG_WARN, "ring full, %u samples dropped", 7U);

	cr_assert_str_eq(only_line(), "ring full, 7 samples dropped");
}

Test(log, makes_each_line_one_write, .timeout = 20)
{
	char got[256];
	int kept = dup(STDERR_FILENO);
	int ends[2];

	/* A packet socket keeps the writes apart. */
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	cr_assert_geq(dup2(ends[0], STDERR_FILENO), 0);
	sp_log(SP_LOG_WARN, "one %s", "line");
	sp_log(SP_LOG_WARN, "two");
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);

	ssize_t n = recv(ends[1], got, sizeof(got), MSG_DONTWAIT);
	cr_assert_eq((size_t)n, strlen(own_prefix()) + strlen("one line\n"));
	n = recv(ends[1], got, sizeof(got), MSG_DONTWAIT);
	cr_assert_eq((size_t)n, strlen(own_prefix()) + strlen("two\n"));
	cr_assert_lt(recv(ends[1], got, sizeof(got), MSG_DONTWAIT), 0);
}

Test(log, prints_up_to_the_level_and_nothing_when_off, .timeout = 20)
{
	stderr_begin();
	sp_log(SP_LOG_INFO, "hidden by default");
	sp_log_set_level(SP_LOG_DEBUG);
	sp_log(SP_LOG_DEBUG, "debug");
	sp_log_set_level(SP_LOG_ERROR);
	sp_log(SP_LOG_WARN, "hidden");
	sp_log(SP_LOG_ERROR, "error");
	sp_log_set_level(SP_LOG_NONE);
	sp_log(SP_LOG_ERROR, "hidden");
	sp_log(SP_LOG_NONE, "hidden");

	cr_expect_eq(stderr_end(), 2);
	cr_expect(!stderr_has("hidden"), "got: %s", stderr_text);
}

Test(log, replaces_control_characters_and_keeps_utf8, .timeout = 20)
{
	stderr_begin();
	sp_log(SP_LOG_WARN, "%s",
	       "a\nb\r\x1b[31m\x7f caf\xc3\xa9 \xc2\x9b"
	       "2J \x9b"
	       "2J \xff");

	cr_assert_str_eq(only_line(), "a b  [31m  caf\xc3\xa9   2J ?2J ?");
}

Test(log, cuts_long_text_between_characters, .timeout = 20)
{
	char text[1200];
	const char *line;

	memset(text, 'x', sizeof(text));
	memcpy(text + 999, "\xc3\xa9", 2);
	text[sizeof(text) - 1] = '\0';
	stderr_begin();
	sp_log(SP_LOG_WARN, "%s", text);
	line = only_line();
	cr_expect_eq(strlen(line), 999, "got %zu", strlen(line));

	text[1000] = '\0';
	text[999] = 'x';
	stderr_begin();
	sp_log(SP_LOG_WARN, "%s", text);
	cr_expect_eq(strlen(only_line()), 1000);
}

Test(log, leaves_errno_alone, .timeout = 20)
{
	int kept = dup(STDERR_FILENO);

	close(STDERR_FILENO);
	errno = 1234;
	sp_log(SP_LOG_WARN, "nobody hears this");
	int after = errno;
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);

	cr_assert_eq(after, 1234);
}

Test(log, survives_a_reader_that_is_gone, .timeout = 20)
{
	int kept;

	stderr_to_broken_socket(&kept);
	sp_log(SP_LOG_WARN, "into the void");
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);

	cr_expect_eq(pending(SIGPIPE), 0);
	cr_expect_eq(blocked(SIGPIPE), 0);
}

Test(log, leaves_no_signal_behind_in_a_host_that_blocks_it, .timeout = 20)
{
	int kept;

	block(SIGPIPE);
	stderr_to_broken_socket(&kept);
	sp_log(SP_LOG_WARN, "into the void");
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);

	cr_expect_eq(pending(SIGPIPE), 0);
	cr_expect_eq(blocked(SIGPIPE), 1);
}

Test(log, leaves_the_hosts_pending_sigpipe_to_it, .timeout = 20)
{
	int kept;

	block(SIGPIPE);
	cr_assert_eq(raise(SIGPIPE), 0);
	stderr_to_broken_socket(&kept);
	sp_log(SP_LOG_WARN, "into the void");
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);

	cr_expect_eq(pending(SIGPIPE), 1);
}

Test(log, survives_a_file_at_its_limit, .timeout = 20)
{
	struct rlimit none = {0, RLIM_INFINITY};
	struct rlimit old;
	FILE *file = tmpfile();
	int kept = dup(STDERR_FILENO);

	cr_assert_not_null(file);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	none.rlim_max = old.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	cr_assert_geq(dup2(fileno(file), STDERR_FILENO), 0);
	sp_log(SP_LOG_WARN, "does not fit");
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &old), 0);

	cr_expect_eq(pending(SIGXFSZ), 0);
	cr_expect_eq(blocked(SIGXFSZ), 0);
}

Test(log, tries_again_after_a_signal_of_the_hosts_but_not_for_ever, .timeout = 20)
{
	stderr_begin();
	refusing = EINTR;
	refusals = 2;
	sp_log(SP_LOG_WARN, "heard");
	cr_expect_eq(refusals, 0);
	refusals = 1000;
	sp_log(SP_LOG_WARN, "interrupted");
	cr_expect_gt(refusals, 900);
	refusing = EIO;
	refusals = 1;
	sp_log(SP_LOG_WARN, "refused");
	refusals = 0;

	cr_assert_str_eq(only_line(), "heard");
}

Test(log, does_not_wait_for_a_reader_that_stopped, .timeout = 20)
{
	char chunk[4096];
	int kept = dup(STDERR_FILENO);
	size_t filled = 0;
	size_t found = 0;
	ssize_t n;
	int ends[2];

	memset(chunk, '.', sizeof(chunk));
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while ((n = write(ends[1], chunk, sizeof(chunk))) > 0)
		filled += (size_t)n;
	cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
	cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
	sp_log(SP_LOG_WARN, "dropped");
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);

	cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	while ((n = read(ends[0], chunk, sizeof(chunk))) > 0)
		found += (size_t)n;
	cr_assert_eq(found, filled);
}

/* The content of a file after a line was logged while the file, opened again with these flags, was descriptor 2. */
static const char *told_into_another_file(int flags)
{
	static char text[256];
	char path[] = "/tmp/spanprof-test-XXXXXX";
	int made = mkstemp(path);
	int fd = open(path, flags);
	ssize_t n;

	cr_assert(made >= 0 && fd >= 0);
	(void)unlink(path);
	stderr_begin();
	cr_assert_geq(dup3(fd, STDERR_FILENO, flags & O_CLOEXEC), 0);
	sp_log(SP_LOG_WARN, "after rotation");
	(void)stderr_end();
	cr_assert_str_eq(stderr_text, "");
	n = read(made, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	close(made);
	close(fd);
	return text;
}

Test(log, follows_to_another_file_only_if_that_is_a_log, .timeout = 20)
{
	const char *line = told_into_another_file(O_WRONLY | O_APPEND);

	cr_expect_eq(strncmp(line, own_prefix(), strlen(prefix)), 0, "got: %s", line);
	cr_expect_str_eq(line + strlen(prefix), "after rotation\n");
	cr_expect_str_eq(told_into_another_file(O_RDWR | O_APPEND), "");
	cr_expect_str_eq(told_into_another_file(O_WRONLY), "");
	cr_expect_str_eq(told_into_another_file(O_WRONLY | O_APPEND | O_CLOEXEC), "");
}

Test(log, goes_back_to_the_first_file, .timeout = 20)
{
	FILE *other = tmpfile();

	cr_assert_not_null(other);
	stderr_begin();
	int first = dup(STDERR_FILENO);
	cr_assert_geq(dup2(fileno(other), STDERR_FILENO), 0);
	sp_log(SP_LOG_WARN, "into a file that is read");
	cr_assert_geq(dup2(first, STDERR_FILENO), 0);
	close(first);
	sp_log(SP_LOG_WARN, "back");

	cr_assert_str_eq(only_line(), "back");
	cr_assert_eq(lseek(fileno(other), 0, SEEK_END), 0);
}

/* Descriptor 2 may be a connection by now, whose other end expects a protocol. */
static void tell_into(int fd, int with_stderr)
{
	int old = dup(STDERR_FILENO);

	if (!with_stderr)
		close(STDERR_FILENO);
	sp_log_begin();
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	sp_log(SP_LOG_WARN, "whose is it");
	cr_assert_geq(dup2(old, STDERR_FILENO), 0);
	close(old);
}

Test(log, follows_to_no_pipe_and_no_socket, .timeout = 20)
{
	char got[64];
	int ends[2];

	for (int with_stderr = 0; with_stderr < 2; with_stderr++) {
		cr_assert_eq(pipe(ends), 0);
		tell_into(ends[1], with_stderr);
		cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
		cr_expect_lt(read(ends[0], got, sizeof(got)), 0, "%d", with_stderr);
		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		tell_into(ends[1], with_stderr);
		cr_expect_lt(recv(ends[0], got, sizeof(got), MSG_DONTWAIT), 0, "%d", with_stderr);
	}
}

/* Reads up to the next '|', because a terminal shows text later than it is written. */
static void shown(int master, char *text, size_t size)
{
	size_t len = 0;

	do
		cr_assert(len + 1 < size && read(master, text + len, 1) == 1);
	while (text[len++] != '|');
	text[len] = '\0';
}

Test(log, follows_to_a_terminal_but_to_no_other_device, .timeout = 20)
{
	char got[64];
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	int terminal;

	if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
		cr_skip_test("there is no terminal");
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
	cr_assert_geq(terminal, 0);
	tell_into(terminal, 1);
	cr_assert_eq(write(terminal, "|", 1), 1);
	shown(master, got, sizeof(got));
	cr_expect_eq(strncmp(got, own_prefix(), strlen(prefix)), 0);

	pretended = S_IFBLK;
	tell_into(terminal, 1);
	pretended = 0;
	cr_assert_eq(write(terminal, "|", 1), 1);
	shown(master, got, sizeof(got));
	cr_expect_str_eq(got, "|");

	/* The other end of a terminal is a device, too. Text that is written there counts as typed by its user. */
	tell_into(master, 1);
	cr_assert_eq(write(master, "\n", 1), 1);
	cr_expect_eq(read(terminal, got, sizeof(got)), 1);
}

/* The content of a file that is descriptor 2 from the beginning, opened with these flags. */
static const char *told_first_into(int flags)
{
	static char text[256];
	char path[] = "/tmp/spanprof-test-XXXXXX";
	int kept = dup(STDERR_FILENO);
	int made = mkstemp(path);
	int fd = open(path, flags);
	ssize_t n;

	cr_assert(made >= 0 && fd >= 0);
	(void)unlink(path);
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	sp_log_begin();
	sp_log(SP_LOG_WARN, "a line");
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
	n = read(made, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	close(made);
	close(fd);
	close(kept);
	return text;
}

/*
 * A line for a device would go to its beginning. The starter of a program cannot have passed it a descriptor that is
 * closed on exec.
 */
Test(log, takes_nothing_for_stderr_that_the_program_has_opened, .timeout = 20)
{
	char got[64];
	int ends[2];

	cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
	for (int own = 0; own < 3; own++) {
		int kept = dup(STDERR_FILENO);

		cr_assert_geq(dup3(ends[1], STDERR_FILENO, own == 1 ? O_CLOEXEC : 0), 0);
		pretended = own == 2 ? S_IFBLK : 0;
		sp_log_begin();
		sp_log(SP_LOG_WARN, "a line");
		pretended = 0;
		cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
		close(kept);
		cr_expect_eq(read(ends[0], got, sizeof(got)) > 0, own == 0, "%d", own);
	}
	cr_expect_str_eq(told_first_into(O_RDWR), "");
	cr_expect_str_neq(told_first_into(O_WRONLY), "");
}

Test(log, takes_no_file_for_stderr_that_came_after_a_start_without_one, .timeout = 20)
{
	char path[] = "/tmp/spanprof-test-XXXXXX";
	int made = mkstemp(path);
	int fd = open(path, O_WRONLY | O_APPEND);

	cr_assert(made >= 0 && fd >= 0);
	(void)unlink(path);
	tell_into(fd, 0);
	cr_expect_eq(lseek(made, 0, SEEK_END), 0);
}
