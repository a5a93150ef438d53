/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The count of seccomp filters that the process has put over itself (seccomp.h). Context: APP,
 * async-signal-safe.
 */
#include "sampler/base/seccomp.h"

_Atomic uint32_t sp_seccomp_filters;

void sp_seccomp_begin(void)
{
	/* pairs with the start of sampling (preload/lifecycle/lifecycle.c) */
	atomic_fetch_add_explicit(&sp_seccomp_filters, 1, memory_order_seq_cst);
}

void sp_seccomp_take_back(void)
{
	atomic_fetch_sub_explicit(&sp_seccomp_filters, 1, memory_order_relaxed);
}
