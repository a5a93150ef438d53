/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the values that stay text, and reads the OTel resource. INIT and APP; no state. */
#ifndef SP_CONFIG_TEXT_H
#define SP_CONFIG_TEXT_H

#include "sampler/config/config_table.h"

/* NULL if text is good for a type that stays text, else what is wrong, without the value. */
const char *sp_config_check_text(enum sp_config_type type, const char *text);

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
