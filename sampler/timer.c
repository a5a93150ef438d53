/* SPDX-License-Identifier: Apache-2.0 */
/* Arming and deleting thread CPU timers. Context: APP. */
#include "sampler/timer.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/compiler.h"
#include "sampler/seccomp.h"

static _Atomic int timer_signo;
static uint64_t timer_period_ns;
static uint64_t timer_cookie;

void sp_timer_set(int signo, uint64_t period_ns, uint32_t cookie)
{
	sp_timer_use(signo);
	timer_period_ns = period_ns;
	timer_cookie = (uint64_t)cookie << 32;
}

void sp_timer_use(int signo)
{
	atomic_store_explicit(&timer_signo, signo, memory_order_seq_cst);
}

int sp_timer_signal(void)
{
	return atomic_load_explicit(&timer_signo, memory_order_seq_cst);
}

uint64_t sp_timer_period_ns(void)
{
	return timer_period_ns;
}

/* splitmix64's finalizer: threads born in the same tick must not share a phase. */
static uint64_t scramble(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static struct timespec phase(uint32_t tid)
{
	struct timespec now = {0, 0};
	uint64_t ns;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	ns = 1 + scramble((uint64_t)now.tv_nsec * 2654435761U + (uint64_t)now.tv_sec + tid) %
			 timer_period_ns;
	return (struct timespec){.tv_sec = (time_t)(ns / SP_NS_PER_S),
				 .tv_nsec = (long)(ns % SP_NS_PER_S)};
}

int sp_timer_arm(uint32_t tid, uint32_t index)
{
	int saved = errno;
	int id = -1;
	struct sigevent sev;
	struct itimerspec its = {
		.it_interval = {.tv_sec = (time_t)(timer_period_ns / SP_NS_PER_S),
				.tv_nsec = (long)(timer_period_ns % SP_NS_PER_S)},
		.it_value = phase(tid),
	};

	memset(&sev, 0, sizeof(sev));
	sev.sigev_notify = SIGEV_THREAD_ID;
	sev.sigev_signo = sp_timer_signal();
	sev.sigev_value.sival_ptr = (void *)(uintptr_t)(timer_cookie | index);
	sev._sigev_un._tid = (pid_t)tid;
	if (sp_syscall(SYS_timer_create, SP_THREAD_CPU_CLOCK(tid), &sev, &id) != 0) {
		id = -errno;
	} else if (sp_syscall(SYS_timer_settime, id, 0, &its, NULL) != 0) {
		int err = errno;

		sp_timer_delete(id);
		id = -err;
	}
	errno = saved;
	return id;
}

void sp_timer_delete(int id)
{
	int saved = errno;

	if (id >= 0)
		(void)sp_syscall(SYS_timer_delete, id);
	errno = saved;
}
