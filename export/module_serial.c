/* SPDX-License-Identifier: Apache-2.0 */
#include "export/module_serial.h"

#include <stddef.h>

/* A power of two. Beyond half of it objects get numbers that nobody else gets. */
#define SLOTS 8192U

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
	for (const unsigned char *at = bytes; len != 0; at++, len--)
		hash = (hash ^ *at) * UINT64_C(0x100000001b3);
	return hash;
}

/*
 * Two hashes of 64 bits, over what tells objects apart: to be the same by chance takes more objects than
 * there are, and who makes them the same on purpose mixes up the names of his own profile.
 */
static void identify(const struct sp_module *m, uint64_t key[2])
{
	key[0] = mix(UINT64_C(0xcbf29ce484222325), m->build_id, m->build_id_len);
	key[0] = mix(key[0], &m->bias, sizeof(m->bias));
	key[1] = mix(key[0] ^ UINT64_C(0x9e3779b97f4a7c15), &m->phdr, sizeof(m->phdr));
	for (const char *at = m->shown; *at != '\0'; at++)
		key[1] = mix(key[1], at, 1);
}

uint32_t sp_module_serial(const struct sp_module *module)
{
	static struct {
		uint64_t key[2];
		uint32_t serial; /* 0 = free */
	} slot[SLOTS];
	static uint32_t used;
	static uint32_t serials;
	uint64_t key[2];
	uint32_t at;

	/* Without a build id another file may have that path by now. */
	if (module->build_id_len == 0)
		return ++serials;
	identify(module, key);
	at = (uint32_t)(key[0] ^ key[1] >> 32) % SLOTS;
	for (; slot[at].serial != 0; at = (at + 1) % SLOTS)
		if (slot[at].key[0] == key[0] && slot[at].key[1] == key[1])
			return slot[at].serial;
	serials++;
	if (used < SLOTS / 2) {
		used++;
		slot[at].key[0] = key[0];
		slot[at].key[1] = key[1];
		slot[at].serial = serials;
	}
	return serials;
}
