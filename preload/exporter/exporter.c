/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the exporter or joins that of the family, watches whether it works, and waits for flushes.
 *
 * A host and its forked children have one exporter together, also where their parent recorded no span and
 * so started none. They meet at an abstract unix socket (region.h), where the exporter listens. On a
 * machine so busy that the other process is held up this waits for it, 200 ms at most. Sockets are used by
 * raw system calls: the C library's functions for them are what hosts wrap, and are points where a thread
 * may be cancelled. All descriptors are close-on-exec and closed before the return.
 *
 * Contexts: INIT, APP, and SIG at the first sample of a forked child.
 */
#include "preload/exporter/exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "region_version.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/config/config.h"
#include "sampler/sampling/region_swap.h"

/* An exporter that was told to end by then, and does not, is killed after so much more time. */
#define GRACE_NS (500 * SP_NS_PER_MS)
/* How often a waiting flush checks that the exporter still lives. */
#define LOOK_NS (20 * SP_NS_PER_MS)

/*
 * An exporter that was joined usually begins before this. After it, we ask at this interval whether
 * it still listens.
 */
#define ASK_NS (200 * SP_NS_PER_MS)
/*
 * The longest wait for a joined exporter, which may serve hundreds of processes on a busy machine.
 */
#define TAKEN_IN_NS (10 * SP_NS_PER_S)

/* --- The family ----------------------------------------------------------------------------------- */

/* The kernel allows as many as net.core.somaxconn: 4,096, before Linux 5.4 128. */
#define JOINS_WAITING 4096
/* On a busy machine another process may be preempted for long between its bind and its listen. */
#define BIND_WAIT_NS (200 * SP_NS_PER_MS)
/* Region, folder, memory map. */
#define DESCRIPTORS 3U

/* When the program was loaded: a forked child has it from its parent. */
static uint64_t loaded_ns;
static int32_t program_pid; /* who executed it; 0 = not noted */

/* The user whose exporter does not serve us; -1 = none. Also written by who waits for a flush. */
static _Atomic int64_t left_user = -1;

/* Where we joined: the effective user may be another one by now. */
static struct {
	_Atomic int64_t user;
	struct sockaddr_un address;
	socklen_t bytes;
} meeting;

void sp_exporter_family_load(bool note_pid)
{
	loaded_ns = sp_monotonic_ns();
	program_pid = note_pid ? getpid() : 0;
}

bool sp_exporter_family_is_forked(void)
{
	return program_pid != 0 && program_pid != getpid();
}

/* A descriptor, or a negative errno. */
static int new_socket(void)
{
	int fd =
		(int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 ? fd : -errno;
}

/* 0 or a negative errno: -ECONNREFUSED where nobody listens, -EAGAIN where too many wait. */
static int connect_to(int fd)
{
	return syscall(SYS_connect, fd, &meeting.address, meeting.bytes) == 0 ? 0 : -errno;
}

static bool send_join(int fd, const struct sp_exporter_start *start)
{
	const struct sp_family_join message = {
		.version = SP_REGION_VERSION,
		.pid = start->region->pid,
		.environment = sp_family_environment(start->environment),
	};
	const int descriptor[DESCRIPTORS] = {
		start->region_fd,
		start->folder_fd >= 0 ? start->folder_fd : start->region_fd,
		start->maps_fd >= 0 ? start->maps_fd : start->region_fd,
	};
	union {
		struct cmsghdr head; /* aligned as it needs */
		char bytes[CMSG_SPACE(sizeof(descriptor))];
	} control = {.bytes = {0}};
	struct iovec part = {.iov_base = (void *)(uintptr_t)&message, .iov_len = sizeof(message)};
	const struct msghdr all = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(descriptor));
	memcpy(CMSG_DATA(&control.head), descriptor, sizeof(descriptor));
	return syscall(SYS_sendmsg, fd, &all, MSG_NOSIGNAL | MSG_DONTWAIT) == (long)sizeof(message);
}

/* The process of that user that listens there, by the kernel's word, or 0. */
static int32_t listener(int fd, uint32_t user)
{
	struct ucred peer = {0};
	socklen_t bytes = sizeof(peer);

	if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return 0;
	/* In a pid namespace beside ours it has no number but 0, and nobody could see it end. */
	return peer.uid == user ? peer.pid : 0;
}

