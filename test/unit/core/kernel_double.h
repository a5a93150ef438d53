/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that threads and timers are made of, as a test wants them: it stands for the
 * calling thread, says who is alive, and may step in at any call, which is how races become
 * ordinary tests. While `on` is false everything goes to the kernel.
 */
#ifndef TEST_KERNEL_DOUBLE_H
#define TEST_KERNEL_DOUBLE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define KERNEL_TIMERS 64

struct kernel_timer {
	bool alive;
	clockid_t clock;
	struct sigevent event;
	struct itimerspec spec;
};

struct kernel {
	bool on;
	uint32_t tid;      /* of the calling thread */
	uint32_t dead[4];  /* threads that tgkill does not find */
	uint32_t raw[2];   /* threads that have no list of robust mutexes */
	int refuse_create; /* errno of timer_create, 0 = it works */
	int refuse_settime;
	int refuse_list; /* of get_robust_list */
	unsigned signals_sent;
	void (*at_tgkill)(uint32_t tid);          /* before it answers; called once, then cleared */
	void (*at_create)(uint32_t tid);          /* the same for timer_create */
	void (*at_clock)(uint32_t tid);           /* and for clock_gettime of a thread's clock */
	void (*at_delete)(uint32_t tid);          /* and for timer_delete, after it */
	struct kernel_timer timer[KERNEL_TIMERS]; /* the id is the index */
};
extern struct kernel kernel;

/* How many timers there are for that thread. */
unsigned kernel_timers_of(uint32_t tid);
unsigned kernel_timers(void);

#endif
