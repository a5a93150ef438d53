// SPDX-License-Identifier: Apache-2.0
// C++ workloads of the single-step oracle: the two-phase unwinder of libgcc and the STL.
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "test/step/workloads.h"
}

namespace
{

volatile unsigned sink;

struct Guard {
	~Guard()
	{
		sink = sink + 1;
	}
};

__attribute__((noinline)) void thrower(int depth)
{
	Guard guard;

	if (depth == 0)
		throw std::runtime_error("single-stepped");
	thrower(depth - 1);
	sink = sink + 1;
}

__attribute__((noinline)) void rethrower()
{
	try {
		thrower(3);
	} catch (const std::logic_error &) {
		sink = 0;
	} catch (const std::exception &) {
		throw;
	}
}

} // namespace

void workload_throw(void)
{
	try {
		rethrower();
	} catch (const std::runtime_error &e) {
		sink = sink + static_cast<unsigned>(e.what()[0]);
	}
}

void workload_stl(void)
{
	std::map<std::string, std::vector<int>> map;
	std::ostringstream out;

	for (int i = 0; i < 12; i++)
		map["key" + std::to_string(i % 5)].push_back(i);
	for (const auto &entry : map)
		out << entry.first << '=' << entry.second.size() << ' ' << 1.5 << '\n';
	sink = static_cast<unsigned>(out.str().size());
}
