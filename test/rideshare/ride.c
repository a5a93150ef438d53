/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of an order: real computation in well-named functions, so that its flame graph is readable, with libc and
 * libm below them. The amounts are constants; the caller measures, rather than assumes, what an order costs on the
 * present machine. Runs on the server's request threads.
 */
#include "test/rideshare/ride.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/rideshare/bank.h"
#include "test/sdk/opentelemetry_c.h"

/* Inlined functions would be missing in the flame graph of a build without debug information. */
#define FRAME __attribute__((noinline))

#define DRIVERS 1000
#define EARTH_RADIUS_KM 6371.0
#define DEGREE 0.017453292519943295

/* Rounds of work per order; a round takes a fraction of a millisecond. */
#define SEARCH_ROUNDS_SCOOTER 75
#define SEARCH_ROUNDS_BIKE 150
#define SEARCH_ROUNDS_CAR 150
#define CHECK_ROUNDS 45
#define CHECK_ROUNDS_SLOW_REGION 90

static const char SLOW_REGION[] = "eu-north";

struct driver {
	uint32_t id;
	double latitude;
	double longitude;
	double distance_km;
};

static const struct {
	const char *path;
	const char *span_name;
	unsigned search_rounds;
} VEHICLE[RIDE_VEHICLES] = {
	[RIDE_CAR] = {"/car", "OrderVehicle /car", SEARCH_ROUNDS_CAR},
	[RIDE_BIKE] = {"/bike", "OrderVehicle /bike", SEARCH_ROUNDS_BIKE},
	[RIDE_SCOOTER] = {"/scooter", "OrderVehicle /scooter", SEARCH_ROUNDS_SCOOTER},
};

enum ride_vehicle ride_vehicle_of(const char *path)
{
	for (int v = 0; v < RIDE_VEHICLES; v++)
		if (strcmp(path, VEHICLE[v].path) == 0)
			return (enum ride_vehicle)v;
	return RIDE_VEHICLES;
}

const char *ride_span_name(enum ride_vehicle vehicle)
{
	return VEHICLE[vehicle].span_name;
}

/* splitmix64: the same drivers for every client, without shared state between threads. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15U;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return z ^ (z >> 31);
}

/* A number in [0, 1). */
static double next_fraction(uint64_t *state)
{
	return (double)(next_random(state) >> 11) * 0x1p-53;
}

static FRAME void locate_drivers(struct driver *drivers, uint64_t *seed)
{
	for (uint32_t i = 0; i < DRIVERS; i++) {
		drivers[i].id = i;
		drivers[i].latitude = 59.0 + next_fraction(seed);
		drivers[i].longitude = 18.0 + next_fraction(seed);
	}
}

static FRAME double great_circle_km(double lat1, double lon1, double lat2, double lon2)
{
	double dlat = sin((lat2 - lat1) * DEGREE / 2);
	double dlon = sin((lon2 - lon1) * DEGREE / 2);
	double a = dlat * dlat + cos(lat1 * DEGREE) * cos(lat2 * DEGREE) * dlon * dlon;

	return 2 * EARTH_RADIUS_KM * asin(sqrt(a));
}

static FRAME int nearer(const void *left, const void *right)
{
	const struct driver *l = left;
	const struct driver *r = right;

	return (l->distance_km > r->distance_km) - (l->distance_km < r->distance_km);
}

static FRAME void rank_drivers(struct driver *drivers)
{
	for (int i = 0; i < DRIVERS; i++)
		drivers[i].distance_km =
			great_circle_km(59.5, 18.5, drivers[i].latitude, drivers[i].longitude);
	qsort(drivers, DRIVERS, sizeof(*drivers), nearer);
}

static FRAME struct driver find_nearest_vehicle(unsigned rounds)
{
	struct driver *drivers = calloc(DRIVERS, sizeof(*drivers));
	struct driver best = {.distance_km = HUGE_VAL};
	uint64_t seed = 1;

	for (unsigned i = 0; drivers != NULL && i < rounds; i++) {
		locate_drivers(drivers, &seed);
		rank_drivers(drivers);
		if (drivers[0].distance_km < best.distance_km)
			best = drivers[0];
	}
	free(drivers);
	return best;
}

