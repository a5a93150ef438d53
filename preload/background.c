/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread: its life, its waits, and the flushes that others ask of it. BG context, except
 * start (APP), flush (APP, waits on a futex with a bound) and forked (INIT).
 */
#include "preload/background.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "export/export.h"
#include "preload/core_ops.h"
#include "preload/descriptors.h"
#include "preload/end_gate.h"
#include "preload/exporter.h"
#include "preload/fork_gate.h"
#include "preload/guard.h"
#include "preload/leave_gate.h"
#include "preload/life.h"
#include "preload/loader_lock.h"
#include "preload/resolve.h"
#include "preload/upkeep.h"
#include "sampler/log.h"
#include "sampler/monotonic.h"
#include "sampler/residual.h"
#include "sampler/thread.h"

/* A program that enters by a _start of its own never tells that start-up is over. */
#define LOAD_WAIT_NS (5 * SP_NS_PER_S)

static const struct sp_config *config;
static sp_exporter_entry export_entry; /* stays mapped; a forked child uses it again */
static bool early_exit_registered;
static unsigned exits_registered;
#define EXITS_MAX 2U

static _Atomic uint32_t flush_asked; /* futex the background thread sleeps on */
static _Atomic uint32_t flush_done;  /* futex the flushing thread sleeps on */
static _Atomic uint64_t flush_deadline_ns;
static _Atomic uint32_t may_load; /* futex: 1 once start-up is over */
static void *exporter_kept;       /* what the exporter leaves for the next thread */

static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / SP_NS_PER_S),
			      .tv_nsec = (long)(ns % SP_NS_PER_S)};

	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static int ops_flush_pending(void)
{
	return atomic_load_explicit(&flush_asked, memory_order_acquire) !=
	       atomic_load_explicit(&flush_done, memory_order_relaxed);
}

static uint32_t ops_flush_left_ms(void)
{
	uint64_t end = atomic_load_explicit(&flush_deadline_ns, memory_order_relaxed);
	uint64_t now = sp_monotonic_ns();

	if (!ops_flush_pending() || end <= now)
		return 0;
	return (uint32_t)((end - now) / SP_NS_PER_MS);
}

static void ops_flushed(void)
{
	atomic_store_explicit(&flush_done, atomic_load_explicit(&flush_asked, memory_order_acquire),
			      memory_order_release);
	futex_wake(&flush_done);
}

static unsigned ops_wait(uint32_t timeout_ms)
{
	uint64_t end = sp_monotonic_ns() + timeout_ms * SP_NS_PER_MS;

	sp_fork_gate_yield();
	for (;;) {
		if (!sp_end_gate_enter()) {
			sp_fork_gate_leave();
			sp_end_gate_park();
		}
		if (sp_upkeep_run(config)) {
			atomic_store_explicit(&flush_deadline_ns,
					      sp_monotonic_ns() +
						      config->flush_timeout_ms * SP_NS_PER_MS,
					      memory_order_relaxed);
			atomic_fetch_add_explicit(&flush_asked, 1, memory_order_release);
			sp_residual_flush();
			return SP_WAIT_FLUSH | SP_WAIT_STOP;
		}
		if (ops_flush_pending()) {
			sp_residual_flush();
			return SP_WAIT_FLUSH;
		}
		if (sp_leave_gate_asked())
			return SP_WAIT_LEAVE;
		uint64_t now = sp_monotonic_ns();

		if (now >= end)
			return 0;
		uint64_t until = sp_upkeep_due_ns() < end ? sp_upkeep_due_ns() : end;

		sp_end_gate_leave();
		sp_fork_gate_leave();
		futex_wait(&flush_asked, atomic_load_explicit(&flush_done, memory_order_relaxed),
			   until > now ? until - now : 0);
		sp_fork_gate_enter();
	}
}

static void at_exit(void)
{
	sp_life_end();
}

/*
 * Registered after the exporter's libraries registered their own handlers, so that it runs before
 * them: OpenSSL frees its state in one. Forked children inherit what was registered.
 */
static void exporter_ready(void)
{
	if (exits_registered < EXITS_MAX && atexit(at_exit) == 0)
		exits_registered++;
}

static void wait_for_main(void)
{
	uint64_t end = sp_monotonic_ns() + LOAD_WAIT_NS;
	uint64_t now;

	while (atomic_load_explicit(&may_load, memory_order_acquire) == 0 && !ops_flush_pending() &&
	       !sp_leave_gate_asked() && (now = sp_monotonic_ns()) < end)
		futex_wait(&may_load, 0, end - now);
}

static const char *reason(int err)
{
	switch (err) {
	case -ENOTSUP:
		return "it is of another version than libspanprof.so";
	case -ENOMEM:
		return "out of memory";
	case -EINVAL:
		return "no usable server address";
	case -ECANCELED:
		return "the program ends";
	default:
		return "libcurl cannot be used";
	}
}

