/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the exporter: it is started once, and asked for a flush and for its own end when
 * the process is about to end or to execute another program. Nothing in the host waits for the
 * exporter except that.
 */
#ifndef SP_EXPORTER_H
#define SP_EXPORTER_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/exporter/exporter_process.h"
#include "sampler/config/config.h"

/*
 * A start that failed with this negative errno, of the exporter or of what comes before it, may succeed a moment
 * later: it was for want of descriptors, processes, memory or addresses, or the former exporter has not ended yet.
 */
static inline bool sp_exporter_error_passes(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -EAGAIN || err == -ENOMEM ||
	       err == -EBUSY || err == -EADDRNOTAVAIL;
}

/*
 * APP, at activation, one thread at a time, with a region made for this process. Starts the program
 * or joins a running one; region_fd is closed. 0, or a negative errno: one that does not pass after a message.
 */
int sp_exporter_start(const struct sp_config *cfg, int region_fd);

/*
 * APP. The exporter exists, and works or soon will. Once false it stays false for this region, and
 * struct sp_region.exporter is no longer SP_EXPORTER_WORKING.
 */
bool sp_exporter_works(void);

/*
 * APP. Says that the exporter does not work and that there will be no other one. Once in a process.
 */
void sp_exporter_tell_ended(const struct sp_config *cfg);

/*
 * APP. This process has started an exporter whose keeper is not reaped yet: sp_exporter_finish() has
 * to be called before the process ends.
 */
bool sp_exporter_is_own(void);

/*
 * APP, any thread, also several at once; not in a child of vfork. The process is about to end, or to
 * execute another program: asks for everything sampled so far to be sent.
 *
 * Where this process has started the exporter, returns when that has drained, delivered or given up,
 * has ended, and nothing of ours is left below this process; at the latest half a second after
 * timeout_ms, when it is killed. The counters in the region are final then. It served forked
 * children, too: they start another one. Where this process has joined an exporter, returns when its
 * samples are taken over.
 *
 * With timeout_ms 0 nothing is waited for: the exporter outlives the process, and belongs to whoever
 * inherits it.
 *
 * An exporter that was stopped by a signal is not waited for by a process that has joined it.
 *
 * False: the exporter had ended before it answered, and there may be samples that nobody took.
 */
bool sp_exporter_finish(uint32_t timeout_ms);

#define SP_EXPORTER_PATH_MAX 4096

/*
 * APP. The absolute path of the program, in the folder that our own object was loaded from. The loader may know our object by a relative name, and the host may have
 * changed its working directory since. In that case the path comes from /proc/self/maps, which
 * takes a descriptor for a moment. False if neither helps. errno preserved.
 */
bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX]);

/*
 * INIT. Notes by what the family will find each other, and with note_pid which process it is, by one system
 * call: without, the exporter does not wait for who comes after the last process.
 */
void sp_exporter_family_load(bool note_pid);

/* APP. This process was forked since then; false also where its number was not noted. */
bool sp_exporter_family_is_forked(void);

/*
 * APP, one thread at a time. True: region and descriptors were handed to the exporter of the family, and
 * exporter_pid is its own; it may be the number of the process that is just starting that exporter.
 *
 * False: there is none, and the caller starts one. start->family_fd is then a socket that listens for
 * the family, which the caller hands on and closes; or -1 where that cannot be had, and the exporter
 * will be for this process alone.
 */
bool sp_exporter_family_join(struct sp_exporter_start *start);

/*
 * APP, any thread. The exporter of the family does not serve this process: join() finds and leaves nobody
 * any more, until the process is another user, whose exporter may.
 */
void sp_exporter_family_leave(void);

/* Forked child: it may be another case. */
void sp_exporter_family_forked(void);

/*
 * APP, after a join. False where nobody listens any more where we joined: whoever was to take us in has
 * ended.
 */
bool sp_exporter_family_listens(void);

/*
 * APP. The exporter's process, to give it a right: not by the region's word, which another process of the user may
 * write. It is the one that this process has started, or that listens where it has joined; 0 = unknown.
 */
int32_t sp_exporter_who(void);

/* What the process, or one that it was forked from, was seen to make. */
#define SP_TRIAL_THREAD 1U /* by the C library */
#define SP_TRIAL_CLONE 2U  /* a fork, or a thread in another way: by clone(2) */
extern _Atomic uint32_t sp_trial_seen;

/* Any context. True if it was new. */
static inline bool sp_trial_saw(uint32_t what)
{
	return (atomic_load_explicit(&sp_trial_seen, memory_order_relaxed) & what) == 0 &&
	       (atomic_fetch_or_explicit(&sp_trial_seen, what, memory_order_relaxed) & what) == 0;
}

enum sp_trial {
	/* There is no filter, or it kills for none of our calls (it may refuse them). */
	SP_TRIAL_PASSED,
	/* It would; told, if that can be. None of our calls may be made (sampler/base/seccomp.h). */
	SP_TRIAL_FAILED,
	/* Whether it kills for a clone is not known yet. To be asked again. */
	SP_TRIAL_UNKNOWN,
};

/* APP, one thread at a time, before sampling starts. errno is not preserved. */
enum sp_trial sp_trial_run(void);

/* APP. The answer was SP_TRIAL_UNKNOWN once: a start has waited for a clone. */
bool sp_trial_is_waited_for(void);

/* APP. The same, and nothing was seen since. */
bool sp_trial_is_unknown(void);

/* APP. The same, and it is too early to look again. */
bool sp_trial_is_put_off(void);

/* APP, at the end of the process: says that it was not profiled for that. */
void sp_trial_tell_unknown(void);

#endif
