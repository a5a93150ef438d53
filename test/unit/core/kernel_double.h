/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls for threads and timers, as a test wants them. The double stands for the calling thread, says which
 * threads live, and can call a function of the test inside any of these calls. So a race becomes an ordinary test.
 * While `on` is false all calls go to the kernel.
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
	uint32_t tid;      /* id of the calling thread */
	uint32_t dead[4];  /* threads that tgkill does not find */
	uint32_t raw[2];   /* threads that have no list of robust mutexes */
	int refuse_create; /* errno of timer_create, 0 = it succeeds */
	int refuse_settime;
	int refuse_list; /* errno of get_robust_list */
	unsigned signals_sent;
	/* called before tgkill answers; once, then cleared */
	void (*at_tgkill)(uint32_t tid);
	void (*at_create)(uint32_t tid);          /* the same for timer_create */
	void (*at_clock)(uint32_t tid);           /* and before clock_gettime of a thread's clock */
	void (*at_delete)(uint32_t tid);          /* and after timer_delete */
	struct kernel_timer timer[KERNEL_TIMERS]; /* the id is the index */
};
extern struct kernel kernel;

/* The number of timers of that thread. */
unsigned kernel_timers_of(uint32_t tid);
unsigned kernel_timers(void);

#endif
