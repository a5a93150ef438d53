/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the program of a command or of a running process; and our object, which is to be loaded
 * into it.
 */
#define _GNU_SOURCE
#include "scripts/run/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * A running process. The user who started it wrote its environment and chose its mappings, and the
 * caller may be root. A path of that process, opened with root's rights or in another root, would
 * be another file than the process sees, or one that it may not read. So only the process's own
 * user or root may examine it, and only in the root, the mounts and the pid namespace of the
 * process. Other callers get a message that says who should ask, and where. Context: spanprof-run
 * --check --pid; one thread.
 */
#define ENVIRONMENT_MAX ((size_t)4 << 20)
#define VARIABLES_MAX 16384U
#define STATUS_MAX ((size_t)64 << 10)
#define AUXV_MAX 4096U
#define WHY_MAX 256U

/* Reads at most max bytes; a NUL follows. NULL = it cannot be read. *len may be NULL. */
static char *read_proc(const struct sp_process *p, const char *name, size_t max, size_t *len)
{
	int fd = openat(p->proc, name, O_RDONLY | O_CLOEXEC);
	char *data = fd >= 0 ? malloc(max + 1) : NULL;
	size_t have = 0;
	ssize_t got = data != NULL ? 1 : -1;

	while (got > 0 && have < max && (got = read(fd, data + have, max - have)) > 0)
		have += (size_t)got;
	if (fd >= 0)
		(void)close(fd);
	if (got < 0) {
		free(data);
		return NULL;
	}
	data[have] = '\0';
	if (len != NULL)
		*len = have;
	return data;
}

/* The program's name, which comes first, may contain anything but a line break. */
static bool read_user(struct sp_process *p)
{
	char *status = read_proc(p, "status", STATUS_MAX, NULL);
	const char *line = status != NULL ? strstr(status, "\nUid:") : NULL;
	char *end;
	bool ok = line != NULL;

	if (ok) {
		/* The real user id comes first. */
		(void)strtoul(line + strlen("\nUid:"), &end, 10);
		p->uid = (uid_t)strtoul(end, NULL, 10);
	}
	free(status);
	return ok;
}

/*
 * AT_SECURE in an array of pairs of words of that size; -1 = the bytes are no such array, or have
 * no such entry.
 */
static int secure_of(const char *auxv, size_t len, size_t word)
{
	for (size_t at = 0; at + 2 * word <= len; at += 2 * word) {
		uint64_t type = 0;
		uint64_t value = 0;

		memcpy(&type, auxv + at, word);
		memcpy(&value, auxv + at + word, word);
		if (type == AT_SECURE)
			return value != 0;
	}
	return -1;
}

/* The AT_SECURE that the kernel passed to the program's loader. Unknown counts as secure. */
static bool is_secure(const struct sp_process *p)
{
	size_t len = 0;
	char *auxv = read_proc(p, "auxv", AUXV_MAX, &len);
	int secure = auxv != NULL ? secure_of(auxv, len, sizeof(uint64_t)) : -1;

	if (auxv != NULL && secure < 0)
		secure = secure_of(auxv, len, sizeof(uint32_t));
	free(auxv);
	return secure != 0;
}

static bool read_environment(struct sp_process *p)
{
	size_t len = 0;
	size_t n = 0;

	p->strings = read_proc(p, "environ", ENVIRONMENT_MAX, &len);
	p->environment = calloc(VARIABLES_MAX + 1, sizeof(*p->environment));
	if (p->strings == NULL || p->environment == NULL)
		return false;
	for (size_t at = 0; at < len && n < VARIABLES_MAX; at += strlen(p->strings + at) + 1)
		p->environment[n++] = p->strings + at;
	return true;
}

