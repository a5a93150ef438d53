/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-preload puts libspanprof.so into /etc/ld.so.preload, which the loader reads for every program that
 * it starts, or takes it out again. A mistake here stops the machine: a program that the loader cannot
 * start cannot be used to repair the file. So this is part of a static program, which runs whatever the file
 * says, and
 *  - programs are run with the object before the file is changed, and once more afterwards; if they say
 *    anything else than before, the file gets its former text back;
 *  - every other byte stays, and so do owner, mode and extended attributes. The new file takes the place of
 *    the old one in one step, and the old one is read again afterwards: what others wrote until then, in the
 *    file or by another file of that name, is the text that is changed next. An editor that has read the
 *    file before and writes it afterwards undoes the change;
 *  - the object, the exporter beside it and all folders above them belong to root, and nobody else may write
 *    to them: whoever could, would run code as anybody.
 *
 * Programs of 32 bits read the same file, and each of them would complain about an object of 64. So where
 * they run the entry has $LIB in it, in place of which each loader puts the name of the folder where the
 * system has the libraries for it: beside the object there are folders of these names, with links to it or
 * with an empty object of 32 bits.
 *
 * With --root this process changes its root and then works as it does without: links in that root are not
 * followed out of it. One thread; every path out of this file removes the file that lies beside the other.
 */
#define _GNU_SOURCE
#include "scripts/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "scripts/run/target.h"

#define FILE_OF_ALL "/etc/ld.so.preload"
#define TEXT_MAX ((size_t)256 << 10)
#define ATTRIBUTES_MAX ((size_t)64 << 10)
#define ATTEMPTS 10
#define SAID_MAX ((size_t)12 << 10)
/* How long another one of us is waited for, and a program that is tried. */
#define PATIENCE_S 60U

enum { DONE = 0, NOT_ENABLED = 1, NOT_WORKING = 2, REFUSED = 125 };

struct text {
	size_t len;
	char data[TEXT_MAX];
};

/* What a text lists: our entry, another libspanprof.so, and all but our entry to the byte. */
struct listing {
	const char *found; /* object, or spread if that alone is there; NULL = none */
	char other[PATH_MAX];
	struct text rest;
};

static const char usage[] =
	"Usage: spanprof-preload [--root DIR] [--object PATH] enable|disable|status\n"
	"Adds libspanprof.so to /etc/ld.so.preload, removes it, or says whether it is there.\n"
	"glibc's loader reads that file for every program that it starts.\n"
	"\n"
	"  --root DIR     change the machine whose files are below DIR\n"
	"  --object PATH  use this libspanprof.so instead of the installed one; a path as seen in\n"
	"                 DIR\n"
	"  --version, --help\n"
	"\n"
	"Exit status: 0 done, or enabled; 1 not enabled; 2 enabled, but something is wrong, which\n"
	"is told; 125 refused or used wrongly.\n";

static const char *root = "";
static char object[PATH_MAX];
static char spread[PATH_MAX + 16];
static char file[PATH_MAX] = FILE_OF_ALL; /* in the root; where links lead to, but for "enable" */
static char aside[PATH_MAX + 32];         /* the new text, then what it has replaced; "" = none */
static bool takes_out;                    /* a refusal leaves our entry where it is */
static volatile sig_atomic_t interrupted;

static struct text content; /* of the file, as it was read last */
static bool present;
static bool was_present;       /* when it was replaced */
static struct listing listing; /* of the content */
static struct text fresh;      /* what the file is to have instead */
static struct text put;        /* what was put there last */
static struct text expected;   /* what was read before, so it should be in the file aside */

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
		sp_complain("%s; %s%s still lists %s, which has to be taken out by hand before the "
			    "object "
			    "goes away",
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
 * The loader separates entries by blanks and colons. Our entry goes with the separators before it, or as the
 * first one of its line with those behind it.
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

/* Fills the listing. The loader ignores what follows a "#". */
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

/* Returns a descriptor of the regular file, or a negative errno: -EINVAL for what is none, -EFBIG. */
static int read_text(const char *path, struct text *t)
{
	struct stat st;
	ssize_t n = 1;
	int fd;
	int err = 0;

	t->len = 0;
	/* A look before, because to open a device can do something. */
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
 * Reads the file as it is and lists it. Only "enable" minds what kind of file lists nothing of ours: a package
 * is removed after "disable", which must not fail where there is nothing to do.
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

	/* As cp -a: what this file system or this user cannot set is left out. */
	for (const char *name = names; name < end; name += strlen(name) + 1) {
		ssize_t n = fgetxattr(from, name, value, sizeof(value));

		if (n >= 0)
			(void)fsetxattr(to, name, value, (size_t)n, 0);
	}
}

/* A file beside the other with that text, with the owner, mode and attributes of like (-1: a new file's). */
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

/* The two files change their names in one step; where a file system cannot do that, in two. */
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

/* The file that has the content gets the fresh text, or goes. -EAGAIN = somebody else was faster. */
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
	/* Nobody's file is overwritten. */
	err = link(aside, file) == 0 ? 0 : errno == EEXIST ? -EAGAIN : -errno;
	(void)leave(0);
	return err;
}

