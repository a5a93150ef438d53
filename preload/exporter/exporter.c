/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the exporter or joins the family's exporter, watches whether it works, and waits for
 * flushes.
 *
 * A host and its forked children share one exporter, even if the parent recorded no span and
 * started none. The processes meet at an abstract unix socket (region.h), where the exporter
 * listens. On a busy machine the process that holds the socket may be held up before it listens; a
 * joining process waits for it, 200 ms at most. Sockets are used by raw system calls, because
 * programs wrap the C library's functions for them, and because those functions are cancellation
 * points. All descriptors are close-on-exec and closed before the return.
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
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "region_version.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/siphash.h"
#include "sampler/base/text.h"
#include "sampler/config/config.h"
#include "sampler/sampling/region_swap.h"

/*
 * This long after the deadline of its end, an exporter that has not ended is killed.
 */
#define GRACE_NS (500 * SP_NS_PER_MS)
/*
 * A waiting flush checks that the exporter still lives. The first pause between two checks is
 * LOOK_NS, and each pause is twice as long as the one before, up to LOOK_MOST_NS. A check reads two
 * files of /proc, and on a busy machine hundreds of processes may wait for many seconds.
 */
#define LOOK_NS (20 * SP_NS_PER_MS)
#define LOOK_MOST_NS (640 * SP_NS_PER_MS)

/*
 * Most exporters begin to serve a process that has joined within this time. Afterwards, we ask at
 * this interval whether the exporter still listens.
 */
#define ASK_NS (200 * SP_NS_PER_MS)
/*
 * The longest wait until a joined exporter begins to serve this process. It may serve hundreds on a
 * busy machine.
 */
#define TAKEN_IN_NS (10 * SP_NS_PER_S)

/* --- The family ----------------------------------------------------------------------------------- */

/*
 * On a busy machine another process may be preempted for long between its bind() and the listen()
 * of its exporter.
 */
#define BIND_WAIT_NS (200 * SP_NS_PER_MS)
/* the region, the folder /proc/PID, the memory map */
#define DESCRIPTORS 3U

/* When the program was loaded. A forked child has inherited the time of its parent. */
static uint64_t loaded_ns;
static int32_t program_pid; /* the process that executed the program; 0 = not noted */

/*
 * The user whose exporter does not serve us; -1 = none. A thread that waits for a flush also writes
 * this variable.
 */
static _Atomic int64_t left_user = -1;

/* This process starts its own exporter and joins none. */
static bool has_parted;

/* The socket where we joined, and the effective user at that time, which may have changed since. */
static struct {
	_Atomic int64_t user;
	struct sockaddr_un address;
	socklen_t bytes;
} meeting;

/*
 * The secret that only the family knows: a hash of the 16 random bytes that the kernel gave this
 * execution of the program. Forked children have them in their memory. The C library derives its
 * own secrets (stack protector, pointer guard) from the same bytes, so we publish no hash that
 * would reveal them.
 */
static uint64_t secret[2];
static bool has_secret;

static void take_secret(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint64_t key[2];

	has_secret = random != NULL;
	if (!has_secret)
		return;
	memcpy(key, random, sizeof(key));
	for (uint64_t i = 0; i < 2; i++)
		secret[i] = sp_siphash(key, &i, 1);
}

/*
 * A server forks workers, and its master records no span. The first worker that records a span
 * starts the exporter, whose keeper is a child of that worker. Keeper and exporter have to end
 * before the worker does. So each worker in turn would start an exporter, and wait at its end until
 * that exporter has sent everything. Only the master outlives the workers. So a worker that has
 * started an exporter asks its parent, when it ends, to start the next one. Nothing of ours runs in
 * the parent but the hook of fork(), which reads the request before the parent forks the next
 * worker.
 *
 * The request is in a page that all processes of the family share since the first fork. A process
 * that has given up rights may still write to this page. The worst that such a process can do is to
 * make another process start profiling, with its own exporter, at a fork as at a span.
 */
