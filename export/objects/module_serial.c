/* SPDX-License-Identifier: Apache-2.0 */
#include "export/objects/module_serial.h"

#include <stdbool.h>
#include <string.h>

#include "export/util/hash_index.h"

/* Objects beyond these get numbers that nobody else gets. */
#define KNOWN_MAX 4096U

/*
 * Two hashes of 64 bits over what distinguishes objects. They are too long to be equal by chance,
 * and somebody who makes them equal on purpose mixes up only the names in a profile of his own.
 */
static void identify(const struct sp_module *m, uint64_t key[2])
{
	key[0] = sp_hash_add_bytes(0, m->build_id, m->build_id_len);
	key[0] = sp_hash_add(key[0], m->bias);
	key[1] = sp_hash_add_bytes(key[0], &m->phdr, sizeof(m->phdr));
	key[1] = sp_hash_add_bytes(key[1], m->shown, strlen(m->shown));
}

uint32_t sp_module_serial(const struct sp_module *module)
{
	static struct {
		uint64_t key[2];
		uint32_t serial;
	} known[KNOWN_MAX];
	static struct sp_hash_index by_key;
	static uint32_t n;
	static uint32_t serials;
	uint64_t key[2];
	uint32_t i;

	/* Without a build id the path may be another file's by now. */
	if (module->build_id_len == 0)
		return ++serials;
	identify(module, key);
	for (uint32_t step = 0; sp_hash_index_next(&by_key, (uint32_t)key[1], &step, &i);)
		if (known[i].key[0] == key[0] && known[i].key[1] == key[1])
			return known[i].serial;
	serials++;
	if (n < KNOWN_MAX && sp_hash_index_put(&by_key, (uint32_t)key[1], n)) {
		memcpy(known[n].key, key, sizeof(key));
		known[n++].serial = serials;
	}
	return serials;
}
