/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another SDK in the same process: before a story one of its spans starts on another thread, and one starts and ends
 * on the story's thread; after the story the same happens again.
 */
#ifndef TEST_CONFORMANCE_SECOND_H
#define TEST_CONFORMANCE_SECOND_H

#include "test/conformance/driver.h"

void second_begin(const struct driver *second);
void second_end(const struct driver *second);

#endif
