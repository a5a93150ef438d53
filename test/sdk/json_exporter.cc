/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans as JSON lines, with which the tests and the demo compare profiles. Keys: name, trace_id, span_id,
 * parent_span_id ("" for a root), kind, status, start_ns, end_ns (Unix time), service, pid, attributes. Runs on the
 * SDK's export thread, or on the ending thread with the simple processor.
 */
#include "test/sdk/exporters.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include <fcntl.h>
#include <unistd.h>

#include <opentelemetry/sdk/trace/span_data.h>

namespace sdk = opentelemetry::sdk;
namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;

namespace
{

std::string json_string(const char *text, size_t len)
{
	std::string out = "\"";

	for (size_t i = 0; i < len; i++) {
		unsigned char c = static_cast<unsigned char>(text[i]);
		char escape[8];

		if (c == '"' || c == '\\') {
			out += '\\';
			out += static_cast<char>(c);
		} else if (c < 0x20) {
			std::snprintf(escape, sizeof(escape), "\\u%04x", c);
			out += escape;
		} else {
			out += static_cast<char>(c);
		}
	}
	return out + '"';
}

std::string json_string(const std::string &text)
{
	return json_string(text.data(), text.size());
}

/* Turns any attribute value into JSON; arrays become JSON arrays. */
struct JsonValue {
	std::string operator()(bool v) const
	{
		return v ? "true" : "false";
	}
	std::string operator()(int32_t v) const
	{
		return std::to_string(v);
	}
	std::string operator()(uint32_t v) const
	{
		return std::to_string(v);
	}
	std::string operator()(int64_t v) const
	{
		return std::to_string(v);
	}
	std::string operator()(uint64_t v) const
	{
		return std::to_string(v);
	}
	std::string operator()(const std::string &v) const
	{
		return json_string(v);
	}

	std::string operator()(double v) const
	{
		char text[32];

		/* JSON has no word for infinity. */
		if (!std::isfinite(v))
			return "null";
		std::snprintf(text, sizeof(text), "%.17g", v);
		return text;
	}

	template <typename T> std::string operator()(const std::vector<T> &values) const
	{
		std::string out = "[";

		for (const auto &v : values) {
			out += out.size() > 1 ? "," : "";
			out += (*this)(static_cast<T>(v));
		}
		return out + ']';
	}

	std::string operator()(const std::vector<uint8_t> &values) const
	{
		return (*this)(std::vector<uint32_t>(values.begin(), values.end()));
	}
};

template <typename Id> std::string hex_id(const Id &id)
{
	char text[2 * Id::kSize];

	if (!id.IsValid())
		return "";
	id.ToLowerBase16(nostd::span<char, 2 * Id::kSize>(text));
	return std::string(text, sizeof(text));
}

const char *kind_name(trace::SpanKind kind)
{
	switch (kind) {
	case trace::SpanKind::kServer:
		return "server";
	case trace::SpanKind::kClient:
		return "client";
	case trace::SpanKind::kProducer:
		return "producer";
	case trace::SpanKind::kConsumer:
		return "consumer";
	case trace::SpanKind::kInternal:
		break;
	}
	return "internal";
}

const char *status_name(trace::StatusCode status)
{
	switch (status) {
	case trace::StatusCode::kOk:
		return "ok";
	case trace::StatusCode::kError:
		return "error";
	case trace::StatusCode::kUnset:
		break;
	}
	return "unset";
}

std::string json_attributes(const sdk::trace::SpanData &span)
{
	/* Sorted, so that two runs can be compared line by line. */
	std::map<std::string, sdk::common::OwnedAttributeValue> sorted(span.GetAttributes().begin(),
								       span.GetAttributes().end());
	std::string out = "{";

	for (const auto &attribute : sorted) {
		out += out.size() > 1 ? "," : "";
		out += json_string(attribute.first) + ':';
		out += nostd::visit(JsonValue(), attribute.second);
	}
	return out + '}';
}

std::string service_name(const sdk::trace::SpanData &span)
{
	const auto &attributes = span.GetResource().GetAttributes();
	auto it = attributes.find("service.name");

	if (it == attributes.end() || !nostd::holds_alternative<std::string>(it->second))
		return "";
	return nostd::get<std::string>(it->second);
}

std::string json_line(const sdk::trace::SpanData &span)
{
	int64_t start = span.GetStartTime().time_since_epoch().count();
	int64_t end = start + span.GetDuration().count();
	std::string out;

	out += "{\"name\":" + json_string(span.GetName().data(), span.GetName().size());
	out += ",\"trace_id\":\"" + hex_id(span.GetTraceId()) + '"';
	out += ",\"span_id\":\"" + hex_id(span.GetSpanId()) + '"';
	out += ",\"parent_span_id\":\"" + hex_id(span.GetParentSpanId()) + '"';
	out += std::string(",\"kind\":\"") + kind_name(span.GetSpanKind()) + '"';
	out += std::string(",\"status\":\"") + status_name(span.GetStatus()) + '"';
	out += ",\"start_ns\":" + std::to_string(start);
	out += ",\"end_ns\":" + std::to_string(end);
	out += ",\"service\":" + json_string(service_name(span));
	out += ",\"pid\":" + std::to_string(getpid());
	out += ",\"attributes\":" + json_attributes(span);
	return out + "}\n";
}

class JsonExporter final : public sdk::trace::SpanExporter
{
      public:
	explicit JsonExporter(const std::string &path)
		: fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644))
	{
		if (fd_ < 0)
			std::fprintf(stderr, "OTELC_SPANS_JSON: cannot open %s: %s\n", path.c_str(),
				     std::strerror(errno));
	}

	~JsonExporter() override
	{
		if (fd_ >= 0)
			close(fd_);
	}

	std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override
	{
		return std::unique_ptr<sdk::trace::Recordable>(new sdk::trace::SpanData());
	}

	sdk::common::ExportResult
	Export(const nostd::span<std::unique_ptr<sdk::trace::Recordable>> &spans) noexcept override
	{
		bool complete = true;

		for (auto &recordable : spans) {
			std::string line =
				json_line(static_cast<const sdk::trace::SpanData &>(*recordable));

			/* A second write for the rest could land behind another process's line. */
			if (write(fd_, line.data(), line.size()) !=
			    static_cast<ssize_t>(line.size()))
				complete = false;
		}
		return complete ? sdk::common::ExportResult::kSuccess
				: sdk::common::ExportResult::kFailure;
	}

	bool ForceFlush(std::chrono::microseconds) noexcept override
	{
		return true;
	}
	bool Shutdown(std::chrono::microseconds) noexcept override
	{
		return true;
	}

      private:
	int fd_;
};

} // namespace

std::unique_ptr<sdk::trace::SpanExporter> new_json_exporter(const std::string &path)
{
	return std::unique_ptr<sdk::trace::SpanExporter>(new JsonExporter(path));
}
