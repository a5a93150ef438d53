/* SPDX-License-Identifier: Apache-2.0 */
/* The process that the sampler was set up in. Contexts: any; adopt in APP (activation) and INIT. */
#include "sampler/process.h"

#include <sys/types.h>
#include <unistd.h>

static pid_t owner; /* 0 = none yet */

void sp_process_adopt(void)
{
	owner = getpid();
}

bool sp_process_is_ours(void)
{
	return getpid() == owner;
}
