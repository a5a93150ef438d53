/* SPDX-License-Identifier: Apache-2.0 */
/* One line per interval that lost something. Context: BG. Caller: main.c. */
#include "export/losses.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "export/say.h"

void sp_losses_tell(struct sp_losses *l, const struct sp_core_ops *ops)
{
	static const char *const name[] = {
#define SP_NAME_(id, text, is_loss) [SP_COUNT_##id] = (is_loss) == 1 ? (text) : NULL,
		SP_FOR_EACH_COUNTER(SP_NAME_)
#undef SP_NAME_
	};
	char text[800];
	size_t used = 0;

	for (unsigned i = 0; i < SP_COUNTER_N; i++) {
		uint64_t n = ops->counter_read((enum sp_counter)i);
		uint64_t grown = n - l->told[i];

		l->told[i] = n;
		if (name[i] == NULL || grown == 0 || used >= sizeof(text))
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s +%" PRIu64,
					 used != 0 ? ", " : "", name[i], grown);
	}
	if (used != 0)
		sp_say(ops, SP_LOG_WARN, "lost since the last upload: %s", text);
}
