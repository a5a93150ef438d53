/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two exporters that write into files, and one that drops all spans. Callers: provider.cc; from then on the SDK's
 * own export thread.
 */
#ifndef SP_TEST_EXPORTERS_H
#define SP_TEST_EXPORTERS_H

#include <memory>
#include <string>

#include <opentelemetry/sdk/trace/exporter.h>

/* opentelemetry-cpp's ostream exporter, appending to path; "stderr" is standard error. */
std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> new_text_exporter(const std::string &path);

/*
 * One JSON object per span and line. Appends with one write(2) per span, so several processes can
 * share the file.
 */
std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> new_json_exporter(const std::string &path);

std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> new_drop_exporter();

#endif