/*
 * 0 or a negative errno. The process that listens has to be one of the same user; any other could be there,
 * too. It is the exporter that says at last which process it is, so our own word of it must come before the
 * message.
 */
static int join(const struct sp_exporter_start *start, uint32_t user)
{
	_Atomic int32_t *exporter = &start->region->exporter_pid;
	int fd = new_socket();
	int err = fd;

	if (fd < 0)
		return err;
	err = connect_to(fd);
	if (err == 0) {
		int32_t pid = listener(fd, user);

		err = -EPERM;
		if (pid != 0) {
			atomic_store_explicit(exporter, pid, memory_order_relaxed);
			err = send_join(fd, start) ? 0 : -EPIPE;
		}
		if (err != 0)
			atomic_store_explicit(exporter, 0, memory_order_relaxed);
	}
	(void)syscall(SYS_close, fd);
	return err;
}

/* A socket that listens, or a negative errno: -EADDRINUSE where another process's does. */
static int listen_there(void)
{
	int fd = new_socket();
	int err;

	if (fd < 0)
		return fd;
	if (syscall(SYS_bind, fd, &meeting.address, meeting.bytes) == 0 &&
	    syscall(SYS_listen, fd, JOINS_WAITING) == 0)
		return fd;
	err = -errno;
	(void)syscall(SYS_close, fd);
	return err;
}

static bool join_or_listen(struct sp_exporter_start *start, uint32_t user)
{
	uint64_t end = sp_monotonic_ns() + BIND_WAIT_NS;
	int err = join(start, user);

	/* -EPIPE: we were preempted for so long before we sent anything that we were given up. */
	while (err == -ECONNREFUSED || err == -EPIPE) {
		int fd = err == -ECONNREFUSED ? listen_there() : -EADDRINUSE;
		/* Anew each time: the kernel writes what is left. */
		struct timespec pause = {.tv_nsec = SP_NS_PER_MS};

		if (fd >= 0) {
			start->family_fd = fd;
			return false;
		}
		/* Another process was quicker, and will listen in a moment. */
		if (fd != -EADDRINUSE || sp_monotonic_ns() >= end)
			return false;
		/* Hundreds that wait with us must leave it the processor. A sleep that trial.c knows. */
		(void)syscall(SYS_ppoll, NULL, 0, &pause, NULL, 0);
		err = join(start, user);
	}
	return err == 0;
}

bool sp_exporter_family_join(struct sp_exporter_start *start)
{
	char *name = meeting.address.sun_path + 1;
	size_t room = sizeof(meeting.address.sun_path) - 1;
	int saved = errno;
	uint32_t user = (uint32_t)syscall(SYS_geteuid);
	bool is_in;

	start->family_fd = -1;
	start->region->program_pid = sp_exporter_family_is_forked() ? program_pid : 0;
	atomic_store_explicit(&meeting.user, user, memory_order_relaxed);
	memset(&meeting.address, 0, sizeof(meeting.address));
	meeting.address.sun_family = AF_UNIX;
	meeting.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    sp_fmt_snprintf(name, room, SP_FAMILY_NAME,
						    (unsigned long long)loaded_ns, (unsigned)user));
	is_in = atomic_load_explicit(&left_user, memory_order_relaxed) != (int64_t)user &&
		join_or_listen(start, user);
	errno = saved;
	return is_in;
}

void sp_exporter_family_leave(void)
{
	atomic_store_explicit(&left_user, atomic_load_explicit(&meeting.user, memory_order_relaxed),
			      memory_order_relaxed);
}

void sp_exporter_family_forked(void)
{
	atomic_store_explicit(&left_user, -1, memory_order_relaxed);
}

bool sp_exporter_family_listens(void)
{
	int saved = errno;
	int fd = new_socket();
	/* Where no socket is to be had nothing is known. */
	bool refused = fd >= 0 && connect_to(fd) == -ECONNREFUSED;

	if (fd >= 0)
		(void)syscall(SYS_close, fd);
	errno = saved;
	return !refused;
}

