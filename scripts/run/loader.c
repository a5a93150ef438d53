/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As ldd does: told by LD_TRACE_LOADED_OBJECTS, glibc's loader maps the program and all that it needs, tells
 * where that is, and ends before it runs anything of it (elf/rtld.c of 2.36; with LD_WARN or LD_AUDIT it
 * would). Its option --list does the same, but ends at the first object that is missing. It trusts what it
 * maps: a file that was made for it can have itself mapped over the loader. So it gets a seccomp filter,
 * behind which reading files, using memory and writing to our pipe is all there is.
 */
#define _GNU_SOURCE
#include "scripts/run/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/compiler.h"

#define ANSWER_MAX ((size_t)1 << 20)
#define ANSWER_SECONDS 10
#define DESCRIPTORS_MAX 1024

#if defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#define MACHINE AUDIT_ARCH_X86_64
#endif

/* Whatever else a loader tries does not exist. The filter stays with what it might execute. */
static const unsigned allowed[] = {
	SYS_execve,     SYS_read,       SYS_pread64,         SYS_lseek,
	SYS_write,      SYS_writev,     SYS_close,           SYS_fstat,
	SYS_newfstatat, SYS_faccessat,  SYS_readlinkat,      SYS_getcwd,
	SYS_uname,      SYS_mmap,       SYS_munmap,          SYS_mprotect,
	SYS_madvise,    SYS_brk,        SYS_set_tid_address, SYS_set_robust_list,
	SYS_getrandom,  SYS_exit_group,
#if defined(__x86_64__)
	SYS_arch_prctl, SYS_access,     SYS_readlink,        SYS_stat,
#endif
};

static int confine(void)
{
	enum { N = 2 * SP_ARRAY_LEN(allowed) + 9 };
	static const uint32_t refuse = SECCOMP_RET_ERRNO | ENOSYS;
	struct sock_filter code[N] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, refuse),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	const struct sock_filter open_and_end[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_ACCMODE | O_CREAT | O_TRUNC, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, refuse),
	};
	const struct sock_fprog program = {.len = N, .filter = code};

	for (size_t i = 0; i < SP_ARRAY_LEN(allowed); i++) {
		code[4 + 2 * i] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		code[5 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	memcpy(code + N - SP_ARRAY_LEN(open_and_end), open_and_end, sizeof(open_and_end));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* Nobody but root and ourselves can have put it there, or can replace it. */
static bool is_trusted(char *path)
{
	struct stat st;
	char *slash = path;

	do {
		slash = strchr(slash + 1, '/');
		if (slash != NULL)
			*slash = '\0';
		if (stat(path, &st) != 0 || (st.st_uid != 0 && st.st_uid != geteuid()))
			return false;
		/* In a sticky folder others' files cannot be replaced. */
		if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
		    (!S_ISDIR(st.st_mode) || (st.st_mode & S_ISVTX) == 0))
			return false;
		if (slash != NULL)
			*slash = '/';
	} while (slash != NULL);
	return S_ISREG(st.st_mode);
}

/* "NAME=VALUE" */
static char *entry(const char *name, const char *value)
{
	char *text = NULL;

	if (asprintf(&text, "%s=%s", name, value != NULL ? value : "") < 0)
		_exit(1);
	return text;
}

/* In the child. Our own failure is a line of the answer. */
static _Noreturn void become_loader(const char *loader, const char *program, const char *preload,
				    int answer)
{
	const char *argv[] = {loader, program, NULL};
	char *envp[] = {entry("LD_TRACE_LOADED_OBJECTS", "1"), entry("LD_PRELOAD", preload),
			entry("LD_LIBRARY_PATH", getenv("LD_LIBRARY_PATH")), NULL};
	const struct rlimit no_core = {0, 0};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &no_core);
	if (dup2(answer, STDOUT_FILENO) < 0 || dup2(answer, STDERR_FILENO) < 0)
		_exit(1);
	(void)close(STDIN_FILENO);
	for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MAX; fd++)
		(void)close(fd);
	if (confine() != 0)
		dprintf(STDERR_FILENO, "not asked: it cannot be confined: %s\n", strerror(errno));
	else if (execve(loader, (char **)(uintptr_t)argv, envp) != 0)
		dprintf(STDERR_FILENO, "not asked: it cannot be started: %s\n", strerror(errno));
	_exit(1);
}

static long milliseconds(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* All that comes through the pipe, or NULL. */
static char *read_answer(int fd, const char **why)
{
	long until = milliseconds() + ANSWER_SECONDS * 1000L;
	char *text = malloc(ANSWER_MAX + 1);
	size_t len = 0;

	*why = text == NULL ? "out of memory" : NULL;
	while (*why == NULL) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		long left = until - milliseconds();
		ssize_t got = 0;

		if (left <= 0 || (poll(&p, 1, (int)left) == 0))
			*why = "it does not answer";
		else if (len == ANSWER_MAX)
			*why = "its answer has no end";
		else if ((got = read(fd, text + len, ANSWER_MAX - len)) <= 0)
			break;
		len += (size_t)got;
	}
	if (*why == NULL) {
		text[len] = '\0';
		return text;
	}
	free(text);
	return NULL;
}

char *sp_loader_list(const char *loader, const char *program, const char *preload, const char **why)
{
	char path[PATH_MAX];
	char target[PATH_MAX];
	char *text;
	int answer[2];
	pid_t pid;

	/*
	 * Of a program that it starts itself the loader takes $ORIGIN from the path that it is given, which
	 * may be a link. When the kernel starts the program, it takes the file behind the link.
	 */
	if (realpath(program, target) != NULL)
		program = target;
	*why = "not asked: others than root and you can replace it";
	if (realpath(loader, path) == NULL || !is_trusted(path))
		return NULL;
	*why = "not asked: it cannot be started";
	if (pipe2(answer, O_CLOEXEC) != 0)
		return NULL;
	pid = fork();
	if (pid == 0)
		become_loader(path, program, preload, answer[1]);
	(void)close(answer[1]);
	text = pid > 0 ? read_answer(answer[0], why) : NULL;
	(void)close(answer[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	return text;
}
