/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the exporter a span name. The record goes into the ring first and then the name is marked, so
 * whoever finds the mark puts its sample behind the record.
 *
 * Runs inside the sampling signal on the sampled thread, or elsewhere: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/region/names.h"

#include "sampler/region/ring.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

_Atomic(struct sp_names *) sp_names;

SP_SIGSAFE bool sp_names_tell(struct sp_channel *o, uint32_t id)
{
	struct sp_name *name = sp_names_of(id);
	struct sp_name_head head;
	struct sp_ring_part part[2];

	/* pairs with the release below: the record is in the ring */
	if (name == NULL || atomic_load_explicit(&name->told, memory_order_acquire) == o->number)
		return true;
	head = (struct sp_name_head){id, name->len};
	part[0] = (struct sp_ring_part){&head, sizeof(head)};
	part[1] = (struct sp_ring_part){name->bytes, SP_NAME_WORDS(name->len)};
	if (sp_ring_put_parts(&o->names, SP_RECORD_NAME, part, 2) != 0)
		return false;
	atomic_store_explicit(&name->told, o->number, memory_order_release);
	return true;
}