typedef bool change_fn(void);

/*
 * What was replaced has the text that was read? If not, others have written meanwhile: their text takes the
 * place of the one that we put there, changed in its turn.
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
		/* An editor that has emptied the file will write into the one that was taken away. */
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

/* False = the file is already as it should be. */
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

/* Others of us wait until we are done. */
static void lock(void)
{
	int fd = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err;

	if (fd < 0)
		give_up("%s/etc cannot be read: %s", root, strerror(errno));
	(void)alarm(PATIENCE_S);
	err = flock(fd, LOCK_EX);
	(void)alarm(0);
	if (err != 0 || interrupted)
		give_up("another spanprof-preload is at work");
	/* It stays open until the process ends. */
}

/* --- What programs say ------------------------------------------------------------------------------ */

static const char *const small_loaders[] = {"/lib/ld-linux.so.2", "/lib32/ld-linux.so.2",
					    "/libx32/ld-linux-x32.so.2", "/lib/ld-linux.so.3",
					    "/lib/ld-linux-armhf.so.3"};
static const char
	*small[sizeof(small_loaders) / sizeof(small_loaders[0])]; /* those that run here */
static size_t smalls;
static const char *wanted; /* object or spread */
static char problem[SP_LINE_MAX];

static void become(const char *const *argv, const char *const *variables, int out, bool quiet)
{
	/* Where what is not looked at goes: a root may have no /dev/null. */
	int sink = memfd_create("sink", MFD_CLOEXEC);

	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGXFSZ, SIG_DFL);
	if (dup2(sink, STDIN_FILENO) == STDIN_FILENO &&
	    dup2(quiet ? sink : out, STDOUT_FILENO) == STDOUT_FILENO &&
	    dup2(out, STDERR_FILENO) == STDERR_FILENO)
		(void)execve(argv[0], (char *const *)(uintptr_t)argv,
			     (char *const *)(uintptr_t)variables);
	_exit(errno == ENOENT ? 127 : 126);
}

/*
 * Runs a program, which speaks into a text, without its standard output if that is quiet. Returns its status
 * as a shell tells it. Where it takes too long, or somebody wants us to end, it is killed.
 */
static int run(const char *const *argv, const char *const *variables, struct text *said, bool quiet)
{
	char buf[4096];
	ssize_t n;
	int status = 0;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0)
		return 126;
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
 * What programs say and how they end with that entry in the environment, or (NULL) with what the file says. Of
 * the programs of 32 bits, of which there may be none, their loaders speak.
 */
