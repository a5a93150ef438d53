/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of rounds of a random test in a build. With the address sanitizer a round takes ten times as long, and
 * the faults that it finds would show in nearly each round.
 */
#ifndef SP_TEST_ROUNDS_H
#define SP_TEST_ROUNDS_H

#ifdef __SANITIZE_ADDRESS__
#define ROUNDS(n) ((n) / 5)
#else
#define ROUNDS(n) (n)
#endif

#endif
