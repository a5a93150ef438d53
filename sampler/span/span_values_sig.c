/* SPDX-License-Identifier: Apache-2.0 */
/* The variable of span_values.h that the signal handler writes to. */
#include "sampler/span/span_values.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

_Atomic uint64_t *_Atomic sp_span_values_marked;
