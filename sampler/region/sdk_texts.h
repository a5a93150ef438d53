/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SDKs by number, for struct sp_span_start, with their names. Each is treated on its own: what
 * is proved of one says nothing about another. Host and exporter refer to them by these numbers.
 * Any context.
 */
#ifndef SP_SDK_TEXTS_H
#define SP_SDK_TEXTS_H

enum sp_sdk {
	SP_SDK_UNNAMED,
	SP_SDK_OTELC,
	SP_SDK_OTELCPP_V1, /* by ABI version: two libraries that know nothing of each other */
	SP_SDK_OTELCPP_V2,
	SP_SDK_N,
};

struct sp_sdk_text {
	const char *name;
	const char *method; /* how its calls are seen, if nothing better is known */
};

/* How an instance of opentelemetry-cpp was reached. */
enum sp_sdk_way {
	SP_SDK_WAY_UNKNOWN,
	SP_SDK_WAY_NAMES, /* its vtables were found by their names */
	SP_SDK_WAY_TYPES, /* it has no names: they were found by type information */
	SP_SDK_WAY_N,
};

/* A path, cut at its beginning if it is longer. */
#define SP_SDK_OBJECT_MAX 112U
/* "1.28.0"; with the NUL. */
#define SP_SDK_RELEASE_MAX 24U

/*
 * What we assume of SDKs beyond what their interface promises. Each fact is checked where it is
 * first used, and a failure is reported: which SDK, which fact, and what happens instead.
 */
enum sp_sdk_fact {
	SP_SDK_FACT_CLASS,
	SP_SDK_FACT_POINTER,
	SP_SDK_FACT_IDS,
	SP_SDK_FACT_SPAN,
	SP_SDK_FACT_PARENT,
	SP_SDK_FACT_CONTEXT,
	SP_SDK_FACT_TOKEN,
	SP_SDK_FACT_STORAGE,
	SP_SDK_FACT_NESTING,
	SP_SDK_FACT_RESOURCE,
	/* of the program, and so no facts of the release */
	SP_SDK_FACT_OWN_STORAGE,
	SP_SDK_FACT_INSTANCES,
	SP_SDK_FACT_N,
};

struct sp_sdk_fact_text {
	const char *name;
	const char *instead;
};

extern const struct sp_sdk_fact_text sp_sdk_fact_texts[SP_SDK_FACT_N];

/* By number; the name is NULL where there is none. */
extern const struct sp_sdk_text sp_sdk_texts[SP_SDK_N];

/* By enum sp_sdk_way; "" where it is unknown. */
extern const char sp_sdk_way_texts[SP_SDK_WAY_N][64];

#endif
