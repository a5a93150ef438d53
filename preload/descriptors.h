/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of descriptors for the background thread alone. In the shared one a host that closes all
 * descriptors, or reuses a number between two calls of ours, would close our file under us, or find
 * us closing its own; and its fcntl() locks would go with any file that we close. BG context.
 */
#ifndef SP_DESCRIPTORS_H
#define SP_DESCRIPTORS_H

/* First thing on the background thread. Where the kernel refuses, the table stays shared. */
void sp_descriptors_detach(void);

/*
 * Now and then: once the host's stderr is another file, ours is let go, so that nobody waits for its
 * end in vain, and messages of the background thread end with it. No file of ours gets its number.
 */
void sp_descriptors_check_stderr(void);

#endif
