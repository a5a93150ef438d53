/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the storm: one round of each. */
#ifndef TEST_STORM_WORKERS_H
#define TEST_STORM_WORKERS_H

#include <stdatomic.h>

// clang-format off
#define FOR_EACH_WORKER(X) \
	X(churn) X(cancel) X(detach) X(forks) X(vforks) X(plugins) X(throws) X(phdrs) \
	X(contexts) X(faults) X(heap) X(masks) X(strikes)
// clang-format on

#ifdef __cplusplus
extern "C" {
#endif

#define DECLARE_WORKER_(name) void storm_##name(void);
FOR_EACH_WORKER(DECLARE_WORKER_)
#undef DECLARE_WORKER_

extern const char *storm_plugin;
extern int storm_signal;

#ifdef __cplusplus
}
#endif

#endif
