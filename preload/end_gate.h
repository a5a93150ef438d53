/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the background thread and the end of the process: once the C library runs destructors, the
 * exporter's libraries may neither be loaded any more nor be at work, or their destructors meet what
 * they destroy. Seen with GnuTLS, whose constructor then complains on the host's stderr.
 */
#ifndef SP_END_GATE_H
#define SP_END_GATE_H

#include <stdbool.h>

/*
 * BG. Before it enters any library of the exporter, until leave(). False when the process is ending:
 * then it may not.
 */
bool sp_end_gate_enter(void);
void sp_end_gate_leave(void);

/* BG, when enter() said no: waits for the process to end. */
void sp_end_gate_park(void) __attribute__((noreturn));

/*
 * APP or INIT, at the end of the process, once: enter() says no from now on. Waits for the leave():
 * one second, and up to ten while the thread inside gets less than half of its CPU time, and some.
 */
void sp_end_gate_close(void);

/* Forked child: the parent's thread is not here. */
void sp_end_gate_forked(void);

#endif
