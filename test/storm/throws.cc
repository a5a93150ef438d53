// SPDX-License-Identifier: Apache-2.0
// C++ exceptions: in the storm's program, and in the object that it opens and closes.
#include "test/storm/workers.h"

#include <stdexcept>
#include <string>

static long deep(int n)
{
	std::string holds(static_cast<size_t>(n) + 20, 'x');

	if (n == 0)
		throw std::runtime_error(holds);
	return deep(n - 1) + static_cast<long>(holds.size());
}

extern "C" int storm_throw_once()
{
	try {
		return deep(12) > 0;
	} catch (const std::exception &) {
		return 2;
	}
}

extern "C" void storm_throws()
{
	for (int i = 0; i < 50; i++)
		storm_throw_once();
}