int32_t sp_exporter_who(void)
{
	int64_t user = atomic_load_explicit(&meeting.user, memory_order_relaxed);
	int32_t pid = sp_keeper_exporter(sp_region_now());
	int saved = errno;
	int fd = pid == 0 ? new_socket() : -1;

	if (fd >= 0) {
		if (connect_to(fd) == 0)
			pid = listener(fd, (uint32_t)user);
		(void)syscall(SYS_close, fd);
	}
	errno = saved;
	return pid;
}

/* --- The start ------------------------------------------------------------------------------------ */

/* The text of an errno. The C library's strerror() may load a message catalogue. */
static const char *reason(int err)
{
	switch (-err) {
	/* Also where the program has changed its root (chroot) and its old files are out of reach. */
	case ENOENT:
		return "there is no such file";
	case EACCES:
		return "it may not be executed";
	case EPERM:
		return "it is not permitted";
	case ENOEXEC:
		return "it is built for another machine";
	case EAGAIN:
		return "no more processes are allowed";
	case ENOMEM:
		return "out of memory";
	case EMFILE:
	case ENFILE:
		return "out of descriptors";
	case EPROTO:
		return "it is of another build than the libspanprof.so of this program; after an "
		       "update, start the program again";
	case ENOTDIR:
		return "there is no /proc in which it could see the program's rights";
	case EXDEV:
		return "the program's children are in another pid namespace";
	default:
		return "a system call was refused";
	}
}

/* The program lies in the folder that our own object was loaded from. */
#define PROGRAM "spanprof-exporter"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Puts the program's name in place of our own, which ends the path in out. */
static bool replace_name(char out[SP_EXPORTER_PATH_MAX])
{
	char *slash = strrchr(out, '/');

	if (out[0] != '/' || (size_t)(slash - out) + 1 + sizeof(PROGRAM) > SP_EXPORTER_PATH_MAX)
		return false;
	memcpy(slash + 1, PROGRAM, sizeof(PROGRAM));
	return true;
}

/* A line of the file is "start-end perms offset dev inode path". */
static bool from_maps(char out[SP_EXPORTER_PATH_MAX])
{
	const uint64_t start = __builtin_bswap64((uintptr_t)__ehdr_start);
	char digits[2 * sizeof(start) + 1];
	char begin[sizeof(digits) + 1];
	const char *slash;

	sp_text_hex(digits, (const uint8_t *)&start, sizeof(start));
	(void)sp_fmt_snprintf(begin, sizeof(begin), "%s-", digits + strspn(digits, "0"));
	if (sp_proc_line("/proc/self/maps", begin, out, SP_EXPORTER_PATH_MAX) <= 0)
		return false;
	slash = strchr(out, '/');
	if (slash != NULL)
		memmove(out, slash, strlen(slash) + 1);
	return replace_name(out);
}

bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX])
{
	(void)sp_fmt_snprintf(out, SP_EXPORTER_PATH_MAX, "%s", sp_elf_own_path());
	return replace_name(out) || from_maps(out);
}

static char path[SP_EXPORTER_PATH_MAX]; /* one start at a time, on any stack */
static atomic_flag told = ATOMIC_FLAG_INIT;

static void tell_start_failed(const struct sp_config *cfg, const char *why)
{
	const char *program = cfg->exporter != NULL ? cfg->exporter : path;

	(void)atomic_flag_test_and_set_explicit(&told, memory_order_relaxed);
	sp_log(SP_LOG_WARN, "cannot start the exporter (%s: %s): not profiling this process",
	       program[0] != '\0' ? program : PROGRAM, why);
}

/*
 * We joined the exporter of the family, which has not yet taken us in. Nothing but this tells so
 * until it does. Kept with its region, because a flush may look at a new region that has not been
 * joined yet.
 */
static struct {
	_Atomic(const struct sp_region *) region;
	_Atomic uint64_t until;
	_Atomic uint64_t next_ask;
} joined;

