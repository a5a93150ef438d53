#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Spans of an SDK that came with a plugin, opened with RTLD_LOCAL, are profiled like any other.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
mkdir "$WORK/profiles"
run plain "$HOSTS/plugin_host" "$TEST_LIBS/libplugin.so" "of the plugin" 250
expect_rc plain 16
run_under under SPANPROF_OUTPUT_DIR="$WORK/profiles" OTELC_SPANS_JSON="$WORK/spans" \
	"$HOSTS/plugin_host" "$TEST_LIBS/libplugin.so" "of the plugin" 250
expect_same plain under out err rc
report "$WORK/profiles" "$WORK/report.json"
python3 "$CHECK" spans "$WORK/report.json" "$WORK/spans" root
expect "$WORK/report.json" '[n["span_name"] for n in d["span_names"] if n["span_name"]] == ["of the plugin"]'
expect "$WORK/report.json" 'd["labelled"]["ns"] > 200e6'