/* Whether both links lead to the same object. */
static bool is_same(const struct sp_process *p, const char *theirs)
{
	char ours[64];
	struct stat a;
	struct stat b;

	(void)snprintf(ours, sizeof(ours), "/proc/self/%s", theirs);
	return fstatat(p->proc, theirs, &a, 0) == 0 && stat(ours, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool look(struct sp_process *p, char why[WHY_MAX])
{
	struct stat root;
	ssize_t n;

	if (!read_user(p)) {
		(void)snprintf(why, WHY_MAX, "it has ended");
		return false;
	}
	if (geteuid() != 0 && geteuid() != p->uid) {
		(void)snprintf(why, WHY_MAX,
			       "it is a process of user %u: run this as that user or as root",
			       (unsigned)p->uid);
		return false;
	}
	p->maps = openat(p->proc, "maps", O_RDONLY | O_CLOEXEC);
	/* Newer kernels show the mappings to users that may not follow the process's links. */
	if (p->maps < 0 || !read_environment(p) || fstatat(p->proc, "root", &root, 0) != 0) {
		(void)snprintf(why, WHY_MAX,
			       geteuid() == 0
				       ? "root needs CAP_SYS_PTRACE to examine it (docker run "
					 "--cap-add=SYS_PTRACE)"
				       : "its own user may not examine it: run this as root");
		return false;
	}
	if (!is_same(p, "root") || !is_same(p, "ns/mnt") || !is_same(p, "ns/pid")) {
		(void)snprintf(why, WHY_MAX,
			       "it runs in another container or root: run this in there");
		return false;
	}
	p->secure = is_secure(p);
	p->exe = openat(p->proc, "exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	n = readlinkat(p->proc, "exe", p->path, sizeof(p->path) - 1);
	p->path[n > 0 ? n : 0] = '\0';
	return true;
}

bool sp_process_open(pid_t pid, struct sp_process *p, char why[WHY_MAX])
{
	char folder[32];

	memset(p, 0, sizeof(*p));
	p->maps = p->exe = -1;
	(void)snprintf(folder, sizeof(folder), "/proc/%d", (int)pid);
	p->proc = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->proc < 0) {
		(void)snprintf(why, WHY_MAX, "%s",
			       errno == ENOENT ? "there is no such process" : strerror(errno));
		return false;
	}
	if (look(p, why))
		return true;
	sp_process_close(p);
	return false;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void sp_process_close(struct sp_process *p)
{
	close_one(&p->proc);
	close_one(&p->maps);
	close_one(&p->exe);
	free(p->strings);
	free(p->environment);
	p->strings = NULL;
	p->environment = NULL;
}

/* The program. */

/* The kernel's limits: bytes read of a script's first line, and scripts followed (fs/exec.c). */
#define SCRIPT_LINE 256
#define SCRIPTS_MAX 5
/* glibc's execvp() uses this if PATH is not set. */
#define DEFAULT_PATH "/bin:/usr/bin"

static bool runnable(const char *path, int *err)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		/* Like execvp(): remembers that a folder may not be searched. */
		if (errno == EACCES)
			*err = -EACCES;
		return false;
	}
	if (S_ISREG(st.st_mode) && access(path, X_OK) == 0)
		return true;
	*err = -EACCES;
	return false;
}

static int make_absolute(const char *path, char out[PATH_MAX])
{
	char cwd[PATH_MAX];
	int n;

	if (path[0] == '/')
		n = snprintf(out, PATH_MAX, "%s", path);
	else if (getcwd(cwd, sizeof(cwd)) != NULL)
		n = snprintf(out, PATH_MAX, "%s/%s", cwd, path);
	else
		return -errno;
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int sp_target_find(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");
	char candidate[PATH_MAX];
	int err = -ENOENT;
	size_t len;

	if (name[0] == '\0')
		return err;
	if (strchr(name, '/') != NULL) {
		if (runnable(name, &err))
			return make_absolute(name, path);
		return err == -EACCES ? err : -errno;
	}
	for (dirs = dirs != NULL ? dirs : DEFAULT_PATH;; dirs += len + 1) {
		len = strcspn(dirs, ":");
		int n = snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)len,
				 len != 0 ? dirs : ".", name);

		if (len == 0)
			n = snprintf(candidate, sizeof(candidate), "./%s", name);
		if (n < PATH_MAX && runnable(candidate, &err))
			return make_absolute(candidate, path);
		if (dirs[len] == '\0')
			return err;
	}
}

