/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer provider of the stories: the distribution's SDK, or the small one of mini_sdk.cc. */
#ifndef TEST_OTELCPP_PROVIDER_H
#define TEST_OTELCPP_PROVIDER_H

/* Installs it; ended spans are appended to the file that OTELC_SPANS_JSON names, one per line. */
void set_provider(bool sampled);

#ifdef MINI_RECORD_ONLY
#include <atomic>

extern std::atomic<unsigned long> spans_ended;
#endif

/* Shuts it down, but leaves it installed; only the distribution's. */
void shut_down_provider();

#endif
