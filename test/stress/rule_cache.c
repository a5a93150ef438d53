/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads store and find rules of the same few pcs at once. The words of each rule contain its pc and its identity,
 * so a torn one is noticed. Exit 0 if none was torn, and if some were found.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sampler/unwind/object_sig.h"
#include "sampler/unwind/rule_cache_sig.h"

#define THREADS 4
#define ROUNDS 200000U
#define PCS 7U
#define IDENTITIES 3U

static _Atomic unsigned long torn;
static _Atomic unsigned long found;

static struct sp_compact_rule rule_of(uintptr_t pc, uint64_t identity)
{
	struct sp_compact_rule rule;

	for (unsigned i = 0; i < SP_COMPACT_RULE_WORDS; i++)
		rule.word[i] = (pc * 31 + (identity & 0xff)) * (i + 1);
	return rule;
}

static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		seed = seed * 1103515245U + 12345U;
		uintptr_t pc = 0x1000 + (seed >> 16) % PCS;
		uint64_t identity = sp_object_mix(0, 1 + (seed >> 20) % IDENTITIES);
		struct sp_compact_rule want = rule_of(pc, identity);
		struct sp_compact_rule got;

		if (!sp_rule_cache_find(sp_rule_cache(), pc, identity, &got)) {
			sp_rule_cache_keep(pc, identity, &want);
			continue;
		}
		found++;
		torn += memcmp(&got, &want, sizeof(got)) != 0;
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];

	if (sp_rule_cache_init() != 0)
		return 1;
	for (uintptr_t i = 0; i < THREADS; i++) {
		if (pthread_create(&thread[i], NULL, work, (void *)(i + 1)) != 0)
			return 1;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("rule_cache: %lu found, %lu torn\n", found, torn);
	return torn == 0 && found > 0 ? 0 : 1;
}
