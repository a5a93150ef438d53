/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-preload adds libspanprof.so to /etc/ld.so.preload, which the loader reads for every
 * program that it starts, or removes it. A mistake here stops the machine: a program that the
 * loader cannot start cannot be used to repair the file. So this is part of a static program, which
 * runs with any content of the file, and
 *
 * - programs are run with the object before the file is changed, and once more afterwards; if they
 *   print something else than before, the file gets its former text back;
 * - every other byte stays, and so do owner, mode and extended attributes. The new file replaces
 *   the old one in one step, and then the old one is read again: if another program has changed it
 *   meanwhile, in place or by a new file, that text is changed next. An editor that read the file
 *   before and writes it later undoes the change;
 * - the object, the exporter beside it and all folders above them belong to root, and nobody else
 *   may write to them: a user who could would run code as any other user.
 *
 * Programs of 32 bits read the same file, and each would complain about an object of 64 bits. So on
 * machines that run such programs the entry contains $LIB, which each loader replaces by the name
 * of the system's folder for its libraries: beside the object there are folders of these names,
 * with links to the object or to an empty object of 32 bits.
 *
 * With --root this process calls chroot() and then works as without the option, so no link leads
 * out of that root. Another user may have filled that root with programs. "status" runs none of
 * them, and "enable" runs them as nobody, without capabilities, in separate namespaces. One
 * thread; every exit removes the second file beside the first.
 */
#define _GNU_SOURCE
#include "scripts/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/config/config_file.h"
#include "sampler/config/config_table.h"
#include "scripts/run/target.h"

#define FILE_OF_ALL "/etc/ld.so.preload"
#define TEXT_MAX ((size_t)256 << 10)
#define ATTRIBUTES_MAX ((size_t)64 << 10)
#define ATTEMPTS 10
#define SAID_MAX ((size_t)12 << 10)
/* The time to wait for another spanprof-preload, and for a program that is tried. */
#define PATIENCE_S 60U

enum { DONE = 0, NOT_ENABLED = 1, NOT_WORKING = 2, REFUSED = 125 };

struct text {
	size_t len;
	char data[TEXT_MAX];
};

/* The entries of a text: ours, another libspanprof.so, and all bytes except those of our entry. */
struct listing {
	const char *found; /* object, or spread if only that one is there; NULL = none */
	char other[PATH_MAX];
	struct text rest;
};

static const char usage[] =
	"Usage: spanprof-preload [--root DIR] [--object PATH] enable [--set NAME=VALUE]...\n"
	"       spanprof-preload [--root DIR] [--object PATH] disable|status\n"
	"Adds libspanprof.so to /etc/ld.so.preload, removes it, or says whether it is there.\n"
	"glibc's loader reads that file for every program that it starts.\n"
	"\n"
	"  --root DIR     change the machine whose files are below DIR\n"
	"  --object PATH  use this libspanprof.so instead of the installed one; a path as seen in\n"
	"                 DIR\n"
	"  --set NAME=VALUE  with enable: write that variable into /etc/spanprof.conf, which\n"
	"                 every program reads that loads the object by this file; an empty\n"
	"                 value removes the variable\n"
	"  --version, --help\n"
	"\n"
	"Exit status: 0 done, or enabled; 1 not enabled; 2 enabled, but a message says what is\n"
	"wrong; 125 refused or used wrongly.\n";

static const char *root = "";
static char object[PATH_MAX];
static char spread[PATH_MAX + 16];
static char file[PATH_MAX] = FILE_OF_ALL; /* in the root; behind links, but for "enable" */
static char aside[PATH_MAX + 32];         /* the new text, later the replaced one; "" = none */
static bool takes_out;                    /* "disable": a refusal leaves our entry in the file */
static volatile sig_atomic_t interrupted;

static struct text content; /* the file's text when last read */
static bool present;
static bool was_present;       /* the file existed when it was replaced */
static struct listing listing; /* of the content */
static struct text fresh;      /* the text that the file shall have */
static struct text put;        /* the text last put there */
static struct text expected;   /* the text read before, which the file aside should have */

static bool holds(const struct text *t, const char *words)
{
	return memmem(t->data, t->len, words, strlen(words)) != NULL;
}

static int leave(int status)
{
	if (aside[0] != '\0')
		(void)unlink(aside);
	aside[0] = '\0';
	return status;
}