static void try(const char *entry, struct text *said)
{
	static const char *const programs[][4] = {
		{"/bin/true"}, {"/bin/sh", "-c", "exit 3"}, {"/bin/ls", "/"}};
	static char preload[sizeof(spread) + 16];
	const char *variables[] = {"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL, NULL};

	if (entry != NULL) {
		(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", entry);
		variables[2] = preload;
	}
	said->len = 0;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		add_status(said, programs[i][0], run(programs[i], variables, said, i == 2));
	for (size_t i = 0; i < smalls; i++) {
		const char *argv[] = {small[i], "--list", "libc.so.6", NULL};

		add_status(said, small[i], run(argv, variables, said, true));
	}
}

/* How all of them end where nothing is wrong. */
static void try_nothing(struct text *said)
{
	said->len = 0;
	add_status(said, "/bin/true", 0);
	add_status(said, "/bin/sh", 3);
	add_status(said, "/bin/ls", 0);
	for (size_t i = 0; i < smalls; i++)
		add_status(said, small[i], 0);
}

/* In one line. */
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

/* Without the lines in which a loader says that it cannot load the entry that is replaced. */
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

/* --- What every program may load --------------------------------------------------------------------- */

static __attribute__((format(printf, 1, 2))) bool bad(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(problem, sizeof(problem), fmt, args);
	va_end(args);
	return false;
}

/* Whoever may change the object or replace one of its folders may run code as anybody. */
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

/* A file and all folders above it. */
static bool look_at_path(const char *path)
{
	char part[PATH_MAX];
	char *slash;

	(void)snprintf(part, sizeof(part), "%s", path);
	for (;;) {
		if (!look_at_rights(part[0] != '\0' ? part : "/", 0))
			return false;
		slash = strrchr(part, '/');
		if (slash == NULL || part[0] == '\0')
			return true;
		*slash = '\0';
	}
}

static bool look_whether_same(const char *link, const char *target)
{
	struct stat a;
	struct stat b;

	return (stat(link, &a) == 0 && stat(target, &b) == 0 && a.st_dev == b.st_dev &&
		a.st_ino == b.st_ino) ||
	       bad("%s is not a link to %s", link, target);
}

/* The file of that name beside another. */
static void beside(char out[PATH_MAX], const char *path, const char *name)
{
	(void)snprintf(out, PATH_MAX, "%.*s/%s", (int)(strrchr(path, '/') - path), path, name);
}

/*
 * What a program, or a loader for the C library, which it finds by /etc/ld.so.cache, would load with the
 * entry; nothing of it is started. Sets led to the file that the entry leads to. Returns false where the
 * kernel does not execute it.
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
 * Sets wanted to the entry, and small to the loaders for 32-bit programs that run. False when one of them
 * would not find by the entry what it can load.
 */
static bool choose_entry(void)
{
	static struct text said;
	char led[PATH_MAX];
	char theirs[PATH_MAX];
	char ours[PATH_MAX];

	wanted = object;
	smalls = 0;
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
		if (!look_at_path(led))
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
	return look_at_path(led) && look_whether_same(led, object) &&
	       (access(ours, F_OK) != 0 || look_whether_same(theirs, ours));
}

/* False, with the problem, when the object is nothing that every program of the machine should load. */
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
	/* What programs start that record a span, whoever runs them. */
	beside(exporter, object, SP_EXPORTER_NAME);
	return look_at_path(object) &&
	       (lstat(exporter, &st) != 0 || look_at_rights(exporter, S_IXOTH)) && choose_entry();
}

/* --- The three things that it does --------------------------------------------------------------------- */

/* In front, so that what follows stays as it is to the last byte, newline or none. */
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

/* What was there before; or, where somebody else has changed it since, what is there but for our entry. */
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
		give_up("programs do not run even without it, so nothing was changed: %s",
			words_of(&before));
	try(wanted, &after);
	if (!equal(&before, &after))
		give_up("programs do not run with it, so nothing was changed: %s",
			words_of(&after));
	/* What 32-bit programs say of an entry of ours that is replaced, they will not say any more. */
	forget_complaints(&before);
	lock();
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
		give_up("programs do not run with it, so %s%s is as it was: %s", root, file,
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
	sp_complain("disabled; running programs keep it until they end");
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
	ok = look_at_object();
	if (ok && listing.found != wanted)
		ok = bad("32-bit programs run on this machine (%s), and each of them prints that "
			 "it cannot "
			 "load %s; \"spanprof-preload enable\" changes the entry",
			 small[0], listing.found);
	try(NULL, &said);
	try_nothing(&fine);
	if (ok && !equal(&said, &fine))
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

/* A signal to end ends what is waited for, and what was changed is changed back. A full disk is an error. */
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
	/* The other form of our entry. */
	(void)snprintf(spread, sizeof(spread), "%.*s$LIB/%s", (int)(name - object), object, name);
}

/*
 * An entry whose object is not there any more has to be found as well: each program complains of it, and a package
 * is removed after "disable" only. So it is looked for by the names that the object would have, up to the first place
 * where there is one.
 */
static struct {
	char path[PATH_MAX];
	bool there;
} names[SP_OBJECT_PLACES];

static void find_names(void)
{
	for (unsigned i = 0; i < SP_OBJECT_PLACES; i++)
		if (!sp_object_name(i, names[i].path, &names[i].there))
			give_up("cannot tell where this program is; name the object with --object");
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

/* Sets the paths of the object, as seen in the root, and becomes a process of that root. */
static void enter(const char *given, bool enables)
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
	if (root[0] != '\0' && (chroot(root) != 0 || chdir("/") != 0))
		give_up("--root %s: %s", root, strerror(errno));
}

int sp_preload(int argc, char **argv)
{
	const char *given = NULL;
	char led[PATH_MAX];
	bool enables;
	int at = 0;
	int fd;

	while (at < argc && argv[at][0] == '-') {
		if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0)
			return finish(usage);
		if (strcmp(argv[at], "--version") == 0)
			return finish("spanprof-preload " SP_VERSION "\n");
		if (strcmp(argv[at], "--root") != 0 && strcmp(argv[at], "--object") != 0)
			break;
		if (at + 1 == argc)
			give_up("%s needs a value", argv[at]);
		if (strcmp(argv[at], "--root") == 0)
			root = argv[at + 1];
		else
			given = argv[at + 1];
		at += 2;
	}
	if (argc - at != 1 ||
	    (strcmp(argv[at], "enable") != 0 && strcmp(argv[at], "disable") != 0 &&
	     strcmp(argv[at], "status") != 0)) {
		fputs(usage, stderr);
		return REFUSED;
	}
	catch_signals();
	enables = strcmp(argv[at], "enable") == 0;
	enter(given, enables);
	/* The loader follows links. What is ours is taken out where it is; where it would be put is for others to say. */
	if (!enables && realpath(FILE_OF_ALL, led) != NULL)
		(void)snprintf(file, sizeof(file), "%s", led);
	takes_out = strcmp(argv[at], "disable") == 0;
	if (given == NULL && !enables)
		choose_name();
	fd = read_file(enables);
	if (fd >= 0)
		(void)close(fd);
	if (enables)
		return leave(enable());
	return leave(takes_out ? disable() : status());
}