static void run_exporter(void)
{
	/* Outlives the thread: the exporter goes on with it after a leave. */
	static struct sp_core_ops ops;
	int err = -ENOENT;

	sp_core_ops_init(&ops, config);
	ops.kept = &exporter_kept;
	ops.wait = ops_wait;
	ops.flush_left_ms = ops_flush_left_ms;
	ops.flush_pending = ops_flush_pending;
	ops.flushed = ops_flushed;
	if (export_entry == NULL)
		export_entry = sp_exporter_load();
	if (export_entry != NULL)
		err = export_entry(&ops, exporter_ready);
	/* An end that was faster than we is news only to who asks for all. */
	if (export_entry != NULL && err != 0)
		sp_log(err == -ECANCELED ? SP_LOG_INFO : SP_LOG_WARN,
		       "cannot start the exporter (%s): not profiling this process", reason(err));
	if (err != 0)
		sp_life_fail();
}

/* True if it is to go on after a leave, false if it has ended for good. */
static bool work(void)
{
	bool waits = true;

	wait_for_main();
	if (sp_leave_gate_asked())
		return true;
	sp_fork_gate_enter();
	if (sp_end_gate_enter()) {
		sp_loader_lock_find();
		run_exporter();
		waits = exporter_kept != NULL;
		sp_end_gate_leave();
	}
	sp_fork_gate_leave();
	return waits;
}

static void *background(void *arg SP_UNUSED)
{
	sp_guard_own_thread();
	sp_thread_excluded = true;
	sp_leave_gate_arrived();
	sp_descriptors_detach();
	while (work()) {
		if (!sp_leave_gate_go())
			continue;
		sp_residual_gone();
		return NULL;
	}
	sp_leave_gate_absent();
	ops_flushed();
	return NULL;
}

/*
 * 32 and 33 (glibc: internal-signals.h): by the second one setuid() and its like ask every thread
 * to follow, and wait until all have.
 */
#define C_LIBRARY_SIGNALS (UINT64_C(3) << 31)

static int create_thread(void)
{
	__typeof__(&pthread_detach) detach = SP_NEXT(pthread_detach);
	__typeof__(&pthread_create) create = SP_NEXT(pthread_create);
	uint64_t all = ~C_LIBRARY_SIGNALS;
	uint64_t before = 0;
	pthread_t thread;
	int rc;

	if (create == NULL)
		return -ENOSYS;
	/* The thread inherits the mask: no signal of the host is ever handled on it. */
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	rc = create(&thread, NULL, background, NULL);
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	if (rc == 0 && detach != NULL)
		(void)detach(thread);
	return -rc;
}

int sp_background_start(const struct sp_config *cfg)
{
	int rc;

	config = cfg;
	sp_leave_gate_present();
	/* For an end before the exporter is loaded; exporter_ready() has the one after. */
	if (!early_exit_registered)
		early_exit_registered = atexit(at_exit) == 0;
	rc = create_thread();
	if (rc != 0)
		sp_leave_gate_absent();
	return rc;
}

void sp_background_may_load(void)
{
	atomic_store_explicit(&may_load, 1, memory_order_release);
	if (sp_leave_gate_is_present())
		futex_wake(&may_load);
}

void sp_background_main_ended(void)
{
	sp_upkeep_main_ended();
	futex_wake(&flush_asked);
}

bool sp_background_present(void)
{
	return sp_leave_gate_is_present();
}

static void wake(void)
{
	futex_wake(&flush_asked);
	futex_wake(&may_load);
}

void sp_background_leave(void)
{
	static struct sp_log_site site;

	if (!sp_leave_gate_close(wake))
		sp_log_limited(
			&site, SP_LOG_WARN,
			"busy while the program changes its user or namespace: that call finds "
			"a second thread in the process");
}

int sp_background_return(void)
{
	int err;

	if (!sp_leave_gate_open())
		return 0;
	err = create_thread();
	if (err != 0)
		sp_leave_gate_absent();
	return err;
}

void sp_background_forked(void)
{
	atomic_store_explicit(&flush_asked, 0, memory_order_relaxed);
	atomic_store_explicit(&flush_done, 0, memory_order_relaxed);
	exporter_kept = NULL;
	sp_leave_gate_forked();
	sp_end_gate_forked();
	sp_upkeep_forked();
}

void sp_background_flush(uint32_t timeout_ms)
{
	uint64_t end = sp_monotonic_ns() + timeout_ms * SP_NS_PER_MS;
	uint32_t mine;

	if (timeout_ms == 0 || !sp_leave_gate_is_present())
		return;
	atomic_store_explicit(&flush_deadline_ns, end, memory_order_relaxed);
	mine = atomic_fetch_add_explicit(&flush_asked, 1, memory_order_release) + 1;
	wake();
	while (sp_leave_gate_is_present()) {
		uint32_t done = atomic_load_explicit(&flush_done, memory_order_acquire);
		uint64_t now = sp_monotonic_ns();

		if ((int32_t)(done - mine) >= 0 || now >= end)
			return;
		futex_wait(&flush_done, done, end - now);
	}
}
