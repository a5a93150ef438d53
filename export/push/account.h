/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts each sample of a profile once, although several destinations get it: as sent when the
 * first destination takes it, as lost when the last destination loses it.
 *
 * Each destination goes through the samples of a profile in the same order, part by part. Parts
 * need not be the same.
 */
#ifndef SP_ACCOUNT_H
#define SP_ACCOUNT_H

#include <stdint.h>

struct sp_account;

/*
 * destinations: their number; they have the numbers from 0 on, and each of them holds the account.
 * NULL: out of memory.
 */
struct sp_account *sp_account_new(uint64_t samples, unsigned destinations);

/*
 * A destination has taken or lost all of the profile. The last one frees the account. No-op for
 * NULL.
 */
void sp_account_release(struct sp_account *a);

/*
 * The destination has taken, or lost, the next `samples` samples. Returns how many of them count as
 * sent, or as lost, from now on. a = NULL: there is only one destination, so all count.
 */
uint64_t sp_account_sent(struct sp_account *a, unsigned destination, uint64_t samples);
uint64_t sp_account_lost(struct sp_account *a, unsigned destination, uint64_t samples);

#endif
