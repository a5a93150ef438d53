/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the stacks of waiting threads (wait_stack.h). Context: the exporter. */
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
/*
 * A walk begins with this much of the stack, and with MORE times as much each time that is too little: one frame may
 * have an array of thousands of bytes.
 */
#define FIRST_BYTES (UINT64_C(16) << 10)
#define MORE 8U
#define MOST_BYTES (UINT64_C(1) << 20)
#define PIECES (MOST_BYTES / PAGE + 1)
#define RETRY_NS (2 * SP_NS_PER_S)

const char *sp_wait_stacks_yama = "/proc/sys/kernel/yama/ptrace_scope";

struct sp_wait_stacks {
	const struct sp_core_ops *ops;
	struct sp_unwinder *unwinder;
	const char *refusal;
	bool may_read;     /* the exporter may read the host's memory */
	uint64_t retry_ns; /* no new attempt before this time */
	/*
	 * the exporter has asked the host for permission; after its answer the next attempt does
	 * not wait for retry_ns
	 */
	bool awaits_permission;
};

/*
 * The copy of the stack that is being walked. There is one for all processes, because only one thread walks. One for
 * each process would be a megabyte each, and count towards the exporter's memory limit, although hardly any stack is
 * that large.
 */
static struct iovec piece[PIECES];
static uint8_t stack[MOST_BYTES];

