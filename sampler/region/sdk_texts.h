/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SDKs by number, for struct sp_span_start, with their names. A fact about one SDK says nothing
 * about another. Host and exporter refer to SDKs by these numbers. Any context.
 */
#ifndef SP_SDK_TEXTS_H
#define SP_SDK_TEXTS_H

enum sp_sdk {
	SP_SDK_UNNAMED,
	SP_SDK_OTELC,
	/* a number for each ABI version: two libraries that do not know of each other */
	SP_SDK_OTELCPP_V1,
	SP_SDK_OTELCPP_V2,
	SP_SDK_N,
};

struct sp_sdk_text {
	const char *name;
	const char *method; /* how its calls are seen, if nothing more precise is known */
};

/* How an instance of opentelemetry-cpp was reached. */
enum sp_sdk_way {
	SP_SDK_WAY_UNKNOWN,
	SP_SDK_WAY_NAMES, /* its vtables were found by their names */
	SP_SDK_WAY_TYPES, /* its vtables have no names: they were found by type information */
	SP_SDK_WAY_N,
};

/* A path, cut at its beginning if it is longer. */
#define SP_SDK_OBJECT_MAX 112U
/* "1.28.0"; with the NUL. */
#define SP_SDK_RELEASE_MAX 24U
/* Its service.name, with the NUL. */
#define SP_SDK_SERVICE_MAX 256U

/*
 * Our assumptions about SDKs that their interfaces do not promise. We check each when we first use
 * it, and report a failure: which SDK, which fact, and what happens instead.
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
	/* these are facts about the program, and not about the release of the SDK */
	SP_SDK_FACT_OWN_STORAGE,
	SP_SDK_FACT_INSTANCES,
	SP_SDK_FACT_N,
};

struct sp_sdk_fact_text {
	const char *name;
	const char *instead;
};

extern const struct sp_sdk_fact_text sp_sdk_fact_texts[SP_SDK_FACT_N];

/* By number; name is NULL for an unused number. */
extern const struct sp_sdk_text sp_sdk_texts[SP_SDK_N];

/* By enum sp_sdk_way; "" for SP_SDK_WAY_UNKNOWN. */
extern const char sp_sdk_way_texts[SP_SDK_WAY_N][64];

#endif
