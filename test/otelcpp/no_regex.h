/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before all else by what is compiled with opentelemetry-cpp's API here. Its headers check the trace state of a
 * remote parent by regular expressions, which each file would compile anew, in half of its time. For compilers that cannot
 * do that they have a plain loop, which is taken here.
 */
#include <opentelemetry/common/macros.h>

#undef OPENTELEMETRY_HAVE_WORKING_REGEX
#define OPENTELEMETRY_HAVE_WORKING_REGEX 0
