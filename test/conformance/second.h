/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another SDK in the same process: before a story one of its spans begins on a thread of its own,
 * and one comes and goes on the story's thread; after the story it is the same again.
 */
#ifndef TEST_CONFORMANCE_SECOND_H
#define TEST_CONFORMANCE_SECOND_H

#include "test/conformance/driver.h"

void second_begin(const struct driver *second);
void second_end(const struct driver *second);

#endif
