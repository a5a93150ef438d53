/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payment of an order: a ledger to which one order at a time may write, and an (imaginary) slow bank. An order
 * holds the ledger while it waits for the bank, which is the fault that the demo's slow spans show. Callers: ride.c
 * on any request thread, server.c.
 */
#ifndef RIDESHARE_BANK_H
#define RIDESHARE_BANK_H

#include <stdbool.h>
#include <stdint.h>

/* The caller's waiting time, by its own clock. */
struct bank_waits {
	uint64_t ledger_ns; /* for the lock */
	const char *holder; /* the order that held it when the wait began; NULL = none */
	uint64_t bank_ns;   /* for the answer */
};

/*
 * Called before the first order; false with errno. The bank is a thread behind a socket, and ends with the process.
 */
bool bank_open(void);

/* Charges an order with that name. asks: the bank must be asked for the money. */
void bank_charge(const char *order, bool asks, struct bank_waits *waits);

#endif
