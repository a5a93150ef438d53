/* SPDX-License-Identifier: Apache-2.0 */
#include "export/push/push.h"

#include <stdlib.h>

#include "export/push/account.h"

/* sp_push_run() returns to its caller after this many requests have ended. */
#define SP_PUSH_ROUND 32U

struct sp_push {
	struct sp_destination *destination[SP_SERVERS_MAX];
	unsigned n;
	unsigned first; /* the destination that sp_push_run() begins with */
};

struct sp_push *sp_push_new(const struct sp_core_ops *ops, const struct sp_push_env env[],
			    unsigned n, const struct sp_push_limits *limits)
{
	struct sp_push *p = calloc(1, sizeof(*p));

	for (unsigned i = 0; p != NULL && i < n; i++) {
		p->destination[p->n] = sp_destination_new(ops, &env[i], limits, i, n);
		if (p->destination[p->n++] == NULL) {
			sp_push_free(p);
			p = NULL;
		}
	}
	return p;
}

void sp_push_free(struct sp_push *p)
{
	if (p == NULL)
		return;
	while (p->n != 0)
		sp_destination_free(p->destination[--p->n]);
	free(p);
}

void sp_push_serve(struct sp_push *p, const struct sp_core_ops *ops, uint32_t living,
		   uint32_t ended)
{
	for (unsigned i = 0; i < p->n; i++)
		sp_destination_serve(p->destination[i], ops, living, ended);
}

/* There is no memory to send the profile to several servers, so it is lost for all. */
static void lose(const struct sp_push *p, struct sp_origin *origin,
		 const struct sp_message *message)
{
	bool is_of_waits = sp_profile_type_row(message->type)->is_of_waits;
	const struct sp_loss loss = {
		.cause = SP_LOSS_QUEUE_FULL,
		.profiles = 1,
		.samples = is_of_waits ? 0 : message->samples,
		.waits = is_of_waits ? message->samples : 0,
	};

	for (unsigned i = 0; i < p->n; i++) {
		origin->delivery[i].samples_lost += loss.samples;
		origin->delivery[i].waits_lost += loss.waits;
	}
	sp_losses_add(&origin->losses, origin->ops, &loss);
}

void sp_push_put(struct sp_push *p, struct sp_origin *origin, const struct sp_message *message,
		 uint64_t born_ns)
{
	struct sp_message copy[SP_SERVERS_MAX] = {*message};
	struct sp_account *account = NULL;

	if (p->n > 1) {
		account = sp_account_new(message->samples, p->n);
		if (account == NULL || sp_message_share(copy, p->n) != 0) {
			lose(p, origin, message);
			for (unsigned i = 0; account != NULL && i < p->n; i++)
				sp_account_release(account);
			sp_message_fini(&copy[0]);
			return;
		}
	}
	for (unsigned i = 0; i < p->n; i++)
		sp_destination_put(p->destination[i], origin, &copy[i], born_ns, account);
}

void sp_push_run(struct sp_push *p)
{
	/*
	 * A destination may take long, for example to cut a profile, so each call begins with
	 * another one.
	 */
	for (unsigned i = 0; i < p->n; i++)
		sp_destination_run(p->destination[(p->first + i) % p->n], SP_PUSH_ROUND / p->n);
	p->first++;
}

void sp_push_flush(struct sp_push *p, bool is_awaited)
{
	for (unsigned i = 0; i < p->n; i++)
		sp_destination_flush(p->destination[i], is_awaited);
}

bool sp_push_flushed(struct sp_push *p)
{
	bool is_over = true;

	for (unsigned i = 0; i < p->n; i++)
		is_over = sp_destination_flushed(p->destination[i]) && is_over;
	for (unsigned i = 0; i < p->n && is_over; i++)
		sp_destination_log_unsent(p->destination[i]);
	return is_over;
}

void sp_push_resume(struct sp_push *p)
{
	for (unsigned i = 0; i < p->n; i++)
		sp_destination_resume(p->destination[i]);
}

void sp_push_count_unsent(struct sp_push *p)
{
	for (unsigned i = 0; i < p->n; i++)
		sp_destination_count_unsent(p->destination[i]);
}

void sp_push_abandon(struct sp_push *p)
{
	for (unsigned i = 0; i < p->n; i++)
		sp_destination_abandon(p->destination[i]);
}

static uint32_t requests(const struct sp_push *p)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += sp_destination_requests(p->destination[i]);
	return n;
}

uint32_t sp_push_due_ms(const struct sp_push *p)
{
	uint32_t due = UINT32_MAX;

	for (unsigned i = 0; i < p->n; i++) {
		uint32_t ms = sp_destination_due_ms(p->destination[i]);

		due = ms < due ? ms : due;
	}
	return due;
}

uint32_t sp_push_queued(const struct sp_push *p)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += sp_destination_queued(p->destination[i]);
	return n;
}

uint64_t sp_push_moves(const struct sp_push *p)
{
	uint64_t attempts = 0;

	for (unsigned i = 0; i < p->n; i++)
		attempts += sp_destination_results(p->destination[i])->attempts;
	return attempts << 32 | (uint64_t)sp_push_queued(p) << 8 | requests(p);
}

const struct sp_push_results *sp_push_results(const struct sp_push *p, unsigned destination)
{
	return sp_destination_results(p->destination[destination]);
}