/*
 * Whether /bin/sh runs the file, a text without "#!": the kernel refuses it, and then shells,
 * execvp() and we start the shell. As in bash, a file is text if its beginning has no NUL byte.
 */
static bool is_plain_script(const char *path)
{
	char text[SCRIPT_LINE];
	int fd = sp_open_regular(path);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text));
	(void)close(fd);
	return got > 0 && memchr(text, '\0', (size_t)got) == NULL;
}

/* "#! /bin/sh -e": stores the word after the mark. False if the file is no such script. */
static bool script_interpreter(const char *path, char out[SCRIPT_LINE], bool *env, char *word)
{
	char line[SCRIPT_LINE] = "";
	char *at;
	char *rest;
	int fd = sp_open_regular(path);
	ssize_t got = fd >= 0 ? read(fd, line, sizeof(line) - 1) : -1;

	if (fd >= 0)
		(void)close(fd);
	if (got < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[strcspn(line, "\n")] = '\0';
	at = line + 2 + strspn(line + 2, " \t");
	rest = at + strcspn(at, " \t");
	if (*rest != '\0')
		*rest++ = '\0';
	(void)snprintf(out, SCRIPT_LINE, "%s", at);
	rest += strspn(rest, " \t");
	rest[strcspn(rest, " \t")] = '\0';
	(void)snprintf(word, SCRIPT_LINE, "%s", rest);
	at = strrchr(out, '/');
	*env = strcmp(at != NULL ? at + 1 : out, "env") == 0 && word[0] != '\0' && word[0] != '-' &&
	       strchr(word, '=') == NULL;
	return out[0] != '\0';
}

static enum sp_libc libc_of_name(const char *interp)
{
	const char *name = strrchr(interp, '/');

	name = name != NULL ? name + 1 : interp;
	if (strncmp(name, "ld-musl-", 8) == 0 || strstr(name, "gcompat") != NULL)
		return SP_LIBC_MUSL;
	if (strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld64.so", 7) == 0 ||
	    strncmp(name, "ld.so", 5) == 0)
		return SP_LIBC_GLIBC;
	return SP_LIBC_OTHER;
}

static void read_libc(struct sp_target *t)
{
	char real[PATH_MAX];

	if (t->interp[0] == '\0')
		return;
	t->libc = libc_of_name(t->interp);
	t->no_interp = access(t->interp, F_OK) != 0;
	/* Alpine's gcompat has a link with the name of glibc's loader to musl's. */
	if (t->libc == SP_LIBC_GLIBC && realpath(t->interp, real) != NULL &&
	    libc_of_name(real) == SP_LIBC_MUSL)
		t->libc = SP_LIBC_MUSL;
}

/*
 * Why the kernel would set AT_SECURE for this caller (security/commoncap.c); NULL = it would not.
 */
static const char *secure_reason(const char *path)
{
	struct stat st;

	/* With no_new_privs, rights of files do not count. */
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 || stat(path, &st) != 0)
		return NULL;
	if ((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid())
		return "it is set-user-id";
	if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid())
		return "it is set-group-id";
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return "it has file capabilities";
	return NULL;
}

/* fd -1: opens the path. */
static void read_elf(struct sp_target *t, int fd)
{
	struct sp_elf f;

	t->error = fd >= 0 ? sp_elf_take(fd, &f) : sp_elf_open(t->path, &f);
	if (t->error != 0)
		return;
	t->machine = f.machine;
	t->word_size = f.word_size;
	t->readable = f.readable;
	(void)snprintf(t->interp, sizeof(t->interp), "%s", f.interp);
	read_libc(t);
	t->is_static = f.readable && f.interp[0] == '\0';
	t->is_library = t->is_static && f.type == ET_DYN && f.dynamic && !sp_elf_pie(&f);
	t->is_go = sp_elf_has_section(&f, ".go.buildinfo") ||
		   sp_elf_has_section(&f, ".note.go.buildid");
	sp_elf_close(&f);
}

