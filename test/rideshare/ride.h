/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One order of the ride-sharing service: its spans and the CPU work inside them. Caller: server.c, on any request
 * thread.
 */
#ifndef RIDESHARE_RIDE_H
#define RIDESHARE_RIDE_H

#include <stddef.h>

enum ride_vehicle { RIDE_CAR, RIDE_BIKE, RIDE_SCOOTER, RIDE_VEHICLES };

/* The vehicle of a path such as "/car", or RIDE_VEHICLES. */
enum ride_vehicle ride_vehicle_of(const char *path);

/* Name of the span that covers the whole order, such as "OrderVehicle /car". */
const char *ride_span_name(enum ride_vehicle vehicle);

/*
 * Finds a vehicle; region may be NULL. remote_context as for otelc_start_span. Writes a line for the customer into
 * answer.
 */
void ride_order(void *tracer, enum ride_vehicle vehicle, const char *region,
		const char *remote_context, char *answer, size_t size);

#endif