static __attribute__((format(printf, 1, 2), noreturn)) void give_up(const char *fmt, ...)
{
	char text[SP_LINE_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (takes_out && (holds(&content, object) || holds(&content, spread)))
		sp_complain("%s; %s%s still lists %s; remove this entry by hand before you remove "
			    "the "
			    "object",
			    text, root, file, object);
	else
		sp_complain("%s", text);
	exit(leave(REFUSED));
}

/* --- The text of the file -------------------------------------------------------------------------- */

static void append(struct text *t, const char *bytes, size_t len)
{
	if (len > TEXT_MAX - t->len)
		give_up("%s%s would be too large", root, file);
	memcpy(t->data + t->len, bytes, len);
	t->len += len;
}

static bool equal(const struct text *a, const struct text *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static bool is_separator(char c)
{
	return c != '\0' && strchr(": \t\n\v\f\r", c) != NULL;
}

static const char *skip(const char *at, const char *end, bool separators)
{
	while (at < end && is_separator(*at) == separators)
		at++;
	return at;
}

static bool is(const char *at, const char *end, const char *entry)
{
	size_t len = strlen(entry);

	return (size_t)(end - at) == len && memcmp(at, entry, len) == 0;
}

/*
 * The loader separates entries by blanks and colons. Our entry is removed with the separators
 * before it, or if it is the first of its line with those after it.
 */
static void take_out_of_line(const char *at, const char *comment, const char *end)
{
	struct text *rest = &listing.rest;
	size_t began = rest->len;
	bool hit = false;

	while (at < comment) {
		const char *entry = skip(at, comment, true);
		const char *next = skip(entry, comment, false);
		const char *slash = memrchr(entry, '/', (size_t)(next - entry));

		if (is(entry, next, object) || is(entry, next, spread)) {
			hit = true;
			if (listing.found != object)
				listing.found = is(entry, next, object) ? object : spread;
			at = rest->len == began ? skip(next, comment, true) : next;
			continue;
		}
		if (is(slash != NULL ? slash + 1 : entry, next, SP_OBJECT_NAME))
			(void)snprintf(listing.other, sizeof(listing.other), "%.*s",
				       (int)(next - entry), entry);
		append(rest, at, (size_t)(next - at));
		at = next;
	}
	if (!hit || rest->len != began || (comment < end && *comment == '#'))
		append(rest, comment, (size_t)(end - comment));
}

/* Fills the listing. The loader ignores text after a "#". */
static void take_out(const struct text *in)
{
	const char *at = in->data;
	const char *stop = in->data + in->len;

	listing.found = NULL;
	listing.other[0] = '\0';
	listing.rest.len = 0;
	while (at < stop) {
		const char *end = memchr(at, '\n', (size_t)(stop - at));
		const char *comment = memchr(at, '#', (size_t)((end != NULL ? end : stop) - at));

		if (comment == NULL)
			comment = end != NULL ? end : stop;
		take_out_of_line(at, comment, end != NULL ? end + 1 : stop);
		at = end != NULL ? end + 1 : stop;
	}
}

/* --- The file -------------------------------------------------------------------------------------- */

/*
 * Returns a descriptor of the regular file, or a negative errno: -EINVAL for another kind of file,
 * -EFBIG.
 */
static int read_text(const char *path, struct text *t)
{
	struct stat st;
	ssize_t n = 1;
	int fd;
	int err = 0;

	t->len = 0;
	/* Checked before, because opening a device can have an effect. */
	if (stat(path, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	while (t->len < TEXT_MAX && (n = read(fd, t->data + t->len, TEXT_MAX - t->len)) > 0)
		t->len += (size_t)n;
	if (n < 0)
		err = -errno;
	else if (t->len == TEXT_MAX)
		err = -EFBIG;
	if (err == 0)
		return fd;
	(void)close(fd);
	return err;
}

/*
 * Reads the file and lists its entries. Only "enable" refuses a file of another kind: a package is
 * removed after "disable", which must not fail if there is nothing to do.
 */
static int read_file(bool enables)
{
	struct stat st;
	int fd;

	if (enables && lstat(file, &st) == 0) {
		if (S_ISLNK(st.st_mode))
			give_up("%s%s is a symbolic link; not touching it", root, file);
		if (!S_ISREG(st.st_mode))
			give_up("%s%s is not a regular file; not touching it", root, file);
	}
	fd = read_text(file, &content);
	if (fd == -EACCES || fd == -EIO || fd == -EFBIG || fd == -EPERM)
		give_up("%s%s cannot be read: %s", root, file, strerror(-fd));
	present = fd >= 0;
	take_out(&content);
	if (!enables && !holds(&content, object) && !holds(&content, spread))
		return fd;
	if (memchr(content.data, '\0', content.len) != NULL)
		give_up("%s%s is not text; not touching it", root, file);
	return fd;
}

static void copy_attributes(int from, int to)
{
	static char names[ATTRIBUTES_MAX];
	static char value[ATTRIBUTES_MAX];
	ssize_t len = flistxattr(from, names, sizeof(names));
	const char *end = names + (len > 0 ? len : 0);

	/* Like cp -a: attributes that this file system or this user cannot set are left out. */
	for (const char *name = names; name < end; name += strlen(name) + 1) {
		ssize_t n = fgetxattr(from, name, value, sizeof(value));

		if (n >= 0)
			(void)fsetxattr(to, name, value, (size_t)n, 0);
	}
}

/*
 * Writes a second file beside the first with that text, and with the owner, mode and attributes of
 * like (-1: those of a new file).
 */
static int write_aside(const struct text *t, int like)
{
	struct stat st = {.st_mode = 0644, .st_uid = 0, .st_gid = 0};
	size_t done = 0;
	ssize_t n = 1;
	int err = 0;
	int fd;

	(void)leave(0);
	(void)snprintf(aside, sizeof(aside), "%s.spanprof.XXXXXX", file);
	fd = mkostemp(aside, O_CLOEXEC);
	if (fd < 0) {
		aside[0] = '\0';
		return -errno;
	}
	while (done < t->len && (n = write(fd, t->data + done, t->len - done)) > 0)
		done += (size_t)n;
	if (done < t->len || (like >= 0 && fstat(like, &st) != 0) ||
	    (like >= 0 && fchown(fd, st.st_uid, st.st_gid) != 0) ||
	    fchmod(fd, st.st_mode & 07777) != 0 || fsync(fd) != 0)
		err = errno != 0 ? -errno : -EIO;
	if (err == 0 && like >= 0)
		copy_attributes(like, fd);
	(void)close(fd);
	return err;
}

/* Exchanges the names of the two files in one step; if the file system cannot do that, in two. */
static int exchange(void)
{
	char both[sizeof(aside) + 4];

	if (syscall(SYS_renameat2, AT_FDCWD, aside, AT_FDCWD, file, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return errno == ENOENT ? -EAGAIN : -errno;
	(void)snprintf(both, sizeof(both), "%s.old", aside);
	if (link(file, both) != 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (rename(aside, file) == 0)
		return rename(both, aside) == 0 ? 0 : -errno;
	(void)unlink(both);
	return -EROFS;
}

/*
 * Gives the file the fresh text, or removes it. have: the file that has the content. -EAGAIN =
 * another program was faster.
 */
static int replace(int have, bool keeps_empty)
{
	int err;

	if (fresh.len == 0 && !keeps_empty) {
		(void)leave(0);
		(void)snprintf(aside, sizeof(aside), "%s.spanprof.%d", file, (int)getpid());
		return rename(file, aside) == 0 ? 0 : errno == ENOENT ? -EAGAIN : -errno;
	}
	err = write_aside(&fresh, have);
	if (err != 0)
		return err;
	if (present)
		return exchange();
	/* A file that another program has made is not overwritten. */
	err = link(aside, file) == 0 ? 0 : errno == EEXIST ? -EAGAIN : -errno;
	(void)leave(0);
	return err;
}

typedef bool change_fn(void);

/*
 * Does the replaced file have the text that was read? If not, another program has written the file
 * meanwhile: that program's text, with our change, becomes the content.
 */
static void settle(change_fn *change)
{
	static struct text out;

	for (int attempt = 0; aside[0] != '\0' && attempt < ATTEMPTS; attempt++) {
		int fd = read_text(aside, &out);
		int err;

		if (fd < 0 || equal(&out, &expected)) {
			if (fd >= 0)
				(void)close(fd);
			return;
		}
		/* An editor that has emptied the file will write into the replaced one. */
		if (out.len == 0) {
			(void)close(fd);
			break;
		}
		content = out;
		take_out(&content);
		if (!change())
			fresh = content;
		present = put.len != 0;
		err = replace(fd, true);
		(void)close(fd);
		if (err != 0)
			break;
		expected = put;
		put = fresh;
	}
	if (aside[0] != '\0')
		sp_complain("another program changed %s%s at the same moment; check its content",
			    root, file);
}

/* False = the file already has the right text. */
static bool apply(change_fn *change, bool enables, bool keeps_empty)
{
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		int fd = read_file(enables);
		int err;

		if (!change()) {
			if (fd >= 0)
				(void)close(fd);
			return false;
		}
		was_present = present;
		err = replace(fd, keeps_empty);
		if (fd >= 0)
			(void)close(fd);
		if (err == 0) {
			expected = content;
			put = fresh;
			settle(change);
			return true;
		}
		if (err != -EAGAIN)
			give_up("%s%s cannot be written: %s", root, file, strerror(-err));
	}
	give_up("another program keeps changing %s%s; gave up after %d attempts", root, file,
		ATTEMPTS);
}

#define LOCK_FILE "/run/spanprof-preload.lock"

static int lock_file = -1;

/*
 * Every user may open /etc and its files, and lock them for any time. So the lock is a separate
 * file that only root may open, on this machine. If it cannot be opened, there is no lock: changes
 * by others at the same moment are noticed anyway.
 */
static void open_lock(void)
{
	struct stat st;
	int fd = open(LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
	    (st.st_mode & 077) == 0)
		lock_file = fd;
	else if (fd >= 0)
		(void)close(fd);
}

/* Makes other spanprof-preload processes wait until this one is done. */
static void lock(void)
{
	int err;

	if (lock_file < 0)
		return;
	(void)alarm(PATIENCE_S);
	err = flock(lock_file, LOCK_EX);
	(void)alarm(0);
	if (err != 0 || interrupted)
		give_up("another spanprof-preload is at work");
	/* The lock file stays open until the process ends. */
}

/*
 * --- What programs print
 * -----------------------------------------------------------------------------
 */

static const char *const small_loaders[] = {"/lib/ld-linux.so.2", "/lib32/ld-linux.so.2",
					    "/libx32/ld-linux-x32.so.2", "/lib/ld-linux.so.3",
					    "/lib/ld-linux-armhf.so.3"};
static const char
	*small[sizeof(small_loaders) / sizeof(small_loaders[0])]; /* the loaders that run here */
static size_t smalls;
static const char *wanted; /* object or spread */
static bool runs = true;   /* whether to run the machine's programs, and compare what they print */
static char problem[SP_LINE_MAX];

#define NOBODY 65534U
#define NAMESPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/*
 * Confines a process before it executes a program of another root: it has no descriptor except 0 to
 * 2, no terminal to type into, no keys of root, and sees no other process. False = a part of this
 * is impossible.
 */
static bool confine(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[2] = {{0}};

	while (umount2("/proc", MNT_DETACH) == 0)
		;
	(void)setsid();
	(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	return syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0 &&
	       prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && setgroups(0, NULL) == 0 &&
	       setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0 &&
	       syscall(SYS_capset, &head, none) == 0;
}

/*
 * To be called before chroot(): after it, no path leads to the mount that the new root belongs to.
 */
static void separate_mounts(void)
{
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		give_up("--root %s: its programs have to be tried in namespaces of their own, "
			"and "
			"these cannot be made: %s; use chroot and this program inside",
			root, strerror(errno));
}

static void become(const char *const *argv, const char *const *variables, int out, bool quiet)
{
	/* Takes output that nobody reads: a root may have no /dev/null. */
	int sink = memfd_create("sink", MFD_CLOEXEC);

	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGXFSZ, SIG_DFL);
	if (dup2(sink, STDIN_FILENO) == STDIN_FILENO &&
	    dup2(quiet ? sink : out, STDOUT_FILENO) == STDOUT_FILENO &&
	    dup2(out, STDERR_FILENO) == STDERR_FILENO && (root[0] == '\0' || confine()))
		(void)execve(argv[0], (char *const *)(uintptr_t)argv,
			     (char *const *)(uintptr_t)variables);
	_exit(errno == ENOENT ? 127 : 126);
}

/*
 * Runs a program and appends its output to a text (with quiet, only the standard error). Returns
 * the status as a shell does. Kills the program if it takes too long, or if this process gets a
 * signal to end.
 */
static int run(const char *const *argv, const char *const *variables, struct text *said, bool quiet)
{
	char buf[4096];
	ssize_t n;
	int status = 0;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return 126;
	/* When the first process of a pid namespace ends, the kernel kills the others. */
	pid = root[0] == '\0'
		      ? fork()
		      : (pid_t)syscall(SYS_clone, NAMESPACES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid < 0)
		give_up("%s cannot be run: %s", argv[0], strerror(errno));
	if (pid == 0)
		become(argv, variables, ends[1], quiet);
	(void)close(ends[1]);
	(void)alarm(PATIENCE_S);
	while ((n = read(ends[0], buf, sizeof(buf))) > 0 ||
	       (n < 0 && errno == EINTR && !interrupted)) {
		if (n > 0 && said->len + (size_t)n <= SAID_MAX)
			append(said, buf, (size_t)n);
	}
	(void)alarm(0);
	if (interrupted)
		(void)kill(pid, SIGKILL);
	(void)close(ends[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void add_status(struct text *said, const char *program, int status)
{
	char line[PATH_MAX];

	append(said, line, (size_t)snprintf(line, sizeof(line), "%s %d\n", program, status));
}

/*
 * Collects what programs print and how they end: with that entry in the environment, or (NULL) with
 * the file. The machine may have no program of 32 bits, so their loaders are run instead.
 */
static void try(const char *entry, struct text *said)
{
	static const char *const programs[][4] = {
		{"/bin/true"}, {"/bin/sh", "-c", "exit 3"}, {"/bin/ls", "/"}};
	static char preload[sizeof(spread) + 16];
	/*
	 * Profiled with the machine's settings, the programs could print something different each
	 * time.
	 */
	const char *variables[] = {"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
				   "SPANPROF_DISABLED=true", NULL, NULL};

	if (entry != NULL) {
		(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", entry);
		variables[3] = preload;
	}
	said->len = 0;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		add_status(said, programs[i][0], run(programs[i], variables, said, i == 2));
	for (size_t i = 0; i < smalls; i++) {
		const char *argv[] = {small[i], "--list", "libc.so.6", NULL};

		add_status(said, small[i], run(argv, variables, said, true));
	}
}

/* The result if all programs end as they should. */
static void try_nothing(struct text *said)
{
	said->len = 0;
	add_status(said, "/bin/true", 0);
	add_status(said, "/bin/sh", 3);
	add_status(said, "/bin/ls", 0);
	for (size_t i = 0; i < smalls; i++)
		add_status(said, small[i], 0);
}

/* The text in one line. */
static const char *words_of(const struct text *said)
{
	static char words[SAID_MAX + 1];
	size_t len = said->len < SAID_MAX ? said->len : SAID_MAX;

	while (len > 0 && said->data[len - 1] == '\n')
		len--;
	for (size_t i = 0; i < len; i++)
		words[i] = said->data[i] == '\n' ? ';' : said->data[i];
	words[len] = '\0';
	return words;
}

/* Removes the lines in which a loader says that it cannot load the entry that is replaced. */
static void forget_complaints(struct text *said)
{
	static struct text rest;
	static char complaint[PATH_MAX + 64];

	(void)snprintf(complaint, sizeof(complaint),
		       "ERROR: ld.so: object '%s' from " FILE_OF_ALL " ", object);
	rest.len = 0;
	for (const char *at = said->data, *stop = at + said->len; at < stop;) {
		const char *end = memchr(at, '\n', (size_t)(stop - at));
		size_t len = (size_t)((end != NULL ? end + 1 : stop) - at);

		if (memmem(at, len, complaint, strlen(complaint)) == NULL)
			append(&rest, at, len);
		at += len;
	}
	*said = rest;
}

/*
 * --- The object for every program
 * --------------------------------------------------------------------
 */

static __attribute__((format(printf, 1, 2))) bool bad(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(problem, sizeof(problem), fmt, args);
	va_end(args);
	return false;
}

/* A user who may change the object or replace one of its folders may run code as any other user. */
static bool look_at_rights(const char *path, mode_t needed)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return bad("%s: %s", path, strerror(errno));
	if (st.st_uid != 0)
		return bad("%s does not belong to root", path);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return bad("%s may be written by others than root", path);
	if ((st.st_mode & (S_ISDIR(st.st_mode) ? S_IXOTH : S_IROTH)) == 0)
		return bad("%s cannot be read by every user", path);
	if ((st.st_mode & needed) != needed)
		return bad("%s cannot be executed by every user", path);
	return true;
}

#define LINKS_MAX 40

struct way {
	char at[PATH_MAX]; /* the folder reached so far, without links; "" = the root folder */
	char rest[2 * PATH_MAX];
	int links;
};

/* Goes to the first name of the rest. A link only changes the rest. */
static bool step(struct way *w)
{
	static char rest[sizeof(w->rest)];
	char next[PATH_MAX];
	char target[PATH_MAX] = "";
	const char *name = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(name, "/");
	bool is_up = len == 2 && memcmp(name, "..", 2) == 0;
	ssize_t n = -1;

	if (is_up)
		*(w->at[0] != '\0' ? strrchr(w->at, '/') : w->at) = '\0';
	else if (snprintf(next, sizeof(next), "%s/%.*s", w->at, (int)len, name) >=
		 (int)sizeof(next))
		return bad("%s/%s: the path is too long", w->at, name);
	else
		n = readlink(next, target, sizeof(target) - 1);
	if (n > 0 && w->links++ == LINKS_MAX)
		return bad("%s: there are too many links", next);
	if (snprintf(rest, sizeof(rest), "%s%s", target, name + len) >= (int)sizeof(rest))
		return bad("%s%s: the path is too long", target, name + len);
	if (n > 0 && target[0] == '/')
		w->at[0] = '\0';
	else if (n <= 0 && !is_up)
		memcpy(w->at, next, strlen(next) + 1);
	memcpy(w->rest, rest, strlen(rest) + 1);
	return true;
}

/*
 * Checks the file, and every folder through which the kernel reaches it, including those behind
 * links.
 */
static bool look_at_way(const char *path)
{
	static struct way w;

	if (!look_at_rights(path, 0))
		return false;
	w.at[0] = '\0';
	w.links = 0;
	(void)snprintf(w.rest, sizeof(w.rest), "%s", path);
	while (look_at_rights(w.at[0] != '\0' ? w.at : "/", 0)) {
		if (w.rest[strspn(w.rest, "/")] == '\0')
			return true;
		if (!step(&w))
			return false;
	}
	return false;
}

static bool look_whether_same(const char *link, const char *target)
{
	struct stat a;
	struct stat b;

	return (stat(link, &a) == 0 && stat(target, &b) == 0 && a.st_dev == b.st_dev &&
		a.st_ino == b.st_ino) ||
	       bad("%s is not a link to %s", link, target);
}

/* Writes the path of the file with that name in the folder of path. */
static void beside(char out[PATH_MAX], const char *path, const char *name)
{
	(void)snprintf(out, PATH_MAX, "%.*s/%s", (int)(strrchr(path, '/') - path), path, name);
}

/*
 * Lists the objects that a program would load with the entry, or that a loader would load for the C
 * library, which it finds in /etc/ld.so.cache. No code of the objects runs. Sets led to the file of
 * the entry. False if the kernel does not execute the program.
 */
static bool list(const char *program, const char *library, char led[PATH_MAX], struct text *said)
{
	static char preload[sizeof(spread) + 16];
	static char arrow[sizeof(spread) + 8];
	const char *const argv[] = {program, library, NULL};
	const char *const variables[] = {"LC_ALL=C", preload, "LD_TRACE_LOADED_OBJECTS=1", NULL};
	const char *at;
	const char *end;
	int status;

	(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", spread);
	(void)snprintf(arrow, sizeof(arrow), "%s => ", spread);
	said->len = 0;
	led[0] = '\0';
	status = run(argv, variables, said, false);
	at = memmem(said->data, said->len, arrow, strlen(arrow));
	if (at != NULL && at[strlen(arrow)] == '/') {
		at += strlen(arrow);
		end = memmem(at, said->len - (size_t)(at - said->data), " (0x", 4);
		if (end != NULL)
			(void)snprintf(led, PATH_MAX, "%.*s", (int)(end - at), at);
	}
	return (status != 126 && status != 127) || said->len != 0;
}

static const char *first_line(const struct text *said)
{
	static char line[1024];
	const char *end = memchr(said->data, '\n', said->len);
	size_t len = end != NULL ? (size_t)(end - said->data) : said->len;

	(void)snprintf(line, sizeof(line), "%.*s", (int)len, said->data);
	return line;
}

/*
 * Chooses the entry (wanted), and lists the loaders of 32-bit programs that run here (small). False
 * if the entry leads one of these loaders to no object that it can load.
 */
static bool choose_entry(void)
{
	static struct text said;
	char led[PATH_MAX];
	char theirs[PATH_MAX];
	char ours[PATH_MAX];

	wanted = object;
	smalls = 0;
	if (!runs) {
		wanted = listing.found;
		return true;
	}
	for (size_t i = 0; i < sizeof(small_loaders) / sizeof(small_loaders[0]); i++) {
		if (access(small_loaders[i], F_OK) != 0 ||
		    !list(small_loaders[i], "libc.so.6", led, &said))
			continue;
		small[smalls++] = small_loaders[i];
		if (led[0] == '\0')
			return bad("32-bit programs run on this machine (%s), and each of them "
				   "would print "
				   "that it cannot load %s: %s",
				   small_loaders[i], spread, first_line(&said));
		if (!look_at_way(led))
			return false;
	}
	if (smalls == 0 && listing.found != spread)
		return true;
	wanted = spread;
	(void)list("/bin/sh", NULL, led, &said);
	if (led[0] == '\0')
		return bad("/bin/sh would print that it cannot load %s: %s", spread,
			   first_line(&said));
	beside(ours, object, SP_EXPORTER_NAME);
	beside(theirs, led, SP_EXPORTER_NAME);
	return look_at_way(led) && look_whether_same(led, object) &&
	       (access(ours, F_OK) != 0 || look_whether_same(theirs, ours));
}

/* False, with the problem, if not every program of the machine should load the object. */
static bool look_at_object(void)
{
	char exporter[PATH_MAX];
	struct stat st;

	wanted = object;
	if (strpbrk(object, ": \t\n\v\f\r#$") != NULL)
		return bad("an entry cannot hold blanks, colons, # or $: %s", object);
	if (object[0] != '/')
		return bad("not an absolute path: %s", object);
	if (stat(object, &st) != 0 || !S_ISREG(st.st_mode))
		return bad("no such file: %s", object);
	/* Any program that records a span starts the exporter, for any user. */
	beside(exporter, object, SP_EXPORTER_NAME);
	return look_at_way(object) &&
	       (lstat(exporter, &st) != 0 ||
		(look_at_way(exporter) && look_at_rights(exporter, S_IXOTH))) &&
	       choose_entry();
}

/* --- The settings of all programs ---------------------------------------------------------------------- */

#define SETTINGS_MAX 64U

static const char *settings[SETTINGS_MAX]; /* NAME=VALUE */
static unsigned settings_n;

static size_t name_length(const char *setting)
{
	return (size_t)(strchrnul(setting, '=') - setting);
}

/* The variable with that name; SP_VAR_N = none. */
static unsigned variable_of(const char *setting, unsigned *source)
{
	size_t len = name_length(setting);

	for (unsigned id = 0; id < SP_VAR_N; id++) {
		for (*source = 0; *source < SP_CONFIG_SOURCES; ++*source) {
			const char *name = sp_config_vars[id].source[*source].name;

			if (name != NULL && strlen(name) == len && memcmp(name, setting, len) == 0)
				return id;
		}
	}
	return SP_VAR_N;
}

static void take_setting(const char *setting)
{
	const char *value = setting + name_length(setting);
	int len = (int)(value - setting);
	struct sp_config_value v;
	unsigned source;
	unsigned id = variable_of(setting, &source);

	if (*value++ != '=' || id == SP_VAR_N)
		give_up("--set %.*s: that is no variable of spanprof with a value", len, setting);
	/* The value may be a secret, so it is not shown. */
	if (sp_config_is_secret((enum sp_config_id)id, value))
		give_up("--set %.*s: every user can read " SP_CONFIG_FILE
			"; put the secret into a file and name that in the variable that ends in "
			"_FILE",
			len, setting);
	if (strchr(value, '\n') != NULL)
		give_up("--set %.*s: a value has one line", len, setting);
	if (*value != '\0' && !sp_config_is_list_of_credentials((enum sp_config_id)id, value) &&
	    sp_config_parse_value(&sp_config_vars[id], sp_config_vars[id].source[source].form,
				  value, &v) != 0)
		give_up("--set %.*s: the value %s", len, setting, v.why);
	if (settings_n == SETTINGS_MAX)
		give_up("--set is given more than %u times", SETTINGS_MAX);
	settings[settings_n++] = setting;
}

/* Whether a later setting has the same name. */
static bool is_set_anew(const char *line, unsigned from)
{
	size_t len = name_length(line);

	for (unsigned i = from; i < settings_n; i++)
		if (name_length(settings[i]) == len && memcmp(settings[i], line, len) == 0)
			return true;
	return false;
}

/* Writes the settings into the file; all other lines stay. */
static void write_settings(void)
{
	static struct text old;
	char temp[] = SP_CONFIG_FILE ".XXXXXX";
	struct stat st;
	int fd;
	int err;

	if (settings_n == 0)
		return;
	if (lstat(SP_CONFIG_FILE, &st) == 0 && !S_ISREG(st.st_mode))
		give_up("%s" SP_CONFIG_FILE " is not a regular file; not touching it", root);
	fd = read_text(SP_CONFIG_FILE, &old);
	if (fd >= 0)
		(void)close(fd);
	else if (fd != -ENOENT)
		give_up("%s" SP_CONFIG_FILE " cannot be read: %s", root, strerror(-fd));
	fresh.len = 0;
	for (const char *at = old.data, *stop = old.data + old.len; at < stop;) {
		const char *end = memchr(at, '\n', (size_t)(stop - at));
		char line[64];
		size_t len = (size_t)((end != NULL ? end : stop) - at);

		(void)snprintf(line, sizeof(line), "%.*s", (int)len, at);
		if (!is_set_anew(line, 0)) {
			append(&fresh, at, len);
			append(&fresh, "\n", 1);
		}
		at = end != NULL ? end + 1 : stop;
	}
	for (unsigned i = 0; i < settings_n; i++) {
		if (settings[i][name_length(settings[i]) + 1] == '\0' ||
		    is_set_anew(settings[i], i + 1))
			continue;
		append(&fresh, settings[i], strlen(settings[i]));
		append(&fresh, "\n", 1);
	}
	if (fresh.len >= SP_CONFIG_FILE_MAX)
		give_up("%s" SP_CONFIG_FILE " would be larger than 16 KiB", root);
	fd = mkostemp(temp, O_CLOEXEC);
	err = fd < 0 || write(fd, fresh.data, fresh.len) != (ssize_t)fresh.len ||
	      fchmod(fd, 0644) != 0 || fchown(fd, 0, 0) != 0 || fsync(fd) != 0 ||
	      rename(temp, SP_CONFIG_FILE) != 0;
	if (err != 0) {
		err = errno;
		if (fd >= 0)
			(void)unlink(temp);
		give_up("%s" SP_CONFIG_FILE " cannot be written: %s", root, strerror(err));
	}
	(void)close(fd);
}

static bool look_at_settings(void)
{
	static char text[SP_CONFIG_FILE_MAX + 1];
	const char *why;

	(void)sp_config_file_read(SP_CONFIG_FILE, text, &why);
	return why == NULL || bad(SP_CONFIG_FILE " %s, so programs ignore it", why);
}

/*
 * --- The three commands
 * ------------------------------------------------------------------------------
 */

/*
 * Our entry comes first, so that every byte after it stays, with or without a newline at the end.
 */
static bool with_object(void)
{
	if (listing.other[0] != '\0')
		give_up("%s%s already lists another libspanprof.so: %s", root, file, listing.other);
	fresh.len = 0;
	append(&fresh, wanted, strlen(wanted));
	append(&fresh, "\n", 1);
	append(&fresh, listing.rest.data, listing.rest.len);
	return listing.found != wanted;
}

static bool without_object(void)
{
	fresh = listing.rest;
	return listing.found != NULL;
}

static struct text before_us;
static struct text by_us;

/* The former text; if another program has changed the file since, that text without our entry. */
static bool as_before(void)
{
	if (!equal(&content, &by_us))
		return without_object();
	fresh = before_us;
	return true;
}

static int enable(void)
{
	static struct text before;
	static struct text after;

	if (listing.other[0] != '\0')
		give_up("%s%s already lists another libspanprof.so: %s", root, file, listing.other);
	if (!look_at_object())
		give_up("%s", problem);
	try(NULL, &before);
	if (!holds(&before, "/bin/sh 3\n"))
		give_up("programs do not run even without the object, so nothing was changed: %s",
			words_of(&before));
	try(wanted, &after);
	if (!equal(&before, &after))
		give_up("programs do not run with the object, so nothing was changed: %s",
			words_of(&after));
	/*
	 * 32-bit programs may have complained about our former entry, which is replaced; that line
	 * will not come any more.
	 */
	forget_complaints(&before);
	lock();
	write_settings();
	if (!apply(with_object, true, false)) {
		sp_complain("already enabled: %s%s lists %s", root, file, wanted);
		return DONE;
	}
	before_us = content;
	by_us = put;
	try(NULL, &after);
	if (!equal(&before, &after)) {
		takes_out = true;
		(void)apply(as_before, false, was_present);
		takes_out = false;
		give_up("programs do not run with the object, so %s%s is as it was: %s", root, file,
			words_of(&after));
	}
	settle(with_object);
	sp_complain("enabled: every program started from now on loads %s", wanted);
	return DONE;
}

static int disable(void)
{
	if (listing.found != NULL)
		lock();
	if (listing.found == NULL || !apply(without_object, false, false)) {
		sp_complain("not enabled: %s%s does not list %s%s%s", root, file, object,
			    listing.other[0] != '\0' ? "; it lists another libspanprof.so: " : "",
			    listing.other);
		return DONE;
	}
	sp_complain("disabled; running programs keep the object until they end");
	return DONE;
}

static int status(void)
{
	static struct text said;
	static struct text fine;
	bool ok;

	if (listing.found == NULL) {
		sp_line(stdout, "not enabled: %s%s does not list %s", root, file, object);
		if (listing.other[0] != '\0')
			sp_line(stdout, "but it lists another libspanprof.so: %s", listing.other);
		return NOT_ENABLED;
	}
	ok = look_at_object() && look_at_settings();
	if (ok && listing.found != wanted)
		ok = bad("32-bit programs run on this machine (%s), and each of them prints that "
			 "it cannot "
			 "load %s; \"spanprof-preload enable\" changes the entry",
			 small[0], listing.found);
	said.len = 0;
	if (runs) {
		try(NULL, &said);
		try_nothing(&fine);
	}
	if (ok && runs && !equal(&said, &fine))
		ok = bad("programs say: %s", words_of(&said));
	if (!ok) {
		sp_line(stdout, "enabled in %s%s, but: %s", root, file, problem);
		return NOT_WORKING;
	}
	sp_line(stdout, "enabled: %s%s lists %s", root, file, listing.found);
	return DONE;
}

/* --- The command ----------------------------------------------------------------------------------------- */

static void on_signal(int signal)
{
	(void)signal;
	interrupted = 1;
}

/* A signal to end interrupts waits, and then changes are undone. A full disk is an error. */
static void catch_signals(void)
{
	static const int ends[] = {SIGHUP, SIGINT, SIGTERM, SIGALRM};
	struct sigaction action = {.sa_handler = on_signal};
	struct sigaction old;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (sigaction(ends[i], NULL, &old) == 0 &&
		    (old.sa_handler != SIG_IGN || ends[i] == SIGALRM))
			(void)sigaction(ends[i], &action, NULL);
	}
}

static int finish(const char *text)
{
	fputs(text, stdout);
	return fflush(stdout) == 0 ? DONE : REFUSED;
}

/* Sets the paths of the object. */
static void name_object(const char *path)
{
	const char *name;

	if (snprintf(object, sizeof(object), "%s", path) >= (int)sizeof(object))
		give_up("the path of the object is too long");
	name = strrchr(object, '/');
	name = name != NULL ? name + 1 : object;
	/* Our entry on machines with programs of 32 bits. */
	(void)snprintf(spread, sizeof(spread), "%.*s$LIB/%s", (int)(name - object), object, name);
}

/*
 * An entry whose object was removed has to be found as well: each program complains about such an
 * entry, and a package is removed only after "disable". So entries are compared with the paths that
 * the object may have, up to the first path where there is an object.
 */
static struct {
	char path[PATH_MAX];
	bool there;
} names[SP_OBJECT_PLACES];

static void find_names(void)
{
	for (unsigned i = 0; i < SP_OBJECT_PLACES; i++)
		if (!sp_object_name(i, names[i].path, &names[i].there))
			give_up("cannot find where this program is; name the object with --object");
}

/* The path without links of a file that may not exist any more. */
static bool resolve(const char *path, char real[PATH_MAX])
{
	char folder[PATH_MAX];
	char above[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (path[0] != '/')
		return false;
	if (realpath(path, real) != NULL)
		return true;
	(void)snprintf(folder, sizeof(folder), "%.*s/", (int)(slash - path), path);
	return realpath(folder, above) != NULL &&
	       snprintf(real, PATH_MAX, "%s%s", strcmp(above, "/") != 0 ? above : "", slash) <
		       PATH_MAX;
}

/*
 * The entry is a path without links: another user who may change a link, or a folder above its
 * target, could put an object of his own there. "disable" also removes entries with links.
 */
static void choose_given(bool enables)
{
	char given[PATH_MAX];
	char real[PATH_MAX];
	int fd;

	(void)snprintf(given, sizeof(given), "%s", object);
	if (!resolve(given, real))
		return;
	name_object(real);
	if (enables)
		return;
	fd = read_file(false);
	if (fd >= 0)
		(void)close(fd);
	if (listing.found == NULL)
		name_object(given);
}

static void choose_name(void)
{
	for (unsigned i = 0; i < SP_OBJECT_PLACES; i++) {
		int fd;

		name_object(names[i].path);
		fd = read_file(false);
		if (fd >= 0)
			(void)close(fd);
		if (listing.found != NULL || names[i].there)
			return;
	}
	name_object(names[SP_OBJECT_INSTALLED].path);
}

static const char *given; /* the path in --object; NULL = none */

/* Sets the paths of the object, as seen in the root, and changes to that root. */
static void enter(bool enables)
{
	static char found[PATH_MAX];
	const char *why;
	char *folder = strdup(root);

	if (folder == NULL)
		give_up("out of memory");
	for (size_t len = strlen(folder); len > 0 && folder[len - 1] == '/'; len--)
		folder[len - 1] = '\0';
	root = folder;
	if (given != NULL)
		name_object(given);
	else if (!enables)
		find_names();
	else if (sp_object_find(found, &why))
		name_object(found);
	else
		give_up("%s: %s; name it with --object", found, why);
	if (root[0] != '\0' && enables)
		separate_mounts();
	if (root[0] != '\0' && (chroot(root) != 0 || chdir("/") != 0))
		give_up("--root %s: %s", root, strerror(errno));
}

static int use_wrongly(void)
{
	fputs(usage, stderr);
	return REFUSED;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

/* Takes an option and its value. False if it is not such an option. */
static bool take_option(const char *name, const char *value)
{
	if (!is_one_of(name, "--root", "--object", "--set"))
		return false;
	if (value == NULL)
		give_up("%s needs a value", name);
	if (strcmp(name, "--root") == 0)
		root = value;
	else if (strcmp(name, "--object") == 0)
		given = value;
	else
		take_setting(value);
	return true;
}

/* Changes to the root, finds the object's path and reads the file. */
static void begin(const char *action)
{
	bool enables = strcmp(action, "enable") == 0;
	char led[PATH_MAX];
	int fd;

	catch_signals();
	if (settings_n != 0 && !enables)
		give_up("--set is for enable");
	if (strcmp(action, "status") != 0)
		open_lock();
	enter(enables);
	/* "status" must not execute programs that another user put into that root. */
	runs = enables || root[0] == '\0';
	/*
	 * The loader follows links. Our entry is removed from the file behind them; "enable"
	 * refuses a link, because others decide where it leads.
	 */
	if (!enables && realpath(FILE_OF_ALL, led) != NULL)
		(void)snprintf(file, sizeof(file), "%s", led);
	takes_out = strcmp(action, "disable") == 0;
	if (given == NULL && !enables)
		choose_name();
	else
		choose_given(enables);
	fd = read_file(enables);
	if (fd >= 0)
		(void)close(fd);
}

int sp_preload(int argc, char **argv)
{
	const char *action = NULL;

	for (int at = 0; at < argc; at++) {
		const char *word = argv[at];

		if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
			return finish(usage);
		if (strcmp(word, "--version") == 0)
			return finish("spanprof-preload " SP_VERSION "\n");
		if (take_option(word, argv[at + 1]))
			at++;
		else if (action == NULL && is_one_of(word, "enable", "disable", "status"))
			action = word;
		else
			return use_wrongly();
	}
	if (action == NULL)
		return use_wrongly();
	begin(action);
	if (strcmp(action, "enable") == 0)
		return leave(enable());
	return leave(takes_out ? disable() : status());
}
