/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter has two threads. The collector takes what processes put into their rings; the worker reads
 * symbols, makes profiles and sends them. What both know (processes with their counters, losses and messages,
 * the queue, the state of the connection) belongs to the one that has its turn, so that nothing of it needs a
 * lock of its own. The collector gives its turn away while it sleeps, and the worker before everything that may
 * take long: reading files, encoding, the network. So neither waits for the other for more than moments.
 */
#ifndef SP_TURN_H
#define SP_TURN_H

#include <stdbool.h>

/*
 * Takes the turn, or gives it away. Returns whether the calling thread had it, so that a pair of calls leaves
 * everything as it was, whoever is the caller. A thread that has waited for its turn gets it before one that has
 * just given it away.
 */
bool sp_turn_set(bool mine);

/* The calling thread, which has its turn, keeps it for ever. Every other one that wants it sleeps for ever. */
void sp_turn_keep(void);

#endif
