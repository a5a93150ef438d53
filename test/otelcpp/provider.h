/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer provider of the stories: the distribution's SDK, or the small one of mini_sdk.cc. */
#ifndef TEST_OTELCPP_PROVIDER_H
#define TEST_OTELCPP_PROVIDER_H

/* Installs it; each ended span is appended as a line to the file that OTELC_SPANS_JSON names. */
void set_provider(bool sampled);

#ifdef MINI_RECORD_ONLY
#include <atomic>

extern std::atomic<unsigned long> spans_ended;
#endif

/* Shuts it down, but leaves it installed; only for the distribution's SDK. */
void shut_down_provider();

#endif
