/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the background thread out of calls of the host that one thread more would spoil: the C
 * library changes users on every thread and ends the program if one of them is refused; the kernel
 * moves only processes of one thread into a user namespace. The thread really ends before such a
 * call, and is made anew by the host's thread after it, with what that one is by then.
 */
#ifndef SP_LEAVE_GATE_H
#define SP_LEAVE_GATE_H

#include <stdbool.h>

/* APP. There is to be a thread: to be called before it is created. */
void sp_leave_gate_present(void);
/* APP or BG. There is none, and none will come back by itself. */
void sp_leave_gate_absent(void);
/* Any context. There is one. */
bool sp_leave_gate_is_present(void);

/* BG, first thing: this is the thread. */
void sp_leave_gate_arrived(void);
/* BG. A call of the host waits for the thread's end. */
bool sp_leave_gate_asked(void);
/* BG, last thing: true if the thread has to end now; false if nobody waits for that any more. */
bool sp_leave_gate_go(void);

/*
 * APP, around the host's call. close() waits until the thread has ended, calling wake() now and then
 * to get it out of its sleep; false if it does not within the bound, five seconds. After open()
 * has said true the caller creates the thread.
 */
bool sp_leave_gate_close(void (*wake)(void));
bool sp_leave_gate_open(void);

/* Forked child: the parent's thread is not here. */
void sp_leave_gate_forked(void);

#endif
