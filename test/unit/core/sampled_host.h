/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that is sampled, in one process and without the preloaded object, for the tests of the handler and of the
 * sampler as a whole. The kernel sends the signals; rt_tgsigqueueinfo(2) sends those with a value of our choice,
 * because a process may send itself with it what a timer would send.
 */
#ifndef SP_TEST_SAMPLED_HOST_H
#define SP_TEST_SAMPLED_HOST_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "sampler/region/ring.h"
#include "sampler/sampler.h"
#include "sampler/sampling/handler.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"

#define SIGNO SIGUSR2
#define RATE_HZ 100U

static struct sp_config config = {
	.sample_rate_hz = RATE_HZ,
	.max_span_names = 1000,
	.stack_depth = 128,
	.signal_number = SIGNO,
	.trace_id = true,
};

static struct sp_sample last;
static struct {
	unsigned samples;
	unsigned rooted;
	unsigned labelled;
	uint64_t weight;
	uint32_t tid;
} seen;

static inline void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static inline void prepare_with(void *(*lookup)(const char *name))
{
	int fd = sp_sampler_prepare(&config, lookup);

	cr_assert_geq(fd, 3);
	cr_assert_eq(close(fd), 0);
}

static inline void prepare(void)
{
	prepare_with(find);
}

static inline struct sp_thread *enrol_without_timer(void)
{
	uint64_t period = sp_thread_timer_period_ns();
	struct sp_thread *t;

	sp_thread_timer_set(SIGNO, 0, sp_handler_setup.cookie);
	t = sp_thread_self();
	sp_thread_timer_set(SIGNO, period, sp_handler_setup.cookie);
	cr_assert_not_null(t);
	return t;
}

/* Sends this thread a signal like a timer's, delivered before the call returns. */
static inline void send(int code, uint64_t value, int overrun)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	si.si_signo = SIGNO;
	si.si_code = code;
	si.si_value.sival_ptr = (void *)(uintptr_t)value;
	si.si_overrun = overrun;
	cr_assert_eq(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGNO, &si), 0);
}

static inline uint64_t our_value(uint32_t index)
{
	return (uint64_t)sp_handler_setup.cookie << 32 | index;
}

static inline void expire(void)
{
	send(SI_TIMER, our_value(sp_thread_own->index), 0);
}

static inline void take(const struct sp_record *record, void *arg)
{
	const struct sp_sample *s = &record->sample;

	(void)arg;
	if (record->kind != SP_RECORD_SAMPLE)
		return;
	last = *s;
	seen.samples++;
	seen.weight += s->weight;
	seen.rooted += (s->flags & SP_SAMPLE_ROOTED) != 0;
	seen.labelled += s->span_id != 0;
	seen.tid = s->tid;
}

/* The number of samples; records about objects are the subject of test_module_event.c. */
static inline unsigned drain(void)
{
	unsigned before = seen.samples;

	(void)sp_ring_drain(&sp_channel_now()->ring, take, NULL, UINT32_MAX);
	return seen.samples - before;
}

static inline void start_span(uint64_t id)
{
	struct sp_span_start s;

	memset(&s, 0, sizeof(s));
	s.handle = (const void *)(uintptr_t)(id * 64);
	memcpy(s.span_id, &id, sizeof(id));
	memset(s.trace_id, 0x5a, sizeof(s.trace_id));
	s.name = id == 1 ? "root" : "child";
	s.name_len = strlen(s.name);
	cr_assert(sp_span_started(&s));
}

#endif
