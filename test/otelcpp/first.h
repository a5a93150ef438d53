/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included first by all files here that use opentelemetry-cpp's headers, and precompiled: otherwise the standard
 * library's headers would take a third of each file's compile time.
 *
 * The headers check the trace state of a remote parent by regular expressions, which each file would compile again,
 * in half of its time. For compilers without them the headers have a plain loop, which is used here.
 */
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <opentelemetry/common/macros.h>

#undef OPENTELEMETRY_HAVE_WORKING_REGEX
#define OPENTELEMETRY_HAVE_WORKING_REGEX 0
