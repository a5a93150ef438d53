/* SPDX-License-Identifier: Apache-2.0 */
/* Where a message goes, by what the host's stderr is. The host is the test. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

/* That file is the host's stderr while a line is told. */
static void tell(int before, int after, enum sp_log_level level, const char *text)
{
	cr_assert_geq(dup2(before, STDERR_FILENO), 0);
	sp_messages_init(&messages, &seen, host.region, SP_LOG_WARN);
	cr_assert_geq(dup2(after, STDERR_FILENO), 0);
	sp_messages_tell(&messages, level, text);
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
}

static const char *content(int fd)
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

static int file(int flags)
{
	char path[] = "/tmp/spanprof-test-XXXXXX";
	int fd = mkstemp(path);
	int again = open(path, flags | O_CLOEXEC);

	(void)unlink(path);
	(void)close(fd);
	cr_assert_geq(again, 0);
	return again;
}

Test(messages, go_into_a_pipe)
{
	cr_assert_eq(pipe(ends), 0);
	tell(ends[1], ends[1], SP_LOG_WARN, "it\nis \x1b[31mred");

	cr_expect_str_eq(content(ends[0]), expected("it is  [31mred"));
	cr_expect_eq(host.region->message_bytes, 0);
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
	int fd = file(O_WRONLY);

	cr_assert_eq(write(fd, "before\n", 7), 7);
	tell(fd, fd, SP_LOG_WARN, "after");

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_expect_str_eq(content(open(path, O_RDONLY)) + 7, expected("after"));
}

Test(messages, never_go_into_a_file_that_is_read_too)
{
	char path[32];
	int fd = file(O_RDWR);

	tell(fd, fd, SP_LOG_WARN, "into the database");

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_expect_str_eq(content(open(path, O_RDONLY)), "");
	cr_expect_eq(host.region->message_bytes, 0, "nor does the host write it there");
}

Test(messages, never_go_into_another_file_than_at_first)
{
	int other[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(pipe(other), 0);
	tell(ends[1], other[1], SP_LOG_WARN, "to whom");

	cr_expect_str_eq(content(ends[0]), "");
	cr_expect_str_eq(content(other[0]), "");
	cr_expect_eq(host.region->message_bytes, 0);
}

Test(messages, are_lost_without_a_stderr)
{
	(void)close(STDERR_FILENO);
	sp_messages_init(&messages, &seen, host.region, SP_LOG_WARN);
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
	sp_messages_tell(&messages, SP_LOG_WARN, "into what was opened later");
	cr_expect_eq(host.region->message_bytes, 0);
}

/* As under journald. */
Test(messages, for_a_socket_are_left_to_the_host)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	tell(ends[1], ends[1], SP_LOG_WARN, "the first");

	cr_expect_str_eq(content(ends[0]), "");
	cr_expect_eq(host.region->message_bytes, strlen("the first"));
	cr_expect_eq(memcmp(host.region->message, "the first", strlen("the first")), 0);
	cr_expect_eq(host.region->deferred_work, SP_WORK_WRITE);

	tell(ends[1], ends[1], SP_LOG_WARN, "one too many");
	cr_expect_eq(host.region->message_bytes, strlen("the first"));

	host.region->message_bytes = 0;
	tell(ends[1], ends[1], SP_LOG_WARN, "the next");
	cr_expect_eq(memcmp(host.region->message, "the next", strlen("the next")), 0);
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

	cr_expect_eq(host.region->message_bytes, 1000);
}