void sp_target_read(const char *path, struct sp_target *t)
{
	char interpreter[SCRIPT_LINE];
	char word[SCRIPT_LINE];
	char found[PATH_MAX];
	bool env = false;

	memset(t, 0, sizeof(*t));
	(void)snprintf(t->path, sizeof(t->path), "%s", path);
	for (int i = 0; i < SCRIPTS_MAX; i++) {
		if (!script_interpreter(t->path, interpreter, &env, word))
			break;
		if (t->script[0] == '\0')
			memcpy(t->script, t->path, sizeof(t->script));
		if (env && sp_target_find(word, found) == 0)
			memcpy(t->path, found, sizeof(t->path));
		else
			(void)snprintf(t->path, sizeof(t->path), "%s", env ? word : interpreter);
		t->no_program =
			env ? sp_target_find(word, found) != 0 : access(interpreter, F_OK) != 0;
		if (t->no_program)
			break;
	}
	if (t->script[0] == '\0' && is_plain_script(t->path)) {
		memcpy(t->script, t->path, sizeof(t->script));
		(void)snprintf(t->path, sizeof(t->path), "/bin/sh");
	}
	t->secure = secure_reason(t->path);
	read_elf(t, -1);
}

void sp_target_of_process(const struct sp_process *p, struct sp_target *t)
{
	memset(t, 0, sizeof(*t));
	memcpy(t->path, p->path, sizeof(t->path));
	t->secure = p->secure ? "it was started with more rights than its caller has" : NULL;
	read_elf(t, dup(p->exe));
	/* The program runs, so its loader exists. */
	t->no_interp = false;
	t->running = true;
}

const char *sp_target_machine(uint16_t machine, char buf[24])
{
	switch (machine) {
	case EM_X86_64:
		return "x86-64";
	case EM_AARCH64:
		return "aarch64";
	case EM_386:
		return "i386";
	case EM_ARM:
		return "arm";
	case EM_RISCV:
		return "riscv";
	default:
		(void)snprintf(buf, 24, "machine %u", (unsigned)machine);
		return buf;
	}
}

const char *sp_target_libc(enum sp_libc libc)
{
	static const char *const name[] = {
		[SP_LIBC_NONE] = "no C library",
		[SP_LIBC_GLIBC] = "glibc",
		[SP_LIBC_MUSL] = "musl",
		[SP_LIBC_OTHER] = "an unknown C library",
	};

	return name[libc];
}

const char *sp_target_obstacle(const struct sp_target *t, const struct sp_elf *object, char *buf,
			       size_t len)
{
	char a[24];
	char b[24];

	/* A file that we cannot read may still run; then the loader decides. */
	if (t->error != 0)
		return NULL;
	if (object != NULL && (t->machine != object->machine || t->word_size != object->word_size))
		(void)snprintf(buf, len, "it is built for %s%s, libspanprof.so for %s",
			       sp_target_machine(t->machine, a),
			       t->word_size == ELFCLASS32 ? " (32 bits)" : "",
			       sp_target_machine(object->machine, b));
	else if (t->libc == SP_LIBC_MUSL || t->libc == SP_LIBC_OTHER)
		(void)snprintf(buf, len, "it is built for %s (%s), libspanprof.so for glibc",
			       sp_target_libc(t->libc), t->interp);
	else
		return NULL;
	return buf;
}

/* The object. */

/* ld.so(8): the items of LD_PRELOAD are separated by spaces or colons, and nothing is quoted. */
#define SEPARATORS " :"