int sp_exporter_start(const struct sp_config *cfg, int region_fd)
{
	struct sp_exporter_start start = {
		.region_fd = region_fd,
		.folder_fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self",
					  O_PATH | O_DIRECTORY | O_CLOEXEC, 0),
		/* of the first thread, which usually lives as long as the process */
		.maps_fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps",
					O_RDONLY | O_CLOEXEC, 0),
		.family_fd = -1,
		.environment = sp_config_copy_environment(cfg->service_name),
		.region = sp_region_now(),
	};
	bool is_joined = sp_exporter_family_join(&start);
	uint64_t now = sp_monotonic_ns();
	int err = 0;

	atomic_store_explicit(&joined.until, now + TAKEN_IN_NS, memory_order_relaxed);
	atomic_store_explicit(&joined.next_ask, now + ASK_NS, memory_order_relaxed);
	/*
	 * Also to forget an earlier one: the region of a forked child may be at the address of its
	 * parent's. Pairs with is_waited_for().
	 */
	atomic_store_explicit(&joined.region, is_joined ? start.region : NULL,
			      memory_order_release);
	if (!is_joined) {
		start.path = cfg->exporter;
		if (start.path == NULL && sp_exporter_path(path))
			start.path = path;
		err = start.path != NULL ? sp_exporter_process_start(&start) : -ENOENT;
	}
	(void)syscall(SYS_close, region_fd);
	if (start.folder_fd >= 0)
		(void)syscall(SYS_close, start.folder_fd);
	if (start.maps_fd >= 0)
		(void)syscall(SYS_close, start.maps_fd);
	if (start.family_fd >= 0)
		(void)syscall(SYS_close, start.family_fd);
	if (err != 0 && !sp_exporter_error_passes(err))
		tell_start_failed(cfg, reason(err));
	return err;
}

/* --- Watching it, and waiting for it -------------------------------------------------------------- */

/*
 * Joined, and not yet taken in. Whether exporter_pid lives does not help, because it may be the
 * number of the process that started the exporter. So we check now and then whether somebody still listens
 * at the socket. False if we have given up waiting; an exporter that finds our region later leaves it alone.
 */
static bool is_waited_for(struct sp_region *r, uint32_t *now)
{
	uint64_t at = sp_monotonic_ns();
	bool is_too_late;

	/* pairs with sp_exporter_start(): its times are there */
	if (atomic_load_explicit(&joined.region, memory_order_acquire) != r ||
	    *now != SP_EXPORTER_NONE)
		return false;
	if (at < atomic_load_explicit(&joined.next_ask, memory_order_relaxed))
		return true;
	atomic_store_explicit(&joined.next_ask, at + ASK_NS, memory_order_relaxed);
	is_too_late = at >= atomic_load_explicit(&joined.until, memory_order_relaxed);
	if (!is_too_late && sp_exporter_family_listens())
		return true;
	if (atomic_compare_exchange_strong_explicit(&r->exporter, now, SP_EXPORTER_GONE,
						    memory_order_acquire, memory_order_acquire)) {
		atomic_store_explicit(&r->exporter_pid, 0, memory_order_relaxed);
		*now = SP_EXPORTER_GONE;
		/*
		 * The exporter is stopped, or it has ended and its socket is still open in a
		 * process that was forked while the exporter was started. A new attempt to join
		 * there would wait in vain again.
		 */
		if (is_too_late)
			sp_exporter_family_leave();
	}
	return false;
}

bool sp_exporter_works(void)
{
	struct sp_region *r = sp_region_now();
	uint32_t now = atomic_load_explicit(&r->exporter, memory_order_acquire);
	bool alive;

	if (is_waited_for(r, &now))
		return true;
	alive = sp_exporter_process_alive(r);
	/* it may have begun or ended between the two reads */
	if (now == SP_EXPORTER_NONE && !alive)
		now = atomic_load_explicit(&r->exporter, memory_order_acquire);
	if (alive && (now == SP_EXPORTER_NONE || now == SP_EXPORTER_WORKING))
		return true;
	/* It was killed. From now on every span checks for it (sp_deferred_work_is_due()). */
	if (now == SP_EXPORTER_WORKING)
		(void)atomic_compare_exchange_strong_explicit(&r->exporter, &now, SP_EXPORTER_GONE,
							      memory_order_relaxed,
							      memory_order_relaxed);
	return false;
}

