/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for sp_syscall_make(). Context: tests. Callers: the code under test, through the linker. */
#include "kernel_double.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/syscall.h"

struct kernel kernel;

static long enter_kernel(long number, const long arg[6])
{
	return sp_syscall_result(sp_arch_syscall6(number, arg));
}

static long fail(int err)
{
	errno = err;
	return -1;
}

static void step_in(void (**hook)(uint32_t), uint32_t tid)
{
	void (*fn)(uint32_t) = *hook;

	*hook = NULL;
	if (fn != NULL)
		fn(tid);
}

static long create(clockid_t clock, const struct sigevent *event, int *id)
{
	step_in(&kernel.at_create, (uint32_t)event->_sigev_un._tid);
	if (kernel.refuse_create != 0)
		return fail(kernel.refuse_create);
	for (int i = 0; i < KERNEL_TIMERS; i++) {
		struct kernel_timer *t = &kernel.timer[i];

		if (t->alive)
			continue;
		memset(t, 0, sizeof(*t));
		t->alive = true;
		t->clock = clock;
		t->event = *event;
		*id = i;
		return 0;
	}
	return fail(EAGAIN);
}

static struct kernel_timer *timer_at(long id)
{
	return id >= 0 && id < KERNEL_TIMERS && kernel.timer[id].alive ? &kernel.timer[id] : NULL;
}

static long settime(long id, const struct itimerspec *spec)
{
	struct kernel_timer *t = timer_at(id);

	if (t == NULL || kernel.refuse_settime != 0)
		return fail(t == NULL ? EINVAL : kernel.refuse_settime);
	t->spec = *spec;
	return 0;
}

static long delete (long id)
{
	struct kernel_timer *t = timer_at(id);

	if (t == NULL)
		return fail(EINVAL);
	t->alive = false;
	step_in(&kernel.at_delete, (uint32_t)t->event._sigev_un._tid);
	return 0;
}

static long tgkill_(uint32_t tid, int signo)
{
	step_in(&kernel.at_tgkill, tid);
	for (size_t i = 0; i < sizeof(kernel.dead) / sizeof(kernel.dead[0]); i++) {
		if (kernel.dead[i] == tid)
			return fail(ESRCH);
	}
	kernel.signals_sent += signo != 0;
	return 0;
}

long sp_syscall_make(long number, const long arg[6])
{
	if (!kernel.on)
		return enter_kernel(number, arg);
	switch (number) {
	case SYS_gettid:
		return kernel.tid;
	case SYS_get_robust_list:
		*(const void **)arg[1] =
			arg[0] == kernel.raw[0] || arg[0] == kernel.raw[1] ? NULL : &kernel;
		return kernel.refuse_list != 0 ? fail(kernel.refuse_list) : 0;
	case SYS_timer_create:
		return create((clockid_t)arg[0], (const struct sigevent *)arg[1], (int *)arg[2]);
	case SYS_timer_settime:
		return settime((int)arg[0], (const struct itimerspec *)arg[2]);
	case SYS_timer_delete:
		return delete ((int)arg[0]);
	case SYS_clock_gettime:
		step_in(&kernel.at_clock, (uint32_t) ~((int)arg[0] >> 3));
		return enter_kernel(number, arg);
	case SYS_tgkill:
		return tgkill_((uint32_t)arg[1], (int)arg[2]);
	default:
		return enter_kernel(number, arg);
	}
}

unsigned kernel_timers_of(uint32_t tid)
{
	unsigned n = 0;

	for (int i = 0; i < KERNEL_TIMERS; i++)
		n += kernel.timer[i].alive &&
		     (tid == 0 || (uint32_t)kernel.timer[i].event._sigev_un._tid == tid);
	return n;
}

unsigned kernel_timers(void)
{
	return kernel_timers_of(0);
}