/* The path of this program; without /proc the path that the kernel was given. */
static bool own_path(char out[PATH_MAX])
{
	const char *given = (const char *)getauxval(AT_EXECFN);
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

	if (n > 0 && out[0] == '/') {
		out[n] = '\0';
		return true;
	}
	return given != NULL && realpath(given, out) != NULL;
}

static const char *const places[SP_OBJECT_PLACES] = {"", [SP_OBJECT_INSTALLED] = "../lib/spanprof/",
						     "../../lib/spanprof/"};

bool sp_object_find(char path[PATH_MAX], const char **why)
{
	char own[PATH_MAX];
	char candidate[PATH_MAX + 64];
	const char *slash = own_path(own) ? strrchr(own, '/') : NULL;

	*why = "it is not there";
	(void)snprintf(path, PATH_MAX, "%s", SP_OBJECT_NAME);
	if (slash == NULL) {
		*why = "cannot find where this program is";
		return false;
	}
	for (size_t i = 0; i < SP_OBJECT_PLACES; i++) {
		(void)snprintf(candidate, sizeof(candidate), "%.*s/%s" SP_OBJECT_NAME,
			       (int)(slash - own), own, places[i]);
		if (realpath(candidate, path) == NULL)
			continue;
		if (access(path, R_OK) != 0)
			*why = "it cannot be read";
		else if (strpbrk(path, SEPARATORS "\t\n") != NULL)
			*why = "LD_PRELOAD cannot hold a path with spaces or colons";
		else
			return true;
		return false;
	}
	(void)snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - own), own, SP_OBJECT_NAME);
	return false;
}

bool sp_object_name(unsigned place, char path[PATH_MAX], bool *there)
{
	char own[PATH_MAX];
	char name[PATH_MAX + 64];
	char real[PATH_MAX];
	const char *slash = own_path(own) ? strrchr(own, '/') : NULL;
	bool found = false;
	size_t end;

	if (slash == NULL)
		return false;
	(void)snprintf(name, sizeof(name), "%.*s/%s" SP_OBJECT_NAME, (int)(slash - own), own,
		       places[place]);
	*there = access(name, F_OK) == 0;
	/* The last folders of the path may not exist either. */
	for (end = strlen(name); end > 0 && !found;) {
		char next = name[end];

		name[end] = '\0';
		found = realpath(name, real) != NULL;
		name[end] = next;
		while (!found && end > 0 && name[--end] != '/')
			;
	}
	return found && snprintf(path, PATH_MAX, "%s%s", strcmp(real, "/") != 0 ? real : "",
				 name + end) < PATH_MAX;
}

static bool lists_object(const char *list, const char *object)
{
	size_t name = strlen(object);

	for (; *list != '\0'; list += strspn(list, SEPARATORS)) {
		size_t len = strcspn(list, SEPARATORS);

		if (len >= name && strncmp(list + len - name, object, name) == 0 &&
		    (len == name || list[len - name - 1] == '/'))
			return true;
		list += len;
	}
	return false;
}

/*
 * Where the first item ends if it is the runtime of gcc's AddressSanitizer, which must be the
 * first; else 0.
 */
static size_t sanitizer_len(const char *list)
{
	size_t skip = strspn(list, SEPARATORS);
	size_t len = strcspn(list + skip, SEPARATORS);
	size_t name = skip + len;

	while (name > skip && list[name - 1] != '/')
		name--;
	return strncmp(list + name, "libasan.so", 10) == 0 ? skip + len : 0;
}

char *sp_object_chain(const char *path, const char *list)
{
	const char *slash = strrchr(path, '/');
	char *chained = NULL;
	size_t first;

	if (list == NULL || list[0] == '\0')
		return strdup(path);
	if (lists_object(list, slash != NULL ? slash + 1 : path))
		return strdup(list);
	first = sanitizer_len(list);
	if (first != 0)
		return asprintf(&chained, "%.*s:%s%s", (int)first, list, path, list + first) >= 0
			       ? chained
			       : NULL;
	return asprintf(&chained, "%s:%s", path, list) >= 0 ? chained : NULL;
}
