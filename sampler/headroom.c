/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the line "SigQ:" of /proc/self/status. APP context; raw system calls only. */
#include "sampler/headroom.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/seccomp.h"
#include "sampler/text.h"
#include "sampler/thread.h"

static const char *read_number(const char *at, uint64_t *n)
{
	at += strspn(at, " \t");
	return sp_text_number(&at, 10, n) ? at : NULL;
}

/* "SigQ:\t18/96551\n": entries in use by the user, and this process's limit (fs/proc/array.c). */
bool sp_headroom_of(const char *status, uint32_t ours, uint64_t *timers)
{
	const char *at = strstr(status, "\nSigQ:");
	uint64_t others;
	uint64_t limit;

	at = at != NULL ? read_number(at + strlen("\nSigQ:"), &others) : NULL;
	if (at == NULL || *at != '/' || read_number(at + 1, &limit) == NULL)
		return false;
	/* An unsigned number for what the kernel counts with a sign, and may have below nought for a moment. */
	if (others > INT32_MAX)
		others = 0;
	others = others > ours ? others - ours : 0;
	*timers = limit / 2 > others ? limit / 2 - others : 0;
	return true;
}

void sp_headroom_look(void)
{
	static char text[8192]; /* the list of groups comes before and may be long */
	size_t used = 0;
	uint64_t timers;
	long got;
	int fd = (int)sp_syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/*
	 * Who may look is settled by atomics, which a thread sanitizer of the host does not see in us. The C
	 * library's read() it does see, and would call it a race on the text.
	 */
	while (used < sizeof(text) - 1 &&
	       (got = sp_syscall(SYS_read, fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)got;
	(void)sp_syscall(SYS_close, fd);
	text[used] = '\0';
	if (sp_headroom_of(text, sp_thread_armed(), &timers))
		sp_thread_limit(timers);
}
