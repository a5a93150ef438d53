/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the accounts that the signal handler writes (thread_account.h). Contexts: SIG, APP. */
#include "sampler/sampling/thread_account.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

_Atomic uint64_t sp_thread_accounted_ns;
