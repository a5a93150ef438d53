/* SPDX-License-Identifier: Apache-2.0 */
#include "export/util/turn.h"

#include <pthread.h>

#include "sampler/base/compiler.h"

/*
 * A thread takes `queue` before `turn`. With `turn` alone, the thread that has just given the turn
 * away would as a rule get it again at once.
 */
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static SP_TLS bool is_mine;
static SP_TLS bool is_kept;

bool sp_turn_set(bool mine)
{
	bool had = is_mine;

	if (mine == had || is_kept)
		return had;
	is_mine = mine;
	if (mine) {
		(void)pthread_mutex_lock(&queue);
		(void)pthread_mutex_lock(&turn);
		(void)pthread_mutex_unlock(&queue);
	} else {
		(void)pthread_mutex_unlock(&turn);
	}
	return had;
}

void sp_turn_keep(void)
{
	is_kept = true;
}
