/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of rounds that differ by chance alone, as many as a build is worth. With the address sanitizer they take ten times
 * as long, and it looks for mistakes that nearly each of them would make.
 */
#ifndef SP_TEST_ROUNDS_H
#define SP_TEST_ROUNDS_H

#ifdef __SANITIZE_ADDRESS__
#define ROUNDS(n) ((n) / 5)
#else
#define ROUNDS(n) (n)
#endif

#endif
