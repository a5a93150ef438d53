/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An SDK of two classes, with the names and the interface of the real ones and the real API headers: for an ABI
 * version and smart pointers that the distribution's build does not have. It is a separate shared library, like the
 * real one.
 */
#include "test/otelcpp/provider.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/default_span.h>
#include <opentelemetry/trace/noop.h>
#include <opentelemetry/trace/provider.h>

/*
 * Where the span stores its context: behind the same members as in the real SDK, as a pointer (up to 1.28) or as the
 * object (later); or somewhere else.
 */
#define MINI_CONTEXT_POINTER 1
#define MINI_CONTEXT_INLINE 2
#define MINI_CONTEXT_ELSEWHERE 3
#ifndef MINI_CONTEXT
#define MINI_CONTEXT MINI_CONTEXT_POINTER
#endif

/* The span alone, or together with the block that counts its references, libc++'s or libstdc++'s. */
#ifdef MINI_LIBCXX
#include "test/otelcpp/libcxx_block.h"
#define SPAN_HOLDER std::shared_ptr<api::Span>
#define NEW_SPAN(...) = libcxx_make_shared<api::Span, Span>(__VA_ARGS__)
#elif defined(MINI_MADE_TOGETHER)
#define SPAN_HOLDER std::shared_ptr<api::Span>
#define NEW_SPAN(...) = std::make_shared<Span>(__VA_ARGS__)
#else
#define SPAN_HOLDER auto *
#define NEW_SPAN(...) = new Span(__VA_ARGS__)
#endif

/* Unsampled spans have their own class, and are recorded; their ends are counted, and not written. */
#ifdef MINI_RECORD_ONLY
std::atomic<unsigned long> spans_ended;
#endif

/* Written before names, if several of these are in one process. */
#ifndef MINI_COPY
#define MINI_COPY ""
#endif

OPENTELEMETRY_BEGIN_NAMESPACE
namespace sdk
{
namespace resource
{

/* The part of the real class that a reader of its memory sees. */
class Resource
{
      public:
#ifdef MINI_RESOURCE_MORE
	uint64_t more = 0;
#endif
	std::unordered_map<std::string, nostd::variant<bool, int32_t, uint32_t, int64_t, double,
						       std::string, std::vector<bool>>>
		attributes;
};

} // namespace resource

namespace trace
{

namespace api = opentelemetry::trace;

class Span final : public api::Span
{
      public:
	Span(std::shared_ptr<api::Tracer> maker, nostd::string_view name, api::SpanContext own,
	     api::SpanContext parent);
	~Span() override;
	void SetAttribute(nostd::string_view key,
			  const common::AttributeValue &value) noexcept override;
	void AddEvent(nostd::string_view) noexcept override
	{
	}
	void AddEvent(nostd::string_view, common::SystemTimestamp) noexcept override
	{
	}
	void AddEvent(nostd::string_view, common::SystemTimestamp,
		      const common::KeyValueIterable &) noexcept override
	{
	}
	void AddEvent(nostd::string_view, const common::KeyValueIterable &) noexcept override
	{
	}
#if OPENTELEMETRY_ABI_VERSION_NO >= 2
	void AddLink(const api::SpanContext &, const common::KeyValueIterable &) noexcept override
	{
	}
	void AddLinks(const api::SpanContextKeyValueIterable &) noexcept override
	{
	}
#endif
	void SetStatus(api::StatusCode, nostd::string_view) noexcept override
	{
	}
	void UpdateName(nostd::string_view) noexcept override;
	void End(const api::EndSpanOptions &options) noexcept override;
	api::SpanContext GetContext() const noexcept override;
	bool IsRecording() const noexcept override;

      private:
	struct Data {
		std::string name;
		api::SpanContext parent;
		std::map<std::string, std::string> attributes;
	};
#if MINI_CONTEXT == MINI_CONTEXT_ELSEWHERE
	uint64_t more = 0;
#endif
	std::shared_ptr<api::Tracer> tracer;
	mutable std::mutex lock;
	std::unique_ptr<Data> data;
	common::SteadyTimestamp began;
#if MINI_CONTEXT == MINI_CONTEXT_INLINE
	api::SpanContext own;
#else
	std::unique_ptr<api::SpanContext> own;
#endif
	bool ended = false;
};

#if MINI_CONTEXT == MINI_CONTEXT_INLINE
#define OWN own
#define NEW_OWN(context) context
#else
#define OWN (*own)
#define NEW_OWN(context) new api::SpanContext(context)
#endif

struct TracerContext {
	virtual ~TracerContext() = default;

