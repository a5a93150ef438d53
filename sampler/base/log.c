/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on the host's stderr. Contexts: INIT and APP, never SIG.
 *
 * A message must never hurt the host. Each is one write(2), so that lines of several threads do not
 * mix. The write does not wait for a reader that has stopped reading. It can raise SIGPIPE (the
 * reader is gone), SIGXFSZ (the file is at its limit) and SIGTTOU (a background job on a terminal).
 * These signals would end or stop a program that never wrote to stderr itself, so the thread blocks
 * them meanwhile. System calls are our own (syscall.h).
 *
 * Descriptor 2 may not be stderr. If a program starts without it or closes it, its next file gets
 * the number 2, and a line of ours could corrupt a database. So descriptor 2 must be the same file
 * as at our first check. Some files never count as stderr: a regular file that is also open for
 * reading; a block device, where each line would go to the beginning; and a descriptor with
 * close-on-exec, which the program has opened itself.
 *
 * A program that changes to another log gives the log the number 2 by dup2() or freopen(). If
 * descriptor 2 is another file than before, we cannot tell such a log from a file that happened to
 * get a free number. So the file has to look like a log: a file opened only for appending, or a
 * pseudo-terminal, without close-on-exec. Pipes and sockets may lead to a reader that expects a
 * protocol, so they do not count.
 */
#include "sampler/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"

#define TEXT_MAX 1000U
#define PREFIX_MAX 32U /* "spanprof[4294967295]: " */
#define WRITE_TRIES 4
/*
 * Pseudo-terminals have the major numbers 136 to 143, which st_rdev has from bit 8 on.
 */
#define PTY_MAJORS (136U >> 3)

#define SIG_BIT(n) (UINT64_C(1) << ((n)-1)) /* the kernel's signal set is one 64-bit word */
#define WRITE_SIGNALS (SIG_BIT(SIGPIPE) | SIG_BIT(SIGXFSZ) | SIG_BIT(SIGTTOU))

static _Atomic int max_level = SP_LOG_WARN;

/* Whether descriptor 2 was stderr at our first check. */
enum { UNKNOWN, KNOWN, NONE };
static _Atomic int first = UNKNOWN;
static _Atomic uint64_t device;
static _Atomic uint64_t inode;

void sp_log_set_level(enum sp_log_level level)
{
	atomic_store_explicit(&max_level, (int)level, memory_order_relaxed);
}

bool sp_log_prints(enum sp_log_level level)
{
	return level != SP_LOG_NONE &&
	       (int)level <= atomic_load_explicit(&max_level, memory_order_relaxed);
}

/*
 * Takes back the signal that a failed write raised, unless the host had the same one pending
 * before.
 */
static void take_back(int error, uint64_t pending_before)
{
	static const struct timespec no_wait;
	uint64_t raised = 0;

	if (error == EPIPE)
		raised = SIG_BIT(SIGPIPE);
	else if (error == EFBIG)
		raised = SIG_BIT(SIGXFSZ);
	if (raised != 0 && (pending_before & raised) == 0)
		(void)sp_syscall(SYS_rt_sigtimedwait, &raised, NULL, &no_wait, sizeof(raised));
}

/*
 * A socket that polled as writable may be full by now, because other threads of the program write
 * to it; only send() can refuse to wait. And the socket's reader may be gone by now.
 */
static long write_once(const char *text, size_t len, bool to_socket)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)text, .iov_len = len};
	const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (to_socket)
		return sp_syscall(SYS_sendmsg, STDERR_FILENO, &message,
				  MSG_NOSIGNAL | MSG_DONTWAIT);
	return sp_syscall(SYS_write, STDERR_FILENO, text, len);
}

static void write_guarded(const char *text, size_t len, bool to_socket)
{
	uint64_t block = WRITE_SIGNALS;
	uint64_t old;
	uint64_t pending = 0;
	int tries = 0;

	if (sp_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &block, &old, sizeof(old)) != 0)
		return;
	/* A signal that was not blocked before cannot have been pending. */
	if ((old & WRITE_SIGNALS) != 0)
		(void)sp_syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	while (write_once(text, len, to_socket) < 0) {
		if (errno == EINTR && ++tries < WRITE_TRIES)
			continue;
		take_back(errno, pending);
		break;
	}
	(void)sp_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
}

