/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the exporter that serves a process's family already: a host and its forked children have one
 * together, also where their parent recorded no span and so started none. They meet at an abstract unix
 * socket (region.h), where the exporter listens. On a machine so busy that the other process is held up
 * this waits for it, 200 ms at most. All descriptors are close-on-exec and closed before the return, and
 * errno stays.
 */
#ifndef SP_EXPORTER_FAMILY_H
#define SP_EXPORTER_FAMILY_H

#include <stdbool.h>

#include "preload/exporter/exporter_process.h"

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

#endif