	resource::Resource resource;
};

class Tracer final : public api::Tracer, public std::enable_shared_from_this<Tracer>
{
      public:
	nostd::shared_ptr<api::Span>
	StartSpan(nostd::string_view name, const common::KeyValueIterable &attributes,
		  const api::SpanContextKeyValueIterable &links,
		  const api::StartSpanOptions &options) noexcept override;
#if OPENTELEMETRY_ABI_VERSION_NO == 1
	void ForceFlushWithMicroseconds(uint64_t) noexcept override
	{
	}
	void CloseWithMicroseconds(uint64_t) noexcept override
	{
	}
#endif
	std::shared_ptr<TracerContext> context = std::make_shared<TracerContext>();
	std::shared_ptr<std::string> scope;
	bool sampled = true;
};

template <class Id> static std::string hex(const Id &id)
{
	std::string text(2 * Id::kSize, '0');

	id.ToLowerBase16(nostd::span<char, 2 * Id::kSize>(&text[0], text.size()));
	return id.IsValid() ? text : "";
}

void Span::UpdateName(nostd::string_view new_name) noexcept
{
	const std::lock_guard<std::mutex> guard(lock);

	if (!ended)
		data->name.assign(new_name.data(), new_name.size());
}

Span::Span(std::shared_ptr<api::Tracer> maker, nostd::string_view span_name,
	   api::SpanContext own_context, api::SpanContext parent_context)
	: tracer(std::move(maker)),
	  data(new Data{{span_name.data(), span_name.size()}, parent_context, {}}),
	  own(NEW_OWN(own_context))
{
}

Span::~Span()
{
	End({});
}

void Span::SetAttribute(nostd::string_view key, const common::AttributeValue &value) noexcept
{
	std::lock_guard<std::mutex> guard(lock);

	std::string text;

	if (nostd::holds_alternative<const char *>(value))
		text = std::string("\"") + nostd::get<const char *>(value) + "\"";
	else if (nostd::holds_alternative<int64_t>(value))
		text = std::to_string(nostd::get<int64_t>(value));
	if (!ended && !text.empty())
		data->attributes[std::string(key.data(), key.size())] = text;
}

#ifdef MINI_RECORD_ONLY
void Span::End(const api::EndSpanOptions &) noexcept
{
	const std::lock_guard<std::mutex> guard(lock);

	spans_ended += !ended;
	ended = true;
}
#else
void Span::End(const api::EndSpanOptions &) noexcept
{
	const char *path = std::getenv("OTELC_SPANS_JSON");
	std::lock_guard<std::mutex> guard(lock);
	std::string text;

	if (ended)
		return;
	ended = true;
	for (const auto &a : data->attributes)
		text += (text.empty() ? "\"" : ", \"") + a.first + "\": " + a.second;
	FILE *file = std::fopen(path != nullptr ? path : "/dev/null", "a");

	if (file == nullptr)
		std::abort();
	std::fprintf(file,
		     "{\"name\": \"" MINI_COPY "%s\", \"trace_id\": \"%s\", \"span_id\": \"%s\", "
		     "\"parent_span_id\": \"%s\", \"attributes\": {%s}}\n",
		     data->name.c_str(), hex(OWN.trace_id()).c_str(), hex(OWN.span_id()).c_str(),
		     hex(data->parent.span_id()).c_str(), text.c_str());
	std::fclose(file);
}
#endif

api::SpanContext Span::GetContext() const noexcept
{
	return OWN;
}

bool Span::IsRecording() const noexcept
{
	std::lock_guard<std::mutex> guard(lock);

	return !ended;
}

static api::SpanContext current()
{
	return api::Tracer::GetCurrentSpan()->GetContext();
}

/* Since 1.28 the current context is read only where it counts. */
static api::SpanContext parent_of(const api::StartSpanOptions &options)
{
	if (nostd::holds_alternative<api::SpanContext>(options.parent)) {
		auto given = nostd::get<api::SpanContext>(options.parent);

		return given.IsValid() ? given : current();
	}
	const auto &context = nostd::get<context::Context>(options.parent);
	auto given = api::GetSpan(context)->GetContext();

	if (given.IsValid())
		return given;
	return api::IsRootSpan(context) ? api::SpanContext::GetInvalid() : current();
}

#ifdef MINI_DRAWS
/* Like Random of the real SDK: seeded when the first id is drawn, and again in forked children. */
static std::mt19937_64 engine;

static void seed()
{
	engine.seed(std::random_device{}());
}

static void draw()
{
	static const int registered = (seed(), pthread_atfork(nullptr, nullptr, seed));

	(void)registered;
	(void)engine();
}
#endif

nostd::shared_ptr<api::Span> Tracer::StartSpan(nostd::string_view name,
					       const common::KeyValueIterable &attributes,
					       const api::SpanContextKeyValueIterable &,
					       const api::StartSpanOptions &options) noexcept
{
	static std::atomic<uint64_t> next{1};
	auto parent = parent_of(options);
#ifdef MINI_DRAWS
	draw();
#endif
	uint8_t trace_id[16] = {0xaa};
	uint8_t span_id[8];
	uint64_t number = next++;
	auto flags = api::TraceFlags(sampled ? api::TraceFlags::kIsSampled : 0);

	std::memcpy(trace_id + 8, &number, sizeof(number));
	std::memcpy(span_id, &number, sizeof(number));
	/* if several of these are in a process, each has its own */
	span_id[7] = static_cast<uint8_t>(MINI_COPY[0]);
	trace_id[1] = span_id[7];
	api::SpanContext own(parent.IsValid() ? parent.trace_id() : api::TraceId(trace_id),
			     api::SpanId(span_id), flags, false);

#ifndef MINI_RECORD_ONLY
	if (!sampled)
		return nostd::shared_ptr<api::Span>(new api::DefaultSpan(own));
#endif
	SPAN_HOLDER span NEW_SPAN(std::shared_ptr<api::Tracer>(context, this), name, own, parent);

	attributes.ForEachKeyValue([&span](nostd::string_view key, common::AttributeValue value) {
		span->SetAttribute(key, value);
		return true;
	});
	return nostd::shared_ptr<api::Span>(span);
}

class Provider final : public api::TracerProvider
{
      public:
	explicit Provider(nostd::shared_ptr<api::Tracer> only) : tracer(only)
	{
	}
#if OPENTELEMETRY_ABI_VERSION_NO >= 2
	nostd::shared_ptr<api::Tracer> GetTracer(nostd::string_view name, nostd::string_view,
						 nostd::string_view,
						 const common::KeyValueIterable *) noexcept override
#else
	nostd::shared_ptr<api::Tracer> GetTracer(nostd::string_view name, nostd::string_view,
						 nostd::string_view) noexcept override
#endif
	{
		/* The same words as the real SDK. */
		if (name.empty())
			std::fputs("[TracerProvider::GetTracer] Library name is empty.\n", stderr);
		return tracer;
	}

