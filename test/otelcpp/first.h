/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before all else by what is compiled with opentelemetry-cpp's headers here, and compiled once for all of it: what
 * these include of the standard library takes a third of the time of each file otherwise.
 *
 * The headers check the trace state of a remote parent by regular expressions, which each file would compile anew, in half
 * of its time. For compilers that cannot do that they have a plain loop, which is taken here.
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
