/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SDK's ostream exporter borrows its stream; this one owns the file behind it and flushes it after every batch,
 * so that a reader need not wait for the end of the process.
 */
#include "test/sdk/exporters.h"

#include <fstream>
#include <iostream>

#include <opentelemetry/exporters/ostream/span_exporter.h>

namespace sdk = opentelemetry::sdk;
namespace nostd = opentelemetry::nostd;

namespace
{

class TextExporter final : public sdk::trace::SpanExporter
{
      public:
	explicit TextExporter(const std::string &path)
		: file_(path == "stderr" ? std::string() : path, std::ios::app),
		  stream_(path == "stderr" ? std::cerr : file_), printer_(stream_)
	{
	}

	std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override
	{
		return printer_.MakeRecordable();
	}

	sdk::common::ExportResult
	Export(const nostd::span<std::unique_ptr<sdk::trace::Recordable>> &spans) noexcept override
	{
		sdk::common::ExportResult result = printer_.Export(spans);

		stream_.flush();
		return stream_ ? result : sdk::common::ExportResult::kFailure;
	}

	bool ForceFlush(std::chrono::microseconds timeout) noexcept override
	{
		return printer_.ForceFlush(timeout);
	}

	bool Shutdown(std::chrono::microseconds timeout) noexcept override
	{
		return printer_.Shutdown(timeout);
	}

      private:
	std::ofstream file_;
	std::ostream &stream_;
	opentelemetry::exporter::trace::OStreamSpanExporter printer_;
};

} // namespace

std::unique_ptr<sdk::trace::SpanExporter> new_text_exporter(const std::string &path)
{
	return std::unique_ptr<sdk::trace::SpanExporter>(new TextExporter(path));
}