      private:
	nostd::shared_ptr<api::Tracer> tracer;
};

} // namespace trace
} // namespace sdk
OPENTELEMETRY_END_NAMESPACE

void set_provider(bool sampled)
{
	namespace api = opentelemetry::trace;
	namespace mini = opentelemetry::sdk::trace;
	namespace nostd = opentelemetry::nostd;
	auto *tracer = new mini::Tracer;

#ifndef MINI_QUIET
	/* Every release's Resource::Create() does this, before there is a tracer. */
	(void)std::getenv("OTEL_RESOURCE_ATTRIBUTES");
#endif
	tracer->sampled = sampled;
	if (const char *service = std::getenv("STORY_SERVICE")) {
		auto &attributes = tracer->context->resource.attributes;

		attributes["telemetry.sdk.language"] = std::string("cpp");
		attributes["service.name"] = std::string(service);
		attributes["service.namespace"] = std::string("town");
		attributes["service.version"] = std::string("1,2=3 %");
		attributes["process.pid"] = int32_t{7};
		attributes["process.command_line"] = std::string(100000, 'x');
	}
	api::Provider::SetTracerProvider(nostd::shared_ptr<api::TracerProvider>(
		new mini::Provider(nostd::shared_ptr<api::Tracer>(tracer))));
}
