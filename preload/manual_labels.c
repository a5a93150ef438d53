/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions behind spanprof.h, for programs that label their own work. They are exported under
 * versioned names, so that a later header may call others. APP context.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/lifecycle/lifecycle.h"
#include "preload/spanprof.h"
#include "sampler/base/compiler.h"
#include "sampler/base/text.h"
#include "sampler/region/names.h"
#include "sampler/span/span.h"

/*
 * Reads the 16 hex digits of a span id into its 8 bytes in memory order; false if text is anything
 * else.
 */
static bool parse_id(const char *text, uint64_t *id)
{
	uint8_t byte[sizeof(*id)];

	if (text == NULL)
		return false;
	for (size_t i = 0; i < sizeof(byte); i++) {
		int high = sp_text_digit(text[2 * i]);
		int low = high >= 0 ? sp_text_digit(text[2 * i + 1]) : -1;

		if (low < 0)
			return false;
		byte[i] = (uint8_t)(high << 4 | low);
	}
	memcpy(id, byte, sizeof(*id));
	/* two values that are never the id of a span */
	return text[2 * sizeof(byte)] == '\0' && *id != 0 && *id != SP_SPAN_BLANK;
}

static int push(const char *profile_id, const char *name)
{
	uint64_t id;

	if (!parse_id(profile_id, &id))
		return EINVAL;
	if (!sp_lifecycle_start())
		return ENOSYS;
	return -sp_manual_label_show(
		id, sp_names_intern(name != NULL ? name : "", name != NULL ? strlen(name) : 0));
}

SP_EXPORT int spanprof_v1_label_push(const char *profile_id, const char *name)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	int saved = errno;
	int err;

	sp_manual_label_enter();
	err = push(profile_id, name);
	errno = saved;
	sp_reentrancy_guard_exit(g);
	return err;
}

SP_EXPORT void spanprof_v1_label_pop(void)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	(void)sp_manual_label_exit();
	sp_reentrancy_guard_exit(g);
}
