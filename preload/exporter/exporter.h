/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the exporter: starts it once, and asks it to flush and to end when the process
 * is about to end or to execute another program. The host waits for the exporter at no other time.
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
 * Whether a start that failed with this negative errno may succeed a moment later: there was a lack
 * of descriptors, processes, memory or addresses, or the former exporter has not ended yet.
 */
static inline bool sp_exporter_error_passes(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -EAGAIN || err == -ENOMEM ||
	       err == -EBUSY || err == -EADDRNOTAVAIL;
}

/*
 * APP, at activation, one thread at a time. The region was made for this process; region_fd is
 * closed. Starts the program or joins a running exporter. Returns 0 or a negative errno. Errors
 * that do not pass (sp_exporter_error_passes()) are logged.
 */
int sp_exporter_start(const struct sp_config *cfg, int region_fd);

/*
 * APP. Whether the exporter exists, and works or soon will. After a false result, all results for
 * this region are false, and struct sp_region.exporter is no longer SP_EXPORTER_WORKING.
 */
bool sp_exporter_works(void);

/* APP. Logs, once in a process, that the exporter has ended and no other one is started. */
void sp_exporter_log_ended(void);

/* APP. Wakes the exporter of that region, which then reads the region. */
void sp_exporter_wake(struct sp_region *r);

/*
 * APP. Whether this process has started an exporter whose keeper is not reaped yet. Then
 * sp_exporter_finish() has to be called before the process ends.
 */
bool sp_exporter_is_own(void);

/*
 * APP, any thread, also several at once; not in a child of vfork. The process is about to end or to
 * execute another program: asks the exporter to send everything that was sampled so far.
 *
 * If this process has started the exporter, the function returns when the exporter has drained the
 * rings, has delivered the profiles or given up, and has ended, and no process of ours is left
 * below this one. After timeout_ms and half a second the exporter is killed. The counters in the
 * region are final then. The forked children that it served start another one. If this process has
 * joined an exporter, the function returns when the exporter has taken over its samples.
 *
 * With timeout_ms 0 the function does not wait: the exporter outlives the process, and the process
 * that inherits it reaps it.
 *
 * A process that has joined an exporter does not wait for it if a signal has stopped it.
 *
 * False: the exporter had ended before it answered, and there may be samples that nobody took.
 */
bool sp_exporter_finish(uint32_t timeout_ms);

#define SP_EXPORTER_PATH_MAX 4096

/*
 * APP. The absolute path of the program, in the folder that our own object was loaded from. The
 * loader may know our object by a relative name, and the host may have changed its working
 * directory since. In that case the path comes from /proc/self/maps, which takes a descriptor for a
 * moment. False if both fail. errno preserved.
 */
bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX]);

/*
 * APP, one thread at a time. Root executes the program only if root owns the program and its
 * folders and nobody else may write to them: otherwise another user could replace the program.
 * `program` becomes the path without links. For other users nothing is checked. 0, or a negative
 * errno: -EKEYREJECTED if another user could change the program.
 */
int sp_exporter_check(char program[SP_EXPORTER_PATH_MAX]);

/*
 * INIT. Stores how the processes of the family will find each other. With note_pid, a system call
 * asks for the number of this process. Without note_pid, the exporter does not wait for later
 * processes, and no child asks its parent. errno preserved.
 */
void sp_exporter_family_load(bool note_pid);

/*
 * APP. The exporter that this process has started will end with it. Asks the parent to start the
 * next one. errno preserved.
 */
void sp_exporter_family_ask_parent(void);

/*
 * APP, before a fork. True once after a child of the same user has asked this process to start an
 * exporter. The caller then starts one, and children that are forked later join it. The first call
 * makes the page that the forked children share. errno preserved.
 */
bool sp_exporter_family_is_asked(void);

/*
 * APP. Whether this process was forked after sp_exporter_family_load(). False if that call was
 * without note_pid.
 */
bool sp_exporter_family_is_forked(void);

/*
 * APP, one thread at a time. Hands region and descriptors to the exporter of the family. True: the
 * exporter has got them, and exporter_pid is its number, or the number of the process that is just
 * starting it.
 *
 * False: there is no such exporter, and the caller starts one. start->family_fd is then a socket at
 * which the new exporter listens for the family, and which the caller hands on and closes; or -1 if
 * there is no such socket: the exporter will then serve this process alone.
 */
bool sp_exporter_family_join(struct sp_exporter_start *start);

/*
 * APP, any thread. The exporter of the family does not serve this process. From now on join()
 * fails, until the process becomes another user, whose exporter may serve it.
 */
void sp_exporter_family_refused(void);

/*
 * APP, one thread at a time. From now on this process joins no exporter and starts its own. False
 * if this function was called before.
 */
bool sp_exporter_family_part(void);

/*
 * In a forked child: forgets facts about the parent alone. parents: the region of the parent; NULL
 * = none.
 */
void sp_exporter_family_forked(const struct sp_region *parents);

/*
 * APP, after a join. False if nobody listens any more at the socket where we joined: the process
 * that was to serve us has ended.
 */
bool sp_exporter_family_listens(void);

/*
 * APP. The number of the exporter, to give that process a right. It is the exporter that this
 * process has started, or the listener where it has joined; 0 = unknown. The number in the region
 * is not used, because another process of the user may write there.
 */
int32_t sp_exporter_who(void);

/* What hooks saw this process, or one of its ancestors, make. */
#define SP_TRIAL_THREAD 1U /* a thread, by the C library */
#define SP_TRIAL_CLONE 2U  /* a fork, or a thread in another way: by clone(2) */
extern _Atomic uint32_t sp_trial_seen;

/* Any context. A hook has seen `what`. True if no hook saw it before. */
static inline bool sp_trial_saw(uint32_t what)
{
	return (atomic_load_explicit(&sp_trial_seen, memory_order_relaxed) & what) == 0 &&
	       (atomic_fetch_or_explicit(&sp_trial_seen, what, memory_order_relaxed) & what) == 0;
}

enum sp_trial {
	/* There is no filter, or it does not kill for any of our calls (it may refuse them). */
	SP_TRIAL_PASSED,
	/*
	 * The filter would kill the process. A message says so if it can be written. None of our
	 * calls may be made (sampler/base/seccomp.h).
	 */
	SP_TRIAL_FAILED,
	/* It is not known yet whether the filter kills for a clone. The caller has to ask again. */
	SP_TRIAL_UNKNOWN,
};

/* APP, one thread at a time, before sampling starts. errno is not preserved. */
enum sp_trial sp_trial_run(void);

/* APP. sp_trial_run() has answered SP_TRIAL_UNKNOWN once, so the start waits for a clone. */
bool sp_trial_is_waited_for(void);

/* APP. The start waits for a clone, and none was seen since. */
bool sp_trial_is_unknown(void);

/* APP. The start waits for a clone, and it is too early to check again. */
bool sp_trial_is_put_off(void);

/*
 * APP, at the end of the process. If the start still waits for a clone: logs that the process was
 * not profiled for that reason.
 */
void sp_trial_log_unknown(void);

#endif
