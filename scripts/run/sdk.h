/* SPDX-License-Identifier: Apache-2.0 */
/* The SDKs that the adapters of preload/ know, recognised in files by the same fingerprints. */
#ifndef SP_SDK_H
#define SP_SDK_H

#include <stdbool.h>
#include <stddef.h>

#include "scripts/run/elf_file.h"

enum sp_sdk_state {
	SP_SDK_HOOKED, /* how says by which method */
	SP_SDK_KNOWN,  /* it is there, and how says what stands in the way */
};

struct sp_sdk_found {
	const char *name;
	enum sp_sdk_state state;
	const char *how;
};

/* What an object is in the tree. */
struct sp_sdk_place {
	bool is_program; /* the first of the tree */
	bool own_getenv; /* the program has a function of this name, which all objects use then */
};

/* At most max findings about one object. Of the program it fills in own_getenv, so it comes first. */
size_t sp_sdk_look(const struct sp_elf *f, struct sp_sdk_place *place, struct sp_sdk_found *found,
		   size_t max);

/* The object defines the variable of OpenTelemetry's thread context, so it may publish its spans. */
bool sp_sdk_publishes(const struct sp_elf *f);

/* The object knows the names of variables that OpenTelemetry reads. */
bool sp_sdk_is_opentelemetry(const struct sp_elf *f);

#endif
