/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter has two threads. The collector takes what processes put into their rings; the worker reads symbols,
 * makes profiles and sends them. Both use the processes with their counters, losses and messages, the queue, and the
 * state of the connection. Only the thread that has the turn may use this data, so the data needs no locks. The
 * collector gives its turn away while it sleeps. The worker gives it away before everything that may take long:
 * reading files, encoding, the network. So each thread waits only moments for the other.
 */
#ifndef SP_TURN_H
#define SP_TURN_H

#include <stdbool.h>

/*
 * Takes the turn, or gives it away. Returns whether the calling thread had it before, so that a second call with the
 * result restores the state of any caller. A thread that waits for the turn gets it before the thread that has just
 * given it away.
 */
bool sp_turn_set(bool mine);

/* The calling thread, which has the turn, keeps it for ever. Any other thread that wants it sleeps for ever. */
void sp_turn_keep(void);

#endif
