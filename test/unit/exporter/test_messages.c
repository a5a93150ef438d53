/* SPDX-License-Identifier: Apache-2.0 */
/* Where a message goes, for each kind of stderr of the host. The host is the test. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/exporter/messages.h"
#include "host_double.h"

static struct sp_view view;
static struct sp_host seen;
static struct sp_messages messages;
static int kept;
static int ends[2];

static void set_up(void)
{
	host_make();
	host_open(&view, &seen);
	kept = dup(STDERR_FILENO);
}

TestSuite(messages, .init = set_up, .timeout = 20);

/* Logs a line while that file is the host's stderr. */
static void tell(int before, int after, enum sp_log_level level, const char *text)
{
	cr_assert_geq(dup2(before, STDERR_FILENO), 0);
	sp_messages_init(&messages, &seen, host.region, SP_LOG_WARN);
	cr_assert_geq(dup2(after, STDERR_FILENO), 0);
	sp_messages_write(&messages, level, text);
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
}

static void tell_more(int fd, const char *text)
{
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	sp_messages_write(&messages, SP_LOG_WARN, text);
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
}

static char *content(int fd)
{
	static char text[8192];
	ssize_t got;

	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	got = read(fd, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = '\0';
	return text;
}

static const char *expected(const char *text)
{
	static char line[256];

	(void)snprintf(line, sizeof(line), "spanprof[%d]: %s\n", (int)getpid(), text);
	return line;
}

static int new_file(char *path, int flags)
{
	int fd = mkstemp(path);
	int again = open(path, flags | O_CLOEXEC);

	(void)close(fd);
	cr_assert_geq(again, 0);
	return again;
}

static int file(int flags)
{
	char path[] = "/tmp/spanprof-test-XXXXXX";
	int fd = new_file(path, flags);

	(void)unlink(path);
	return fd;
}

static bool is_asked(void)
{
	return host.region->message[0].bytes != 0;
}

static void expect_asked(unsigned place, const char *text)
{
	const struct sp_region_message *m = &host.region->message[place];

	cr_expect_eq(m->bytes, strlen(text), "%u: %u bytes", place, m->bytes);
	cr_expect_eq(memcmp(m->text, text, strlen(text)), 0, "%u", place);
}

Test(messages, go_into_a_pipe)
{
	cr_assert_eq(pipe(ends), 0);
	tell(ends[1], ends[1], SP_LOG_WARN, "it\nis \x1b[31mred");

	cr_expect_str_eq(content(ends[0]), expected("it is  [31mred"));
	cr_expect(!is_asked());
}

Test(messages, are_filtered_by_level)
{
	cr_assert_eq(pipe(ends), 0);
	tell(ends[1], ends[1], SP_LOG_INFO, "chatter");
	tell(ends[1], ends[1], SP_LOG_NONE, "nothing");
	tell(ends[1], ends[1], SP_LOG_ERROR, "trouble");

	cr_expect_str_eq(content(ends[0]), expected("trouble"));
}

Test(messages, are_added_to_a_file_that_has_grown)
{
	char path[32];
	int fd = file(O_WRONLY | O_APPEND);

	cr_assert_eq(write(fd, "before\n", 7), 7);
	tell(fd, fd, SP_LOG_WARN, "after");

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_expect_str_eq(content(open(path, O_RDONLY)) + 7, expected("after"));
}

Test(messages, never_go_into_a_file_that_is_read_too)
{
	char path[32];
	int fd = file(O_RDWR | O_APPEND);

	tell(fd, fd, SP_LOG_WARN, "into the database");

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_expect_str_eq(content(open(path, O_RDONLY)), "");
	/* The host refuses such a file, too, but may have another log there by then. */
	expect_asked(0, "into the database");
}

/* The program has opened the file itself, so it was started without a standard error. */
Test(messages, never_go_into_a_file_that_is_closed_on_exec)
{
	cr_assert_eq(pipe(ends), 0);
	cr_assert_geq(dup3(ends[1], STDERR_FILENO, O_CLOEXEC), 0);
	sp_messages_init(&messages, &seen, host.region, SP_LOG_WARN);
	sp_messages_write(&messages, SP_LOG_WARN, "into a connection");
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);

	cr_expect_eq(messages.way, SP_MESSAGES_BY_HOST);
	expect_asked(0, "into a connection");
}

