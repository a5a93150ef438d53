/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the exporter: it is started once, and asked for a flush and for its own end when
 * the process is about to end or to execute another program. Nothing in the host waits for the
 * exporter except that.
 */
#ifndef SP_EXPORTER_H
#define SP_EXPORTER_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/config/config.h"

/*
 * APP, at activation, one thread at a time, with a region made for this process. Starts the program
 * or joins a running one; region_fd is closed. 0, or a negative errno after a message.
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
void sp_exporter_tell_ended(void);

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

#endif