struct family_page {
	_Atomic uint64_t asked; /* number and user of the asked process; 0 = none */
	/* 1 = a process was asked; its exporter has another socket name */
	_Atomic uint32_t has_forkers;
};
static struct family_page *_Atomic shared; /* NULL = not made yet */

/* The process that was asked. In a forked child this is its parent's number. */
static int32_t asked_pid;

static uint64_t asked_of(long pid)
{
	return (uint64_t)pid << 32 | (uint32_t)sp_syscall_always(SYS_geteuid);
}

static struct family_page *page_now(void)
{
	/* pairs with the exchange in make_page(); a forked child inherits the pointer */
	return atomic_load_explicit(&shared, memory_order_acquire);
}

/* If several threads fork at once, one of them makes the page. */
static struct family_page *make_page(void)
{
	struct family_page *none = NULL;
	int saved = errno;
	void *page = (void *)sp_syscall_always(SYS_mmap, NULL, sizeof(struct family_page),
					       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
					       -1, (off_t)0);

	if (page != MAP_FAILED &&
	    !atomic_compare_exchange_strong_explicit(&shared, &none, page, memory_order_acq_rel,
						     memory_order_acquire))
		(void)sp_syscall_always(SYS_munmap, page, sizeof(struct family_page));
	errno = saved;
	return page_now();
}

void sp_exporter_family_load(bool note_pid)
{
	take_secret();
	loaded_ns = sp_monotonic_ns();
	program_pid = note_pid ? (pid_t)sp_syscall_always(SYS_getpid) : 0;
}

void sp_exporter_family_ask_parent(void)
{
	struct family_page *page = page_now();

	if (page != NULL && !has_parted && !sp_seccomp_is_on())
		atomic_store_explicit(&page->asked, asked_of(sp_syscall_always(SYS_getppid)),
				      memory_order_relaxed);
}

bool sp_exporter_family_is_asked(void)
{
	struct family_page *page = page_now();
	uint64_t asked;
	long pid;

	if (program_pid == 0 || sp_seccomp_is_on())
		return false;
	if (page == NULL)
		page = make_page();
	asked = page != NULL ? atomic_load_explicit(&page->asked, memory_order_relaxed) : 0;
	if (asked == 0)
		return false;
	pid = sp_syscall_always(SYS_getpid);
	if (asked != asked_of(pid) ||
	    !atomic_compare_exchange_strong_explicit(&page->asked, &asked, 0, memory_order_relaxed,
						     memory_order_relaxed))
		return false;
	asked_pid = (int32_t)pid;
	atomic_store_explicit(&page->has_forkers, 1, memory_order_relaxed);
	return true;
}

bool sp_exporter_family_is_forked(void)
{
	return program_pid != 0 && program_pid != (pid_t)sp_syscall_always(SYS_getpid);
}

