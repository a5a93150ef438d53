/* SPDX-License-Identifier: Apache-2.0 */
/* An exporter that takes every span and stores none: only the SDK's own work remains. */
#include "test/sdk/exporters.h"

#include <opentelemetry/sdk/trace/span_data.h>

namespace sdk = opentelemetry::sdk;
namespace nostd = opentelemetry::nostd;

namespace
{

class DropExporter final : public sdk::trace::SpanExporter
{
      public:
	std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override
	{
		return std::unique_ptr<sdk::trace::Recordable>(new sdk::trace::SpanData());
	}

	sdk::common::ExportResult
	Export(const nostd::span<std::unique_ptr<sdk::trace::Recordable>> &) noexcept override
	{
		return sdk::common::ExportResult::kSuccess;
	}

	bool ForceFlush(std::chrono::microseconds) noexcept override
	{
		return true;
	}

	bool Shutdown(std::chrono::microseconds) noexcept override
	{
		return true;
	}
};

} // namespace

std::unique_ptr<sdk::trace::SpanExporter> new_drop_exporter()
{
	return std::unique_ptr<sdk::trace::SpanExporter>(new DropExporter());
}
