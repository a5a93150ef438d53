/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-preload: the object in /etc/ld.so.preload, for every program of a machine. */
#ifndef SP_PRELOAD_H
#define SP_PRELOAD_H

/* The arguments behind the name of the program. Returns its exit status. */
int sp_preload(int argc, char **argv);

#endif