/* The schedule of a driver as the (imaginary) dispatch service sends it: text. */
static FRAME void format_schedule(char *text, size_t size, const struct driver *driver,
				  unsigned hour)
{
	snprintf(text, size, "%.6f;%.6f;%02u:%02u;%u", driver->latitude, driver->longitude,
		 hour % 24, hour * 7 % 60, driver->id);
}

static FRAME double parse_schedule(const char *text)
{
	char *end = NULL;
	double latitude = strtod(text, &end);
	double longitude = *end == ';' ? strtod(end + 1, &end) : 0;

	return latitude * longitude;
}

static FRAME unsigned check_driver_availability(const struct driver *driver, unsigned rounds)
{
	unsigned available = 0;
	char text[96];

	for (unsigned hour = 0; hour < rounds * 600; hour++) {
		format_schedule(text, sizeof(text), driver, hour);
		available += parse_schedule(text) > 0;
	}
	return available;
}

static void *start(void *tracer, const char *name)
{
	return otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);
}

static int64_t time_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The order's times, by our own clocks. */
static void set_truth(void *span, int64_t order, int64_t cpu, const struct bank_waits *waits)
{
	void *attributes = otelc_create_attr_map();

	otelc_set_int64_t_attr(attributes, "ride.order_ns", order);
	otelc_set_int64_t_attr(attributes, "ride.cpu_ns", cpu);
	otelc_set_int64_t_attr(attributes, "ride.ledger_ns", (int64_t)waits->ledger_ns);
	otelc_set_int64_t_attr(attributes, "ride.bank_ns", (int64_t)waits->bank_ns);
	if (waits->holder != NULL)
		otelc_set_str_attr(attributes, "ride.ledger_holder", waits->holder);
	otelc_set_span_attrs(span, attributes);
	otelc_destroy_attr_map(attributes);
}

static void set_order_attributes(void *span, enum ride_vehicle vehicle, const char *region)
{
	void *attributes = otelc_create_attr_map();

	otelc_set_str_attr(attributes, "vehicle", VEHICLE[vehicle].path + 1);
	otelc_set_str_attr(attributes, "region", region);
	otelc_set_span_attrs(span, attributes);
	otelc_destroy_attr_map(attributes);
}

void ride_order(void *tracer, enum ride_vehicle vehicle, const char *region,
		const char *remote_context, char *answer, size_t size)
{
	const char *where = region != NULL ? region : "unknown";
	unsigned checks = strcmp(where, SLOW_REGION) == 0 ? CHECK_ROUNDS_SLOW_REGION : CHECK_ROUNDS;
	unsigned available = 0;
	struct bank_waits waits = {0, NULL, 0};
	int64_t begun = time_of(CLOCK_MONOTONIC);
	int64_t begun_cpu = time_of(CLOCK_THREAD_CPUTIME_ID);
	void *order = otelc_start_span(tracer, VEHICLE[vehicle].span_name, OTELC_SPAN_KIND_SERVER,
				       remote_context);
	void *find = start(tracer, "FindNearestVehicle");
	struct driver best = find_nearest_vehicle(VEHICLE[vehicle].search_rounds);

	set_order_attributes(order, vehicle, where);
	/* Bikes and scooters have no driver. */
	if (vehicle == RIDE_CAR) {
		void *check = start(tracer, "CheckDriverAvailability");

		available = check_driver_availability(&best, checks);
		otelc_end_span(check);
	}
	otelc_end_span(find);
	/* Payments there use one ledger; customers who rent a scooter must pay at once. */
	if (strcmp(where, SLOW_REGION) == 0) {
		void *settle = start(tracer, "SettlePayment");

		bank_charge(VEHICLE[vehicle].span_name, vehicle == RIDE_SCOOTER, &waits);
		otelc_end_span(settle);
	}
	set_truth(order, time_of(CLOCK_MONOTONIC) - begun,
		  time_of(CLOCK_THREAD_CPUTIME_ID) - begun_cpu, &waits);
	otelc_end_span(order);
	snprintf(answer, size, "%s %u in %s, %.3f km away, %u free slots\n",
		 VEHICLE[vehicle].path + 1, best.id, where, best.distance_km, available);
}
