/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses one value: the result is a number or a text, or the reason why it is invalid. Reads the OTel
 * resource. INIT and APP; no state.
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

struct sp_config_resource {
	const char *service_name; /* decoded, in the caller's buffer; NULL = not given or empty */
	const char *service_namespace;
	struct sp_config_attribute label[SP_RESOURCE_LABELS_MAX]; /* up to a NULL key */
};

/*
 * Reads OTEL_RESOURCE_ATTRIBUTES: percent-decoded, the last of equal keys wins. NULL, or what is
 * wrong, and then *r is empty: OTel discards the whole value for one error. buf needs
 * strlen(text) + 2 bytes. wanted: key,key of those that are to be labels; NULL = none.
 */
const char *sp_config_resource_read(const char *text, const char *wanted, char *buf,
				    struct sp_config_resource *r);

/* 1500 -> "1500ms", 15000 -> "15s", 600000 -> "10m". Returns buf. */
const char *sp_config_duration(uint32_t ms, char buf[16]);

#endif
