/* SPDX-License-Identifier: Apache-2.0 */
/* The workloads of the single-step oracle: code of the C and C++ libraries and of the dynamic loader. */
#ifndef STEP_WORKLOADS_H
#define STEP_WORKLOADS_H

#include <stdbool.h>

struct workload {
	const char *name;
	void (*run)(void);
	bool warm;      /* run once at full speed first: its long set-up does not matter */
	unsigned every; /* one step in this many is checked */
};

extern const struct workload workloads[];
extern const unsigned workloads_n;

/* In crypto.c: hash and cipher kernels of libcrypto, if it is installed. */
void workload_crypto(void);
/* The same for its public-key functions: signatures by RSA and on P-256. */
void workload_rsa(void);
void workload_p256(void);
/* In throw.cc: throws, catches and rethrows through frames with destructors. */
void workload_throw(void);
/* In throw.cc: containers and strings. */
void workload_stl(void);

#endif