/*
 * A raw system call: fstat() of newer headers needs a symbol version that older C libraries lack.
 */
static bool identify(struct stat *out)
{
	return sp_syscall(SYS_newfstatat, STDERR_FILENO, "", out, AT_EMPTY_PATH) == 0;
}

static bool is_data(const struct stat *st)
{
	long flags = sp_syscall(SYS_fcntl, STDERR_FILENO, F_GETFL);

	return S_ISBLK(st->st_mode) || (S_ISREG(st->st_mode) && (flags & O_ACCMODE) != O_WRONLY) ||
	       (sp_syscall(SYS_fcntl, STDERR_FILENO, F_GETFD) & FD_CLOEXEC) != 0;
}

/*
 * Whether a file that was not descriptor 2 before may get messages. Terminals other than
 * pseudo-terminals may not: such a terminal may be a serial line with a device at its end.
 */
static bool looks_like_a_log(const struct stat *st)
{
	long flags = sp_syscall(SYS_fcntl, STDERR_FILENO, F_GETFL);
	bool is_log;

	if (S_ISREG(st->st_mode))
		is_log = (flags & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND);
	else
		is_log = S_ISCHR(st->st_mode) && (st->st_rdev >> 11) == PTY_MAJORS;
	return is_log && sp_syscall(SYS_fcntl, STDERR_FILENO, F_GETFD) == 0;
}

static void remember(const struct stat *now)
{
	atomic_store_explicit(&device, now->st_dev, memory_order_relaxed);
	atomic_store_explicit(&inode, now->st_ino, memory_order_relaxed);
	atomic_store_explicit(&first, is_data(now) ? NONE : KNOWN, memory_order_release);
}

static bool is_stderr(bool *is_socket)
{
	struct stat now;

	if (!identify(&now))
		return false;
	*is_socket = S_ISSOCK(now.st_mode);
	/* A message about an unknown SDK may come before activation. */
	if (atomic_load_explicit(&first, memory_order_acquire) == UNKNOWN)
		remember(&now);
	return atomic_load_explicit(&first, memory_order_acquire) == KNOWN &&
	       ((atomic_load_explicit(&device, memory_order_relaxed) == now.st_dev &&
		 atomic_load_explicit(&inode, memory_order_relaxed) == now.st_ino) ||
		looks_like_a_log(&now));
}

void sp_log_begin(void)
{
	int saved = errno;
	struct stat now;

	if (identify(&now))
		remember(&now);
	else
		atomic_store_explicit(&first, NONE, memory_order_release);
	errno = saved;
}

/* A pipe that polls writable has PIPE_BUF bytes of room, so the write of a line does not block. */
static bool stderr_takes_a_line(void)
{
	/* Not const: the system call writes the remaining time. */
	struct timespec no_wait = {0, 0};
	struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

	return sp_syscall(SYS_ppoll, &fd, 1, &no_wait, NULL, sizeof(uint64_t)) == 1 &&
	       fd.revents == POLLOUT;
}

void sp_log(enum sp_log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[PREFIX_MAX + TEXT_MAX + 1];
	bool is_socket;
	va_list args;
	size_t start;
	size_t len;

	if (!sp_log_prints(level))
		return;
	start = sp_fmt_snprintf(line, PREFIX_MAX, "spanprof[%d]: ", (int)sp_syscall(SYS_getpid));
	va_start(args, fmt);
	len = sp_fmt_vsnprintf(line + start, TEXT_MAX + 1, fmt, args);
	va_end(args);
	if (len == TEXT_MAX)
		len = sp_text_boundary(line + start, TEXT_MAX);
	len += start;
	if (is_stderr(&is_socket) && stderr_takes_a_line()) {
		sp_text_printable(line, len);
		line[len++] = '\n';
		write_guarded(line, len, is_socket);
	}
	errno = saved;
}