Test(messages, never_go_into_another_file_than_at_first)
{
	int other[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(pipe(other), 0);
	tell(ends[1], other[1], SP_LOG_WARN, "to whom");

	cr_expect_str_eq(content(ends[0]), "");
	cr_expect_str_eq(content(other[0]), "");
	/* The host knows whether the file is its log now. */
	expect_asked(0, "to whom");
}

Test(messages, without_a_stderr_are_left_to_the_host)
{
	(void)close(STDERR_FILENO);
	sp_messages_init(&messages, &seen, host.region, SP_LOG_WARN);
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
	sp_messages_write(&messages, SP_LOG_WARN, "into what was opened later");
	cr_expect_eq(messages.way, SP_MESSAGES_BY_HOST);
	expect_asked(0, "into what was opened later");
}

/* As under journald. */
Test(messages, for_a_socket_are_left_to_the_host)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	tell(ends[1], ends[1], SP_LOG_WARN, "the first");
	tell_more(ends[1], "the second");

	cr_expect_str_eq(content(ends[0]), "");
	expect_asked(0, "the first");
	expect_asked(1, "the second");
	cr_expect_eq(host.region->deferred_work, SP_WORK_WRITE);
}

Test(messages, wait_in_their_order_for_as_many_as_there_is_room_for)
{
	char text[32];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	tell(ends[1], ends[1], SP_LOG_WARN, "0");
	for (unsigned i = 1; i < SP_REGION_MESSAGES + 3; i++) {
		(void)snprintf(text, sizeof(text), "%u", i);
		tell_more(ends[1], text);
	}
	for (unsigned i = 0; i < SP_REGION_MESSAGES; i++) {
		(void)snprintf(text, sizeof(text), "%u", i);
		expect_asked(i, text);
	}

	/* The host has written two of them. */
	host.region->message[0].bytes = 0;
	host.region->message[1].bytes = 0;
	for (unsigned i = 0; i < 3; i++)
		tell_more(ends[1], i == 0 ? "a" : i == 1 ? "b" : "c");
	expect_asked(0, "a");
	expect_asked(1, "b");
	expect_asked(2, "2");
}

/* The host's next line would overwrite ours. */
Test(messages, for_a_file_with_an_offset_are_left_to_the_host)
{
	char path[32];
	int fd = file(O_WRONLY);

	tell(fd, fd, SP_LOG_WARN, "under the next line");

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_expect_str_eq(content(open(path, O_RDONLY)), "");
	expect_asked(0, "under the next line");
}

/* The process was root and has another user's files, which the kernel does not show. */
Test(messages, for_a_stderr_that_may_not_be_seen_are_left_to_the_host)
{
	int nothing = open("/dev/null", O_RDONLY);
	struct sp_host barred = seen;

	cr_assert_eq(pipe(ends), 0);
	barred.proc = nothing;
	sp_messages_init(&messages, &barred, host.region, SP_LOG_WARN);
	cr_expect_eq(messages.way, SP_MESSAGES_BY_HOST);
	sp_messages_write(&messages, SP_LOG_WARN, "in the dark");
	expect_asked(0, "in the dark");
}

static int killed_hosts_stderr;

static void become_stderr(void)
{
	(void)dup2(killed_hosts_stderr, STDERR_FILENO);
	atomic_store(&host.region->state, SP_REGION_LEAVING);
}

/* Logs a line for a host that was killed by a signal, after its end. */
static void tell_after_the_end(int fd)
{
	const struct sp_host_descriptors joins = {
		.region = -1, .folder = -1, .maps = -1, .joined = true};

	killed_hosts_stderr = fd;
	sp_host_close(&seen);
	sp_view_close(&view);
	host_start(become_stderr);
	cr_assert(becomes(&host.region->state, SP_REGION_LEAVING));
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	cr_assert_eq(sp_host_open(&seen, &view, &joins), 0);
	sp_messages_init(&messages, &seen, host.region, SP_LOG_WARN);
	host_kill();
	sp_messages_write(&messages, SP_LOG_WARN, "the last");
	sp_host_close(&seen);
	sp_messages_write(&messages, SP_LOG_WARN, "the very last");
}

static const char *expected_of_the_killed(void)
{
	static char lines[256];

	(void)snprintf(lines, sizeof(lines),
		       "spanprof[%d]: the last\nspanprof[%d]: the very last\n", (int)host.pid,
		       (int)host.pid);
	return lines;
}

Test(messages, of_a_killed_host_are_added_to_a_file_that_it_appended_to)
{
	char path[] = "/tmp/spanprof-test-XXXXXX";
	int fd = new_file(path, O_WRONLY | O_APPEND);

	cr_assert_geq(fd, 0);
	tell_after_the_end(fd);

	cr_expect_str_eq(content(open(path, O_RDONLY)), expected_of_the_killed());
	(void)unlink(path);
}

