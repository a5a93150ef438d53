/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payment of an order: a ledger that one order at a time may write to, and an (imaginary) bank that takes its
 * time. Who writes to the ledger keeps it while it waits for the bank, which is the mistake that the demo's slow
 * spans are to tell of. Who calls: ride.c on any request thread, server.c.
 */
#ifndef RIDESHARE_BANK_H
#define RIDESHARE_BANK_H

#include <stdbool.h>
#include <stdint.h>

/* What the caller waited, by its own clock. */
struct bank_waits {
	uint64_t ledger_ns; /* for the lock */
	const char *holder; /* whose order had it when the wait began; NULL = nobody's */
	uint64_t bank_ns;   /* for the answer */
};

/* Before the first order; false with errno. The bank is a thread behind a socket, and ends with the process. */
bool bank_open(void);

/* Of an order with that name. asks: the bank has to be asked for the money. */
void bank_charge(const char *order, bool asks, struct bank_waits *waits);

#endif