// NOLINTBEGIN(readability-non-const-parameter): written through struct iovec
bool sp_wait_stacks_read(uint32_t tid, uint64_t at, void *out, size_t bytes)
{
	struct iovec local = {.iov_base = out, .iov_len = bytes};
	struct iovec remote = {.iov_len = bytes};

	memcpy(&remote.iov_base, &at, sizeof(remote.iov_base));
	return process_vm_readv((pid_t)tid, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}
// NOLINTEND(readability-non-const-parameter)

/*
 * Reads parts of the host's memory that never change: code and call frame information that no file shows any more. It
 * also reads slots of the host's objects for functions of other objects, which change at most once.
 */
static bool read_memory(void *arg, uint64_t at, void *out, size_t bytes)
{
	const struct sp_wait_stacks *w = arg;

	return w->may_read && sp_wait_stacks_read(w->ops->pid, at, out, bytes);
}

struct sp_wait_stacks *sp_wait_stacks_new(const struct sp_core_ops *ops,
					  struct sp_unwinder *unwinder)
{
	struct sp_wait_stacks *w = calloc(1, sizeof(*w));

	if (w != NULL) {
		w->ops = ops;
		w->unwinder = unwinder;
		sp_unwinder_set_memory(unwinder, &(struct sp_host_memory){read_memory, w});
	}
	return w;
}

void sp_wait_stacks_free(struct sp_wait_stacks *w)
{
	if (w != NULL)
		sp_unwinder_set_memory(w->unwinder, &(struct sp_host_memory){NULL, NULL});
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

/* Yama's setting, a digit; '0' also if the kernel has no Yama. */
static char yama_scope(void)
{
	char text[8];

	return read_file(sp_wait_stacks_yama, text, sizeof(text)) > 0 ? text[0] : '0';
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
		return "Yama needs the program's permission";
	case '2':
	case '3':
		return "Yama forbids it";
	default:
		return is_memory ? "process_vm_readv is not allowed"
				 : "the program is not dumpable, or another user's";
	}
}

static bool still_awaits_permission(const struct sp_wait_stacks *w)
{
	return w->awaits_permission && w->ops->is_tracer_asked(w->ops->arg);
}

/*
 * Only the host itself can give us permission (PR_SET_PTRACER). It does so when one of its threads
 * next starts a span, pushes a label or makes a thread. Then the exporter tries again at once,
 * because a program may have ended by the time of the next attempt. If the permission does not
 * help, because the program has given it to another process since, the exporter asks again after
 * each retry_ns.
 */
static int refused(struct sp_wait_stacks *w, int err, bool is_memory)
{
	bool can_give = (err == -EPERM || err == -EACCES) && yama_scope() == '1';

	w->may_read = false;
	w->awaits_permission = can_give && (w->refusal == NULL || still_awaits_permission(w));
	w->refusal = reason_of(err, is_memory);
	w->retry_ns = sp_clock_mono_ns() + RETRY_NS;
	if (can_give)
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

/*
 * Copies up to the first page that cannot be read. Each piece lies within one page, because the kernel does not read
 * a piece in part.
 */
static ssize_t copy_stack(uint32_t tid, uint64_t at, uint64_t left)
{
	struct iovec local = {.iov_base = stack, .iov_len = left};
	unsigned n = 0;
	ssize_t got;

	while (left != 0) {
		uint64_t bytes = PAGE - at % PAGE;

		bytes = bytes < left ? bytes : left;
		memcpy(&piece[n].iov_base, &at, sizeof(piece[n].iov_base));
		piece[n++].iov_len = bytes;
		at += bytes;
		left -= bytes;
	}
	got = process_vm_readv((pid_t)tid, &local, 1, piece, n, 0);
	return got >= 0 ? got : -errno;
}

// NOLINTEND(readability-non-const-parameter)

static bool is_stack(const struct sp_task_place *p)
{
	return p->state != SP_TASK_RUNS && p->pc != 0 && p->sp % 8 == 0 && p->sp >= PAGE &&
	       p->sp < SP_ARCH_ADDRESS_END - MOST_BYTES;
}

/* The thread's id may be another thread's by now, and then the copy does not count. */
static bool is_still_there(const struct sp_wait_stacks *w, uint32_t tid,
			   const struct sp_task_place *place)
{
	char text[SP_TASK_TEXT];
	struct sp_task_place now;

	return read_place(w, tid, text) > 0 && sp_task_place_parse(text, &now) &&
	       memcmp(&now, place, sizeof(now)) == 0;
}

/* A thread in a page fault is in no system call, so it has no argument. */
static struct sp_regs regs_of(const struct sp_task_place *place)
{
	struct sp_regs regs = {.known = 0};

	for (unsigned i = 0; place->state == SP_TASK_CALLS && i < SP_TASK_ARGS; i++)
		sp_regs_set(&regs, sp_arch_syscall_reg(i), place->arg[i]);
	sp_regs_set(&regs, SP_ARCH_REG_SP, place->sp);
	sp_regs_set_pc(&regs, place->pc);
	return regs;
}

/* sp_wait_stacks_walk() with this many bytes of the stack. */
static int walk(struct sp_wait_stacks *w, uint32_t tid, const struct sp_task_place *place,
		uint64_t bytes, struct sp_sample *s)
{
	struct sp_unwinder_blocked blocked = {
		.regs = regs_of(place),
		.stack = {.at = place->sp, .copy = stack},
	};
	ssize_t got = copy_stack(tid, place->sp, bytes);

	if (got == -EFAULT)
		got = 0;
	if (got == -ESRCH)
		return -EAGAIN;
	if (got < 0)
		return refused(w, (int)got, true);
	if (!is_still_there(w, tid, place))
		return -EAGAIN;
	w->refusal = NULL;
	w->may_read = true;
	blocked.stack.bytes = (uint64_t)got & ~UINT64_C(7);
	blocked.stack.has_more = (uint64_t)got == bytes;
	(void)sp_unwinder_walk_blocked(w->unwinder, &blocked, w->ops->config->stack_depth, s);
	return 0;
}

static bool is_cut(const struct sp_wait_stacks *w, const struct sp_sample *s)
{
	return (s->flags & SP_SAMPLE_TRUNCATED) != 0 && s->depth < w->ops->config->stack_depth;
}

int sp_wait_stacks_walk(struct sp_wait_stacks *w, uint32_t tid, const struct sp_task_place *place,
			struct sp_sample *s)
{
	int err;

	if (!is_stack(place))
		return -EAGAIN;
	err = walk(w, tid, place, FIRST_BYTES, s);
	for (uint64_t bytes = FIRST_BYTES * MORE; err == 0 && bytes <= MOST_BYTES && is_cut(w, s);
	     bytes *= MORE)
		err = walk(w, tid, place, bytes, s);
	return err;
}

const char *sp_wait_stacks_refusal(const struct sp_wait_stacks *w)
{
	return w->refusal;
}

bool sp_wait_stacks_may_try(const struct sp_wait_stacks *w)
{
	if (w->refusal == NULL || sp_clock_mono_ns() >= w->retry_ns)
		return true;
	return w->awaits_permission && !still_awaits_permission(w);
}