void sp_exporter_tell_ended(const struct sp_config *cfg)
{
	const struct sp_region *r = sp_region_now();
	uint32_t now = atomic_load_explicit(&r->exporter, memory_order_acquire);
	int err = -atomic_load_explicit(&r->exporter_error, memory_order_relaxed);

	/* After an exec that failed there will be another one. */
	if (now == SP_EXPORTER_MOVED ||
	    atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
		return;
	if (now == SP_EXPORTER_GONE || now == SP_EXPORTER_REFUSED)
		sp_log(SP_LOG_WARN,
		       "the exporter ended and no more profiles of this process are sent; what it "
		       "had not sent is lost: %llu samples",
		       (unsigned long long)sp_region_swap_unsent());
	else
		tell_start_failed(cfg, err != 0 ? reason(err) : "it ended at once");
}

/*
 * Whether the exporter was stopped by a signal (SIGSTOP). It answers when somebody lets it go on,
 * which may be never, and takes what is in the region then, whether we have ended or not. A stop by
 * a debugger or tracer (state "t") does not count, as it is mostly a short one.
 */
static bool is_stopped(const struct sp_region *r)
{
	char file[32];
	char line[SP_PROC_STATUS_LINE];
	int32_t pid = atomic_load_explicit(&r->exporter_pid, memory_order_relaxed);

	(void)sp_fmt_snprintf(file, sizeof(file), "/proc/%d/status", (int)pid);
	return pid > 0 && sp_proc_line(file, "State:", line, sizeof(line)) > 0 &&
	       strncmp(line, "State:\tT", sizeof("State:\tT") - 1) == 0;
}

/* Returns the value that flush_done will have when it is answered. */
static uint32_t ask_for_flush(struct sp_region *r, uint64_t deadline_ns)
{
	uint32_t mine;

	atomic_store_explicit(&r->flush_deadline_ns, deadline_ns, memory_order_relaxed);
	if (sp_keeper_made(r))
		atomic_store_explicit(&r->end_asked, 1, memory_order_relaxed);
	mine = atomic_fetch_add_explicit(&r->flush_asked, 1, memory_order_release) + 1;
	atomic_fetch_add_explicit(&r->wake, 1, memory_order_release);
	(void)sp_syscall(SYS_futex, &r->wake, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	return mine;
}

static bool is_answered(const struct sp_region *r, uint32_t mine, uint32_t *done)
{
	*done = atomic_load_explicit(&r->flush_done, memory_order_acquire);
	return (int32_t)(*done - mine) >= 0;
}

/* False if the exporter has ended before it answered. */
static bool flush(uint64_t end)
{
	struct sp_region *r = NULL;
	uint64_t look = 0;
	uint32_t mine = 0;
	uint32_t done;

	for (;;) {
		uint64_t now = sp_monotonic_ns();

		/* Another thread may have started another exporter. */
		if (r != sp_region_now()) {
			r = sp_region_now();
			mine = ask_for_flush(r, end);
		}
		if (is_answered(r, mine, &done) || now >= end || sp_seccomp_is_on())
			return true;
		if (now >= look) {
			/* It may have answered, and then ended, since it was asked. */
			if (!sp_exporter_works())
				return is_answered(r, mine, &done);
			/* Our own may go on in time, and takes what it has collected with it if not. */
			if (!sp_keeper_made(r) && is_stopped(r))
				return true;
			look = now + LOOK_NS;
		}
		const struct timespec nap = {
			.tv_nsec = (long)(end - now < LOOK_NS ? end - now : LOOK_NS)};

		(void)sp_syscall(SYS_futex, &r->flush_done, FUTEX_WAIT, done, &nap, NULL, 0);
	}
}

bool sp_exporter_is_own(void)
{
	return sp_keeper_is_there();
}

bool sp_exporter_finish(uint32_t timeout_ms)
{
	uint64_t end = sp_monotonic_ns() + timeout_ms * SP_NS_PER_MS;
	bool answered;

	if (!sp_region_is_there())
		return true;
	if (timeout_ms == 0) {
		(void)sp_exporter_process_may_start();
		return true;
	}
	answered = flush(end);
	/* Also a keeper that could not start an exporter, or whose exporter has ended long ago. */
	if (!sp_seccomp_is_on())
		(void)sp_exporter_process_end(end + GRACE_NS);
	return answered;
}
