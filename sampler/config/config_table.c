/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of config_table.h as data. Constant; read in INIT (capture), APP (parse). */
#include "sampler/config/config_table.h"

static const struct sp_config_choice sp_config_symbolize_choices[] = {
	{"full", SP_SYMBOLIZE_FULL},
	{"names", SP_SYMBOLIZE_NAMES},
	{"off", SP_SYMBOLIZE_OFF},
	{NULL, 0},
};
static const struct sp_config_choice sp_config_profile_choices[] = {
	{"on-span", SP_PROFILE_ON_SPAN},
	{"always", SP_PROFILE_ALWAYS},
	{NULL, 0},
};

static const struct sp_config_choice sp_config_protocol_choices[] = {
	{"push", SP_PROTOCOL_PUSH},
	{"ingest", SP_PROTOCOL_INGEST},
	{NULL, 0},
};

static const struct sp_config_choice sp_config_scope_choices[] = {
	{"root", SP_SCOPE_ROOT},
	{"all", SP_SCOPE_ALL},
	{"none", SP_SCOPE_NONE},
	{NULL, 0},
};

static const struct sp_config_choice sp_config_name_scope_choices[] = {
	{"auto", SP_SCOPE_AUTO},
	{"root", SP_SCOPE_ROOT},
	{"all", SP_SCOPE_ALL},
	{"none", SP_SCOPE_NONE},
	{NULL, 0},
};

static const struct sp_config_choice sp_config_active_choices[] = {
	{"auto", SP_ACTIVE_AUTO},
	{"scope", SP_ACTIVE_SCOPE},
	{"start", SP_ACTIVE_START},
	{"context", SP_ACTIVE_CONTEXT},
	{NULL, 0},
};

static const struct sp_config_choice sp_config_seccomp_choices[] = {
	{"ask", SP_SECCOMP_ASK},
	{"trust", SP_SECCOMP_TRUST},
	{NULL, 0},
};

static const struct sp_config_choice sp_config_unwind_choices[] = {
	{"auto", SP_UNWIND_AUTO},
	{"cfi", SP_UNWIND_CFI},
	{"snapshot", SP_UNWIND_SNAPSHOT},
	{NULL, 0},
};

static const struct sp_config_choice sp_config_attributes_choices[] = {
	{"always", SP_ATTRIBUTES_ALWAYS},
	{"with-samples", SP_ATTRIBUTES_WITH_SAMPLES},
	{"never", SP_ATTRIBUTES_NEVER},
	{NULL, 0},
};

/* The presets of preload/sdk/profile_url.c. */
static const struct sp_config_choice sp_config_link_choices[] = {
	{SP_PROFILE_URL_DEFAULT, 0},
	{"grafana-explore", 1},
	{"pyroscope-legacy", 2},
	{NULL, 0},
};

/* The later words are what other SDKs accept in OTEL_LOG_LEVEL and PYROSCOPE_LOG_LEVEL. */
static const struct sp_config_choice sp_config_level_choices[] = {
	{"none", SP_LOG_NONE},
	{"error", SP_LOG_ERROR},
	{"warn", SP_LOG_WARN},
	{"info", SP_LOG_INFO},
	{"debug", SP_LOG_DEBUG},
	{"off", SP_LOG_NONE},
	{"warning", SP_LOG_WARN},
	{"trace", SP_LOG_DEBUG},
	{"verbose", SP_LOG_DEBUG},
	{"all", SP_LOG_DEBUG},
	{NULL, 0},
};

// clang-format off
#define ROW_(id, type_, field_, ...) [SP_VAR_##id] = { \
	.type = SP_TYPE_##type_, .field = offsetof(struct sp_config, field_), __VA_ARGS__ },
// clang-format on

const struct sp_config_var sp_config_vars[SP_VAR_N] = {SP_FOR_EACH_CONFIG(ROW_)};
