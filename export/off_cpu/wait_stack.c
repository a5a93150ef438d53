/* SPDX-License-Identifier: Apache-2.0 */
/* See wait_stack.h. Context: the exporter. */
#define _GNU_SOURCE
#include "export/off_cpu/wait_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "export/util/clock.h"
#include "sampler/base/arch_sig.h"

#define PAGE UINT64_C(4096)
#define PIECES (SP_SNAPSHOT_STACK_MAX / PAGE + 1)
#define RETRY_NS (2 * SP_NS_PER_S)
#define YAMA "/proc/sys/kernel/yama/ptrace_scope"

struct sp_wait_stacks {
	const struct sp_core_ops *ops;
	struct sp_unwinder *unwinder;
	const char *refusal;
	uint64_t retry_ns; /* nothing is tried before */
	struct sp_snapshot snapshot;
};

struct sp_wait_stacks *sp_wait_stacks_new(const struct sp_core_ops *ops,
					  struct sp_unwinder *unwinder)
{
	struct sp_wait_stacks *w = calloc(1, sizeof(*w));

	if (w != NULL) {
		w->ops = ops;
		w->unwinder = unwinder;
	}
	return w;
}

void sp_wait_stacks_free(struct sp_wait_stacks *w)
{
	free(w);
}

static ssize_t read_file(const char *path, char *text, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t got = fd >= 0 ? read(fd, text, cap - 1) : -1;

	if (got < 0)
		got = -errno;
	if (fd >= 0)
		(void)close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got;
}

/* 0 also where there is no Yama. */
static char yama_scope(void)
{
	char text[8];

	return read_file(YAMA, text, sizeof(text)) > 0 ? text[0] : '0';
}

static const char *reason_of(int err, bool is_memory)
{
	switch (err) {
	case -ENOSYS:
		return "the kernel has no process_vm_readv";
	case -ENOENT:
		return "the kernel does not show system calls";
	case -EPERM:
	case -EACCES:
		break;
	default:
		return "it cannot be read";
	}
	switch (yama_scope()) {
	case '1':
		return "Yama asks the program for leave";
	case '2':
	case '3':
		return "Yama forbids it";
	default:
		return is_memory ? "process_vm_readv is not allowed"
				 : "the program is not dumpable, or another user's";
	}
}

/* Only a process itself can give another one leave. */
static int refused(struct sp_wait_stacks *w, int err, bool is_memory)
{
	w->refusal = reason_of(err, is_memory);
	w->retry_ns = sp_clock_mono_ns() + RETRY_NS;
	if ((err == -EPERM || err == -EACCES) && yama_scope() == '1')
		w->ops->ask_tracer(w->ops->arg);
	return err;
}

static ssize_t read_place(const struct sp_wait_stacks *w, uint32_t tid, char text[SP_TASK_TEXT])
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/task/%" PRIu32 "/syscall", w->ops->proc, tid);
	return read_file(path, text, SP_TASK_TEXT);
}

int sp_wait_stacks_place(struct sp_wait_stacks *w, uint32_t tid, struct sp_task_place *out)
{
	char text[SP_TASK_TEXT];
	char path[64];
	ssize_t got = read_place(w, tid, text);

	(void)snprintf(path, sizeof(path), "%s/task/%" PRIu32, w->ops->proc, tid);
	if (got == -ESRCH || (got == -ENOENT && access(path, F_OK) != 0))
		return -ESRCH;
	if (got < 0)
		return refused(w, (int)got, false);
	if (!sp_task_place_parse(text, out))
		return -EAGAIN;
	return 0;
}

// NOLINTBEGIN(readability-non-const-parameter): written through struct iovec

/* Up to the first page that is not there. Each piece lies in one page, because none is read in part. */
static ssize_t copy_stack(uint32_t tid, uint64_t at, uint8_t *to)
{
	struct iovec local = {.iov_base = to, .iov_len = SP_SNAPSHOT_STACK_MAX};
	struct iovec remote[PIECES];
	uint64_t left = SP_SNAPSHOT_STACK_MAX;
	unsigned n = 0;
	ssize_t got;

	while (left != 0 && n < PIECES) {
		uint64_t piece = PAGE - at % PAGE;

		piece = piece < left ? piece : left;
		memcpy(&remote[n].iov_base, &at, sizeof(remote[n].iov_base));
		remote[n++].iov_len = piece;
		at += piece;
		left -= piece;
	}
	got = process_vm_readv((pid_t)tid, &local, 1, remote, n, 0);
	return got >= 0 ? got : -errno;
}

/* Slots of the host's objects for functions of others, which change once, if at all. */
static bool read_word(void *arg, uint64_t at, uint64_t *word)
{
	const uint32_t *tid = arg;
	struct iovec local = {.iov_base = word, .iov_len = sizeof(*word)};
	struct iovec remote = {.iov_len = sizeof(*word)};

	memcpy(&remote.iov_base, &at, sizeof(remote.iov_base));
	return process_vm_readv((pid_t)*tid, &local, 1, &remote, 1, 0) == sizeof(*word);
}

// NOLINTEND(readability-non-const-parameter)

static bool is_stack(const struct sp_task_place *p)
{
	return p->state != SP_TASK_RUNS && p->pc != 0 && p->sp % 8 == 0 && p->sp >= PAGE &&
	       p->sp < SP_ARCH_ADDRESS_END - SP_SNAPSHOT_STACK_MAX;
}

/* The number of the thread may be another's by now, and then what was copied does not count. */
static bool is_still_there(const struct sp_wait_stacks *w, uint32_t tid,
			   const struct sp_task_place *place)
{
	char text[SP_TASK_TEXT];
	struct sp_task_place now;

	return read_place(w, tid, text) > 0 && sp_task_place_parse(text, &now) &&
	       memcmp(&now, place, sizeof(now)) == 0;
}

int sp_wait_stacks_walk(struct sp_wait_stacks *w, uint32_t tid, const struct sp_task_place *place,
			struct sp_sample *s)
{
	struct sp_snapshot *snap = &w->snapshot;
	const struct sp_unwinder_blocked blocked = {.snap = snap,
						    .memory = {.read = read_word, .arg = &tid}};
	ssize_t got;

	if (!is_stack(place))
		return -EAGAIN;
	got = copy_stack(tid, place->sp, snap->stack);
	if (got == -EFAULT)
		got = 0;
	if (got == -ESRCH)
		return -EAGAIN;
	if (got < 0)
		return refused(w, (int)got, true);
	if (!is_still_there(w, tid, place))
		return -EAGAIN;
	memset(snap->sample, 0, sizeof(snap->sample));
	memset(snap->reg, 0, sizeof(snap->reg));
	snap->stack_at = place->sp;
	snap->stack_bytes = (uint64_t)got & ~UINT64_C(7);
	snap->reg[SP_ARCH_REG_SP] = place->sp;
	snap->reg[SP_ARCH_REG_PC] = place->pc;
	w->refusal = NULL;
	(void)sp_unwinder_walk_blocked(w->unwinder, &blocked, w->ops->config->stack_depth, s);
	return 0;
}

const char *sp_wait_stacks_refusal(const struct sp_wait_stacks *w)
{
	return w->refusal;
}

bool sp_wait_stacks_may_try(const struct sp_wait_stacks *w)
{
	return w->refusal == NULL || sp_clock_mono_ns() >= w->retry_ns;
}
