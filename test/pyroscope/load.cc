// SPDX-License-Identifier: Apache-2.0
//
// The load of the table in README.md: 850 orders a minute, each a root of one of three names with a child, that use some
// 10 ms of CPU time in the C++ library. load.go does the same with Go's clients. Usage: load SECONDS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

namespace shop
{

static void *tracer;

struct Driver {
	std::string name;
	int distance;
};

__attribute__((noinline)) static std::vector<Driver> list_drivers(int seed)
{
	std::vector<Driver> drivers;

	for (int i = 0; i < 300; i++)
		drivers.push_back({"driver-" + std::to_string((i * 7919 + seed) % 10007),
				   (i * 31 + seed) % 997});
	return drivers;
}

__attribute__((noinline)) static void sort_by_distance(std::vector<Driver> &drivers)
{
	std::sort(drivers.begin(), drivers.end(),
		  [](const Driver &a, const Driver &b) { return a.distance < b.distance; });
}

__attribute__((noinline)) static size_t count_names(const std::vector<Driver> &drivers)
{
	std::map<std::string, int> names;

	for (const Driver &d : drivers)
		names[d.name]++;
	return names.size();
}

__attribute__((noinline)) static void find_nearest_vehicle(int64_t until_ns)
{
	void *span =
		otelc_start_span(tracer, "FindNearestVehicle", OTELC_SPAN_KIND_INTERNAL, nullptr);

	for (int seed = 0; host_cpu_ns() < until_ns; seed++) {
		std::vector<Driver> drivers = list_drivers(seed);

		sort_by_distance(drivers);
		HOST_CHECK(count_names(drivers) > 0);
	}
	otelc_end_span(span);
}

__attribute__((noinline)) static void order_vehicle(const char *name, int ms)
{
	int64_t until_ns = host_cpu_ns() + ms * 1000000LL;
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_SERVER, nullptr);

	find_nearest_vehicle(until_ns);
	otelc_end_span(span);
}

} // namespace shop

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int ms;
	} order[] = {
		{"OrderVehicle /car", 16}, {"OrderVehicle /bike", 8}, {"OrderVehicle /scooter", 6}};
	const auto pace = std::chrono::microseconds(60000000 / 850);
	const int n = (argc > 1 ? atoi(argv[1]) : 60) * 850 / 60;
	auto next = std::chrono::steady_clock::now();

	otelc_init_tracer_provider("load", "1.0", "test", "");
	shop::tracer = otelc_get_tracer();
	for (int i = 0; i < n; i++) {
		shop::order_vehicle(order[i % 3].name, order[i % 3].ms);
		next += pace;
		std::this_thread::sleep_until(next);
	}
	printf("%d roots, %.1f s of CPU time\n", n, static_cast<double>(host_cpu_ns()) / 1e9);
	return 0;
}
