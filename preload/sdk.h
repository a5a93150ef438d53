/* SPDX-License-Identifier: Apache-2.0 */
/* The SDKs by number, for struct sp_span_start: what one of them proves says nothing of another. */
#ifndef SP_SDK_H
#define SP_SDK_H

enum sp_sdk {
	SP_SDK_UNNAMED,
	SP_SDK_DORSAL,
	SP_SDK_OTELC,
	SP_SDK_OTELCPP_V1, /* by ABI version: two libraries that know nothing of each other */
	SP_SDK_OTELCPP_V2,
	SP_SDK_HAPROXY,
	SP_SDK_N,
};

struct sp_sdk_text {
	const char *name;
	const char *method; /* how its calls are seen */
};

/* By number; the name is NULL where there is none. */
extern const struct sp_sdk_text sp_sdk_texts[SP_SDK_N];

#endif