Test(messages, of_a_killed_host_never_go_into_another_file_of_that_name)
{
	char path[] = "/tmp/spanprof-test-XXXXXX";
	char moved[64];
	int fd = new_file(path, O_WRONLY | O_APPEND);
	int next;

	cr_assert_geq(fd, 0);
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	sp_messages_init(&messages, &seen, host.region, SP_LOG_WARN);
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
	sp_host_close(&seen);
	(void)snprintf(moved, sizeof(moved), "%s.1", path);
	cr_assert_eq(rename(path, moved), 0);
	next = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	sp_messages_write(&messages, SP_LOG_WARN, "after rotation");

	cr_expect_str_eq(content(next), "");
	cr_expect_str_eq(content(open(moved, O_RDONLY)), "");
	(void)unlink(path);
	(void)unlink(moved);
}

/*
 * The text that a terminal shows, without the carriage returns that it adds. The terminal shows
 * lines later than they are written, so "end" is written after all others.
 */
static const char *shown_before_end(int master, int terminal)
{
	static char text[1024];
	struct pollfd more = {.fd = master, .events = POLLIN};
	size_t len = 0;
	char *end;

	cr_assert_eq(write(terminal, "end", 3), 3);
	memset(text, 0, sizeof(text));
	while ((end = strstr(text, "end")) == NULL && poll(&more, 1, 10000) == 1 &&
	       read(master, text + len, 1) == 1)
		len += text[len] != '\r';
	cr_assert_not_null(end);
	*end = '\0';
	return text;
}

static int open_terminal(int *master, char *name, size_t size)
{
	*master = posix_openpt(O_RDWR | O_NOCTTY);
	if (*master < 0 || grantpt(*master) != 0 || unlockpt(*master) != 0 ||
	    ptsname_r(*master, name, size) != 0)
		cr_skip_test("there is no terminal");
	return open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static bool is_of_the_same_tick(int terminal, const struct timespec *then)
{
	struct stat st;

	return fstat(terminal, &st) == 0 && st.st_ctim.tv_sec == then->tv_sec &&
	       st.st_ctim.tv_nsec == then->tv_nsec;
}

Test(messages, of_a_killed_host_go_to_its_terminal_and_to_no_later_one, .timeout = 20)
{
	char name[64], later[64];
	struct stat first;
	int master;
	int terminal = open_terminal(&master, name, sizeof(name));

	cr_assert(terminal >= 0 && fstat(terminal, &first) == 0);
	tell_after_the_end(terminal);
	cr_expect_str_eq(shown_before_end(master, terminal), expected_of_the_killed());

	/*
	 * Terminals with the same number differ by their time of creation, which the kernel knows
	 * to a tick of its clock.
	 */
	do {
		(void)close(terminal);
		(void)close(master);
		terminal = open_terminal(&master, later, sizeof(later));
		cr_assert_geq(terminal, 0);
	} while (is_of_the_same_tick(terminal, &first.st_ctim));
	if (strcmp(name, later) != 0)
		cr_skip_test("another one has got its number");
	sp_messages_write(&messages, SP_LOG_WARN, "to a stranger");
	cr_expect_str_eq(shown_before_end(master, terminal), "");
}

/* A pipe has no name, and a file without O_APPEND may belong to others from then on. */
Test(messages, of_a_killed_host_go_nowhere_else)
{
	char path[] = "/tmp/spanprof-test-XXXXXX";
	int fd = new_file(path, O_WRONLY);

	cr_assert_geq(fd, 0);
	tell_after_the_end(fd);

	cr_expect_str_eq(content(open(path, O_RDONLY)), "");
	(void)unlink(path);
}

Test(messages, wait_for_no_reader)
{
	static const char filler[4096];

	cr_assert_eq(pipe(ends), 0);
	(void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], filler, sizeof(filler)) > 0)
		;
	(void)fcntl(ends[1], F_SETFL, 0);

	tell(ends[1], ends[1], SP_LOG_WARN, "the pipe is full");
	expect_asked(0, "the pipe is full");
	cr_expect_eq(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0, "the host's own is as it was");
}

Test(messages, are_cut_between_characters)
{
	char text[2000];
	const char *got;

	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 3);
	memcpy(text, "x\xc3\xa9", 3);
	memmove(text + 3, text + 4, strlen(text + 4) + 1);
	cr_assert_eq(pipe(ends), 0);
	tell(ends[1], ends[1], SP_LOG_WARN, text);

	got = content(ends[0]);
	cr_expect_eq(got[strlen(got) - 1], '\n');
	cr_expect_eq(memcmp(got + strlen(got) - 3, "\xc3\xa9", 2), 0);
	cr_expect_leq(strlen(got), 1000 + 32 + 1);
}

Test(messages, survive_words_that_are_too_long_for_the_region)
{
	char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	tell(ends[1], ends[1], SP_LOG_WARN, text);

	cr_expect_eq(host.region->message[0].bytes, 1000);
}