/* A descriptor, or a negative errno. */
static int new_socket(void)
{
	int fd = (int)sp_syscall_always(SYS_socket, AF_UNIX,
					SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 ? fd : -errno;
}

/*
 * Connects the socket to the family's name. 0 or a negative errno: -ECONNREFUSED if nobody listens,
 * -EAGAIN if the queue of the listener is full.
 */
static int connect_to(int fd)
{
	return sp_syscall_always(SYS_connect, fd, &meeting.address, meeting.bytes) == 0 ? 0
											: -errno;
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
		struct cmsghdr head; /* gives the bytes its alignment */
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
	return sp_syscall_always(SYS_sendmsg, fd, &all, MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (long)sizeof(message);
}

/*
 * Reads a file of /proc/PID from offset `at` into text: at most room - 1 bytes, and a NUL. Returns
 * the number of bytes.
 */
static size_t read_of(int32_t pid, const char *name, char *text, size_t room, off_t at)
{
	char path[48];
	long got;
	int fd;

	(void)sp_fmt_snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = (int)sp_syscall_always(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	got = fd >= 0 ? sp_syscall_always(SYS_pread64, fd, text, room - 1, at) : -1;
	if (fd >= 0)
		(void)sp_syscall_always(SYS_close, fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

/*
 * Room for the first arguments of an exporter: the path of a loader and further paths, 4,096 bytes
 * each.
 */
#define ARGUMENTS_BYTES 1024U
#define ARGUMENTS_READ 16U
/* How long we wait for an exporter that is just executing its program. */
#define EXECUTES_MS 20U

/* Whether the last argument of the process is the proof. */
static bool ends_with(int32_t pid, const char proof[SP_PROOF_BYTES])
{
	char text[SP_PROOF_BYTES + ARGUMENTS_BYTES + 1];
	size_t have = 0;
	size_t got;
	off_t at = 0;

	for (unsigned i = 0; i < ARGUMENTS_READ; i++) {
		got = read_of(pid, "cmdline", text + have, ARGUMENTS_BYTES + 1, at);
		at += (off_t)got;
		have += got;
		if (got < ARGUMENTS_BYTES)
			break;
		/* The proof may begin in these last bytes and continue in the next read. */
		memmove(text, text + have - SP_PROOF_BYTES, SP_PROOF_BYTES);
		have = SP_PROOF_BYTES;
	}
	return have > SP_PROOF_BYTES && text[have - SP_PROOF_BYTES - 1] == '\0' &&
	       memcmp(text + have - SP_PROOF_BYTES, proof, SP_PROOF_BYTES) == 0;
}

/* The last exporter of the processes that this one descends from; 0 = none. */
static int32_t known_exporter;

/*
 * A process that called chroot() to a folder without /proc cannot examine any listener. It then
 * trusts a listener of root, because root can read the process anyway, and the exporter that it
 * knew before. To be mistaken for that exporter, another process would have to end it and get its
 * number.
 */
static bool believes(int32_t pid, uint32_t user)
{
	char unused[1];

	return (user == 0 || pid == known_exporter) &&
	       sp_syscall_always(SYS_readlinkat, AT_FDCWD, "/proc/self", unused, sizeof(unused)) <
		       0 &&
	       errno == ENOENT;
}

/*
 * Whether a process of our family started process `pid` as an exporter. Two kinds of listeners must
 * not be believed: a process that has got the number of an exporter that ended, and any process of
 * our user that bound the name first. Both would get data that they may not read. We do not ask the
 * listener itself, which may be stopped: no process waits for an exporter.
 */
static bool is_proven(int32_t pid, uint32_t user)
{
	char text[512];
	char proof[SP_PROOF_BYTES];
	const char *name;
	uint64_t began;
	char state;

	if (!has_secret)
		return false;
	if (read_of(pid, "stat", text, sizeof(text), 0) == 0)
		return believes(pid, user);
	began = sp_proc_stat(text, SP_STAT_START, &state);
	sp_exporter_proof(secret, (uint64_t)pid, began, proof);
	name = strchr(text, '(');
	if (name != NULL && strncmp(name + 1, proof, SP_PROOF_BYTES - 1) == 0 &&
	    name[SP_PROOF_BYTES] == ')')
		return true;
	/*
	 * During its execve() the process has lost its name already and does not show its arguments
	 * yet.
	 */
	for (unsigned i = 0; i < EXECUTES_MS; i++) {
		struct timespec pause = {.tv_nsec = SP_NS_PER_MS};

		if (read_of(pid, "cmdline", text, 2, 0) != 0)
			return ends_with(pid, proof);
		(void)sp_syscall_always(SYS_ppoll, NULL, 0, &pause, NULL, 0);
	}
	return false;
}

/*
 * The number of the listening process, which the kernel gives, if that process is an exporter of
 * that user; 0 otherwise.
 */
static int32_t listener(int fd, uint32_t user)
{
	struct ucred peer = {0};
	socklen_t bytes = sizeof(peer);

	if (sp_syscall_always(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return 0;
	/*
	 * A listener in an unrelated pid namespace has number 0 for us, and we could not see it
	 * end.
	 */
	return peer.uid == user && peer.pid > 0 && is_proven(peer.pid, peer.uid) ? peer.pid : 0;
}

/*
 * Joins the exporter. 0 or a negative errno. The listener has to be an exporter of the family and
 * of the same user: any other process could have bound the name. The exporter writes its own number
 * into exporter_pid when it gets our message, so we write our guess before we send the message.
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
	(void)sp_syscall_always(SYS_close, fd);
	return err;
}

/*
 * A socket that is bound to the family's name, for an exporter to listen at, or a negative errno:
 * -EADDRINUSE if another process has bound it.
 */
static int bind_there(void)
{
	int fd = new_socket();
	int err;

	if (fd < 0)
		return fd;
	if (sp_syscall_always(SYS_bind, fd, &meeting.address, meeting.bytes) == 0)
		return fd;
	err = -errno;
	(void)sp_syscall_always(SYS_close, fd);
	return err;
}

static bool join_or_listen(struct sp_exporter_start *start, uint32_t user)
{
	uint64_t end = sp_monotonic_ns() + BIND_WAIT_NS;
	int err = join(start, user);

	/*
	 * -EPIPE: we were preempted for so long after connect() that the exporter gave us up.
	 * -EAGAIN: strangers fill the queue, which the exporter then empties every tenth of a
	 * second.
	 */
	while (err == -ECONNREFUSED || err == -EPIPE || err == -EAGAIN) {
		int fd = err == -ECONNREFUSED ? bind_there() : -EADDRINUSE;
		/* Set in each round, because the kernel writes the remaining time into it. */
		struct timespec pause = {.tv_nsec = SP_NS_PER_MS};

		if (fd >= 0) {
			start->family_fd = fd;
			return false;
		}
		/*
		 * -EADDRINUSE: another process was quicker, and its exporter will listen in a
		 * moment.
		 */
		if (fd != -EADDRINUSE || sp_monotonic_ns() >= end)
			return false;
		/*
		 * Hundreds of processes may wait here, and a busy loop would take the processor
		 * from the one that they wait for. trial.c tries ppoll().
		 */
		(void)sp_syscall_always(SYS_ppoll, NULL, 0, &pause, NULL, 0);
		err = join(start, user);
	}
	return err == 0;
}

static bool is_dumpable(void)
{
	return sp_syscall_always(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0) == 1;
}

static void meet(uint32_t user, bool is_forkers)
{
	char *name = meeting.address.sun_path + 1;
	size_t room = sizeof(meeting.address.sun_path) - 1;

	atomic_store_explicit(&meeting.user, user, memory_order_relaxed);
	memset(&meeting.address, 0, sizeof(meeting.address));
	meeting.address.sun_family = AF_UNIX;
	meeting.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    sp_fmt_snprintf(name, room, SP_FAMILY_NAME,
						    is_forkers ? "f" : "", is_dumpable() ? "" : "p",
						    (unsigned long long)loaded_ns, (unsigned)user));
}

/*
 * As join_or_listen(), for the exporter of a process that was asked to start one. A worker's
 * exporter may listen at the same time, until that worker ends; this exporter stays. So it has
 * another name, and only the asked process binds a socket to that name.
 */
static bool join_forkers(struct sp_exporter_start *start, uint32_t user)
{
	const struct family_page *page = page_now();

	if (page == NULL || atomic_load_explicit(&page->has_forkers, memory_order_relaxed) == 0)
		return false;
	meet(user, true);
	if (join_or_listen(start, user))
		return true;
	if (start->family_fd >= 0 && asked_pid != (int32_t)sp_syscall_always(SYS_getpid)) {
		(void)sp_syscall_always(SYS_close, start->family_fd);
		start->family_fd = -1;
	}
	return false;
}

bool sp_exporter_family_join(struct sp_exporter_start *start)
{
	int saved = errno;
	uint32_t user = (uint32_t)sp_syscall_always(SYS_geteuid);
	bool may_join = !has_parted && has_secret &&
			atomic_load_explicit(&left_user, memory_order_relaxed) != (int64_t)user;
	bool is_in;

	start->family_fd = -1;
	start->region->program_pid = sp_exporter_family_is_forked() ? program_pid : 0;
	start->region->program_loaded_ns = loaded_ns;
	memcpy(start->secret, secret, sizeof(secret));
	is_in = may_join && join_forkers(start, user);
	if (!is_in && start->family_fd < 0) {
		meet(user, false);
		/* bind() fails if the parent's exporter listens. */
		if (has_parted && has_secret && (start->family_fd = bind_there()) < 0)
			start->family_fd = -1;
		is_in = may_join && join_or_listen(start, user);
	}
	errno = saved;
	return is_in;
}

void sp_exporter_family_refused(void)
{
	atomic_store_explicit(&left_user, atomic_load_explicit(&meeting.user, memory_order_relaxed),
			      memory_order_relaxed);
}

bool sp_exporter_family_part(void)
{
	bool is_first = !has_parted;

	has_parted = true;
	return is_first;
}

void sp_exporter_family_forked(const struct sp_region *parents)
{
	int32_t exporter =
		parents != NULL ? atomic_load_explicit(&parents->exporter_pid, memory_order_relaxed)
				: 0;

	if (exporter != 0)
		known_exporter = exporter;
	has_parted = false;
	atomic_store_explicit(&left_user, -1, memory_order_relaxed);
}

bool sp_exporter_family_listens(void)
{
	int saved = errno;
	int fd = new_socket();
	/* Without a socket we cannot find out, and assume that the exporter listens. */
	int err = fd >= 0 ? connect_to(fd) : -EMFILE;
	int64_t user = atomic_load_explicit(&meeting.user, memory_order_relaxed);
	bool refused = err == -ECONNREFUSED || (err == 0 && listener(fd, (uint32_t)user) == 0);

	if (fd >= 0)
		(void)sp_syscall_always(SYS_close, fd);
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
		(void)sp_syscall_always(SYS_close, fd);
	}
	errno = saved;
	return pid;
}

/* --- The start ------------------------------------------------------------------------------------ */

/* The text of an errno. The C library's strerror() may load a message catalogue. */
static const char *reason(int err)
{
	switch (-err) {
	/* Also after chroot(), when the old files are out of reach. */
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
	case EKEYREJECTED:
		return "another user than root could change it or one of its folders";
	case ENOTDIR:
		return "there is no /proc in which it could see the program's rights";
	case EXDEV:
		return "the program's children are in another pid namespace";
	default:
		return "a system call was refused";
	}
}

/* The program is in the folder that our own object was loaded from. */
#define PROGRAM "spanprof-exporter"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Replaces the last part of the path in out, the name of our object, by that of the program. */
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

/*
 * Nobody can write through a read-only mount, not even the owner. In Kubernetes an init container,
 * which is not root, fills an emptyDir with mode 0777, and the container of the program mounts that
 * read-only.
 */
static bool is_read_only(const char *part)
{
	struct statfs fs = {0};

	return sp_arch_syscall(SYS_statfs, (long)part, (long)&fs, 0, 0) == 0 &&
	       (fs.f_flags & ST_RDONLY) != 0;
}

/*
 * Checks who can change the file or folder. 0, or a negative errno: -EKEYREJECTED if a user other
 * than root can. In a folder with the sticky bit nobody but root can rename a file of root. In a
 * container, mounted files may belong to a user outside, whom no process in the container can
 * become.
 */
static int look_at_owner(const char *part)
{
	struct stat st = {0};
	long rc = sp_arch_syscall(SYS_newfstatat, AT_FDCWD, (long)part, (long)&st,
				  AT_SYMLINK_NOFOLLOW);
	bool is_open = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
		       !(S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX) != 0);

	if (rc < 0)
		return (int)rc;
	if (S_ISLNK(st.st_mode))
		return -EKEYREJECTED;
	if (!is_open && (st.st_uid == 0 || sp_process_is_outsider(st.st_uid, false)))
		return 0;
	return is_read_only(part) ? 0 : -EKEYREJECTED;
}

/*
 * look_at_owner() of the file and of each folder above it. The path is from the kernel and has no
 * links.
 */
static int look_at_way(char way[SP_EXPORTER_PATH_MAX])
{
	int err = way[0] == '/' ? look_at_owner("/") : -ENOENT;

	for (size_t i = 1; err == 0; i++) {
		char end = way[i];

		if (end != '/' && end != '\0')
			continue;
		way[i] = '\0';
		err = look_at_owner(way);
		way[i] = end;
		if (end == '\0')
			break;
	}
	return err;
}

int sp_exporter_check(char program[SP_EXPORTER_PATH_MAX])
{
	/* static: one start at a time, and the stack may be small */
	static char way[SP_EXPORTER_PATH_MAX];
	char link[40];
	long fd;
	long len;
	int err;

	/* A process with a real user id of 0 may become root again. */
	if (sp_arch_syscall(SYS_geteuid, 0, 0, 0, 0) > 0 &&
	    sp_arch_syscall(SYS_getuid, 0, 0, 0, 0) > 0)
		return 0;
	fd = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)program, O_PATH | O_CLOEXEC, 0);
	if (fd < 0)
		return (int)fd;
	(void)sp_fmt_snprintf(link, sizeof(link), "/proc/thread-self/fd/%ld", fd);
	len = sp_arch_syscall(SYS_readlinkat, AT_FDCWD, (long)link, (long)way, sizeof(way) - 1);
	(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
	/* Without /proc the exporter could not read this process either. */
	if (len < 0)
		return len == -ENOENT ? -ENOTDIR : (int)len;
	way[len] = '\0';
	err = look_at_way(way);
	if (err == 0)
		memcpy(program, way, (size_t)len + 1);
	return err;
}

/* static: one start at a time, and the stack may be small */
static char path[SP_EXPORTER_PATH_MAX];
static atomic_flag told = ATOMIC_FLAG_INIT;

static void tell_start_failed(const char *why)
{
	(void)atomic_flag_test_and_set_explicit(&told, memory_order_relaxed);
	sp_log(SP_LOG_WARN, "cannot start the exporter (%s: %s): not profiling this process",
	       path[0] != '\0' ? path : PROGRAM, why);
}

/*
 * The region and time of a join that the exporter has not answered yet. No other variable says that
 * this process waits for the exporter. The region is stored, too, because a flush may read a new
 * region that was not joined yet.
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
		.folder_fd = (int)sp_syscall_always(SYS_openat, AT_FDCWD, "/proc/self",
						    O_PATH | O_DIRECTORY | O_CLOEXEC, 0),
		/* The map of the first thread, which usually lives as long as the process. */
		.maps_fd = (int)sp_syscall_always(SYS_openat, AT_FDCWD, "/proc/self/maps",
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
	 * A process that starts its own exporter clears this, too: a forked child's region may be
	 * at the address of the parent's. Pairs with is_waited_for().
	 */
	atomic_store_explicit(&joined.region, is_joined ? start.region : NULL,
			      memory_order_release);
	if (!is_joined) {
		start.path = path;
		err = sp_exporter_path(path) ? sp_exporter_check(path) : -ENOENT;
		if (err == 0)
			err = sp_exporter_process_start(&start);
	}
	(void)sp_syscall_always(SYS_close, region_fd);
	if (start.folder_fd >= 0)
		(void)sp_syscall_always(SYS_close, start.folder_fd);
	if (start.maps_fd >= 0)
		(void)sp_syscall_always(SYS_close, start.maps_fd);
	if (start.family_fd >= 0)
		(void)sp_syscall_always(SYS_close, start.family_fd);
	if (err != 0 && !sp_exporter_error_passes(err))
		tell_start_failed(reason(err));
	return err;
}

/* --- Watching it, and waiting for it -------------------------------------------------------------- */

/*
 * Whether this process has joined an exporter that does not serve it yet. Whether exporter_pid
 * lives does not answer this, because it may be the number of the process that started the
 * exporter. So we check at intervals whether somebody still listens at the socket. False if we have
 * given up waiting; an exporter that finds our region later does not touch it.
 */
static bool is_waited_for(struct sp_region *r, uint32_t *now)
{
	uint64_t at = sp_monotonic_ns();
	bool is_too_late;

	/* pairs with sp_exporter_start(), which wrote the times before */
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
		 * Either the exporter is stopped, or it has ended and a process that was forked
		 * during its start still holds its socket open. Another join would wait in vain
		 * again.
		 */
		if (is_too_late)
			sp_exporter_family_refused();
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
	/* The exporter may have begun or ended between the two reads. */
	if (now == SP_EXPORTER_NONE && !alive)
		now = atomic_load_explicit(&r->exporter, memory_order_acquire);
	if (alive && (now == SP_EXPORTER_NONE || now == SP_EXPORTER_WORKING))
		return true;
	/*
	 * The exporter was killed. From now on every span checks for it
	 * (sp_deferred_work_is_due()).
	 */
	if (now == SP_EXPORTER_WORKING)
		(void)atomic_compare_exchange_strong_explicit(&r->exporter, &now, SP_EXPORTER_GONE,
							      memory_order_relaxed,
							      memory_order_relaxed);
	return false;
}

void sp_exporter_log_ended(void)
{
	const struct sp_region *r = sp_region_now();
	uint32_t now = atomic_load_explicit(&r->exporter, memory_order_acquire);
	int err = -atomic_load_explicit(&r->exporter_error, memory_order_relaxed);

	/* SP_EXPORTER_MOVED: if the host's exec fails, it starts another exporter. */
	if (now == SP_EXPORTER_MOVED ||
	    atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
		return;
	if (now == SP_EXPORTER_GONE || now == SP_EXPORTER_REFUSED)
		sp_log(SP_LOG_WARN,
		       "the exporter ended and no more profiles of this process are sent; what it "
		       "had not sent is lost: %llu samples",
		       (unsigned long long)sp_region_swap_unsent());
	else
		tell_start_failed(err != 0 ? reason(err) : "it ended at once");
}

/*
 * Whether SIGSTOP or a similar signal has stopped the exporter. Perhaps nobody continues it. Once
 * it is continued, it takes the records of the region, even if we have ended. A stop by a debugger
 * or tracer (state "t") does not count, because most of these stops are short.
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

void sp_exporter_wake(struct sp_region *r)
{
	atomic_fetch_add_explicit(&r->wake, 1, memory_order_release);
	(void)sp_syscall(SYS_futex, &r->wake, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Asks for a flush. Returns the value that flush_done will have when the flush is answered. */
static uint32_t ask_for_flush(struct sp_region *r, uint64_t deadline_ns)
{
	uint32_t mine;

	atomic_store_explicit(&r->flush_deadline_ns, deadline_ns, memory_order_relaxed);
	if (sp_keeper_made(r))
		atomic_store_explicit(&r->end_asked, 1, memory_order_relaxed);
	mine = atomic_fetch_add_explicit(&r->flush_asked, 1, memory_order_release) + 1;
	sp_exporter_wake(r);
	return mine;
}

static bool is_answered(const struct sp_region *r, uint32_t mine, uint32_t *done)
{
	*done = atomic_load_explicit(&r->flush_done, memory_order_acquire);
	return (int32_t)(*done - mine) >= 0;
}

/* False if the exporter ended before it answered. */
static bool flush(uint64_t end)
{
	struct sp_region *r = NULL;
	uint64_t pause = LOOK_NS;
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
			/* The exporter may have answered since, and then ended. */
			if (!sp_exporter_works())
				return is_answered(r, mine, &done);
			/*
			 * We wait for a stopped exporter of our own: it may be continued in time,
			 * and is killed with its samples otherwise.
			 */
			if (!sp_keeper_made(r) && is_stopped(r))
				return true;
			look = now + pause;
			pause = pause < LOOK_MOST_NS ? 2 * pause : LOOK_MOST_NS;
		}
		const uint64_t until = end < look ? end : look;
		const struct timespec nap = {.tv_nsec = (long)(until - now)};

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
	if (sp_keeper_is_there())
		sp_exporter_family_ask_parent();
	if (timeout_ms == 0) {
		(void)sp_exporter_process_may_start();
		return true;
	}
	answered = flush(end);
	/*
	 * This also reaps a keeper that could not start an exporter, or whose exporter ended long
	 * ago.
	 */
	if (!sp_seccomp_is_on())
		(void)sp_exporter_process_end(end + GRACE_NS);
	return answered;
}
