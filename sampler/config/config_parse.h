/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses one value: the result is a number or a text, or the reason why it is invalid. INIT and
 * APP; no state.
 */
#ifndef SP_CONFIG_PARSE_H
#define SP_CONFIG_PARSE_H

#include "sampler/config/config_table.h"

struct sp_config_value {
	uint32_t number;  /* bool, enum, integer, duration, signal */
	const char *text; /* every other type; the given text or a constant */
	char why[112];    /* what is wrong, to follow a name or a quoted value: "is not ..." */
};

/* 0, or -EINVAL with v->why written. */
int sp_config_parse_value(const struct sp_config_var *var, enum sp_config_form form,
			  const char *text, struct sp_config_value *v);

/* Case-insensitive for ASCII, blanks around text ignored. */
bool sp_config_is_word(const char *text, const char *word);

#endif
