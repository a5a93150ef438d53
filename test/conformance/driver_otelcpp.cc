/* SPDX-License-Identifier: Apache-2.0 */
/* The stories' SDK: opentelemetry-cpp, the distribution's or one of the small ones of test/otelcpp. */
#include "test/conformance/driver.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include <typeinfo>
#include <utility>
#include <vector>

#include <opentelemetry/common/key_value_iterable.h>
#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/default_span.h>
#include <opentelemetry/trace/noop.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>
#include <opentelemetry/trace/span_context_kv_iterable.h>
#include <opentelemetry/trace/tracer.h>

#include "test/otelcpp/provider.h"

namespace common = opentelemetry::common;
namespace context = opentelemetry::context;
namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;

using SpanPtr = nostd::shared_ptr<trace::Span>;
using Token = nostd::unique_ptr<context::Token>;

static const SpanPtr &span_of(const void *handle)
{
	return *static_cast<const SpanPtr *>(handle);
}

static nostd::shared_ptr<trace::Tracer> tracer()
{
	return trace::Provider::GetTracerProvider()->GetTracer("conformance");
}

static void set_up(enum driver_provider provider)
{
	if (provider != PROVIDER_NONE)
		set_provider(provider == PROVIDER_SAMPLED);
}

static void *start_with(const char *name, const trace::StartSpanOptions &options)
{
	return new SpanPtr(tracer()->StartSpan(name, options));
}

static void *start(const char *name, const void *parent)
{
	static thread_local unsigned turn;
	trace::StartSpanOptions options;
	context::Context empty;

	if (parent != nullptr && turn++ % 2 == 0)
		options.parent = span_of(parent)->GetContext();
	else if (parent != nullptr)
		options.parent = trace::SetSpan(empty, span_of(parent));
	else
		options.parent = empty.SetValue(trace::kIsRootSpanKey, true);
	return start_with(name, options);
}

static void *start_ambient(const char *name)
{
	static thread_local unsigned turn;
	trace::StartSpanOptions options;
	context::Context empty;

	/* a context without information about a span leaves the current one as parent */
	if (turn++ % 2 != 0)
		options.parent = empty.SetValue("colour", int64_t{5});
	return start_with(name, options);
}

/* It has its own trace state, so that a reference too many would be a leak. */
static trace::SpanContext remote(const struct driver_ids *far)
{
#ifdef DRIVER_OWN_CLASSES
	auto state = trace::TraceState::GetDefault();
#else
	auto state = trace::TraceState::FromHeader("vendor=1");
#endif
	return trace::SpanContext(trace::TraceId(nostd::span<const uint8_t, 16>(far->trace_id)),
				  trace::SpanId(nostd::span<const uint8_t, 8>(far->span_id)),
				  trace::TraceFlags(trace::TraceFlags::kIsSampled), true, state);
}

static void *start_remote(const char *name, const struct driver_ids *parent)
{
	trace::StartSpanOptions options;

	options.parent = remote(parent);
	return start_with(name, options);
}

static void *start_with_attribute(const char *name, const char *key, const char *value)
{
	return new SpanPtr(tracer()->StartSpan(name, {{"first", 1}, {key, value}, {"last", true}}));
}

static void *start_with_value(const char *name, unsigned way, const char **text)
{
	if (way > 0)
		return nullptr;
	/* as long as the given length */
	*text = "given at the start";
	return new SpanPtr(tracer()->StartSpan(
		name,
		{{"other", 1}, {"test.value", nostd::string_view("given at the start+", 18)}}));
}

static const char *set_value(void *span, unsigned way)
{
	static const int64_t array[] = {1, 2};
	static const std::string longest(256, 'x');
	static const std::string longer(300, 'x');
	const std::pair<common::AttributeValue, const char *> ways[] = {
		{"a text", "a text"},
		{nostd::string_view("a part of it", 6), "a part"},
		{int32_t{-7}, "-7"},
		{int64_t{9007199254740993}, "9007199254740993"},
		{uint32_t{4000000000}, "4000000000"},
		{~uint64_t{0}, "18446744073709551615"},
		{0.1, "0.1"},
		{true, "true"},
		{nostd::string_view(longer), longest.c_str()},
		{"", "-"},
		{nostd::span<const int64_t>(array, 2), "[]"},
	};

	if (way >= sizeof(ways) / sizeof(ways[0]))
		return nullptr;
	span_of(span)->SetAttribute("test.value", ways[way].first);
	return ways[way].second;
}

/* A start may run any code while it reads its attributes; this code ends another span. */
class Ending final : public common::KeyValueIterable
{
      public:
	explicit Ending(SpanPtr ended) : span(ended)
	{
	}
	bool ForEachKeyValue(nostd::function_ref<bool(nostd::string_view, common::AttributeValue)>)
		const noexcept override
	{
		span->End();
		return true;
	}
	size_t size() const noexcept override
	{
		return 0;
	}

      private:
	SpanPtr span;
};

static void *start_ending(const char *name, void *other)
{
	return new SpanPtr(
		tracer()->StartSpan(name, Ending(span_of(other)), trace::NullSpanContext()));
}

static bool ids(const void *span, struct driver_ids *out)
{
	auto own = span_of(span)->GetContext();

	std::memcpy(out->trace_id, own.trace_id().Id().data(), sizeof(out->trace_id));
	std::memcpy(out->span_id, own.span_id().Id().data(), sizeof(out->span_id));
	return own.IsValid();
}

/* A parent is given by its ids, or in a context, as a propagator makes it from a header. */
static void *start_linked(const char *name, const void *other, const struct driver_ids *far,
			  bool is_remote)
{
	using Attributes = std::map<std::string, std::string>;
	static thread_local unsigned turn;
	std::vector<std::pair<trace::SpanContext, Attributes>> links{
		{remote(far), {}}, {span_of(other)->GetContext(), {}}};
	trace::StartSpanOptions options;
	context::Context empty;

	if (is_remote && turn++ % 2 == 0)
		options.parent = remote(far);
	else if (is_remote)
		options.parent =
			trace::SetSpan(empty, SpanPtr(new trace::DefaultSpan(remote(far))));
	return new SpanPtr(tracer()->StartSpan(name, Attributes(), links, options));
}

static void rename_span(void *span, const char *name)
{
	span_of(span)->UpdateName(name);
}

static void set_attribute(void *span, const char *key, const char *value)
{
	/* keys have the given length */
	const std::string longer = std::string(key) + ".and_more";

	span_of(span)->SetAttribute(nostd::string_view(longer.data(), std::strlen(key)), value);
}

static void set_status(void *span, bool is_error)
{
	span_of(span)->SetStatus(is_error ? trace::StatusCode::kError : trace::StatusCode::kOk,
				 "why");
}

static void end(void *span)
{
	span_of(span)->End();
}

static void destroy(void *span)
{
	delete static_cast<SpanPtr *>(span);
}

static void *attach(const void *span)
{
	context::Context empty;

	return new Token(context::RuntimeContext::Attach(
		span != nullptr ? trace::SetSpan(empty, span_of(span)) : empty));
}

static void *attach_remote(const struct driver_ids *far)
{
	context::Context empty;

	return new Token(context::RuntimeContext::Attach(
		trace::SetSpan(empty, SpanPtr(new trace::DefaultSpan(remote(far))))));
}

#ifdef DRIVER_ONE_STORAGE
static void check_storage()
{
}
#else
/* A program's own storage, with virtual functions that the interface does not have. */
class OwnStorage : public context::ThreadLocalContextStorage
{
      public:
	explicit OwnStorage(bool is_deaf) : deaf(is_deaf)
	{
	}
	nostd::unique_ptr<context::Token> Attach(const context::Context &c) noexcept override
	{
		attached++;
		return ThreadLocalContextStorage::Attach(c);
	}
#ifndef DRIVER_ATTACH_ALONE
	bool Detach(context::Token &token) noexcept override
	{
		detached++;
		return ThreadLocalContextStorage::Detach(token);
	}
#endif
	/* A deaf storage returns a context with nothing but a mark. */
	context::Context GetCurrent() noexcept override
	{
		return deaf ? marked : ThreadLocalContextStorage::GetCurrent();
	}
	virtual int count()
	{
		return attached + detached;
	}

      private:
	const bool deaf;
	int attached = 0;
	int detached = 0;
	context::Context marked{"mark", true};
};

static OwnStorage *storage;

static void bring_storage(bool deaf)
{
	storage = new OwnStorage(deaf);
	context::RuntimeContext::SetRuntimeContextStorage(
		nostd::shared_ptr<context::RuntimeContextStorage>(storage));
}

/* The storage is still the same object, also for code that does not know its static type. */
static void check_storage()
{
#if defined(__cpp_rtti) && !defined(DRIVER_OWN_CLASSES)
	context::RuntimeContextStorage *volatile seen = storage;
	auto *known = seen != nullptr ? dynamic_cast<OwnStorage *>(seen) : nullptr;

	if (seen != nullptr && (known == nullptr || known->count() < 1 ||
				std::strstr(typeid(*seen).name(), "Own") == nullptr))
		std::abort();
#endif
}
#endif

/* The same context twice: a token finds it by its value, not by its address. */
static void odd(void *span)
{
	context::Context empty;
	auto with_span = trace::SetSpan(empty, span_of(span));
	auto first = context::RuntimeContext::Attach(with_span);
	auto second = context::RuntimeContext::Attach(with_span);

	first.reset();
	second.reset();
}

static bool detach(void *scope)
{
	auto *token = static_cast<Token *>(scope);
	bool ok = context::RuntimeContext::Detach(**token);

	check_storage();

	/* A token detaches itself when it is destroyed; it finds nothing then. */
	if (ok)
		delete token;
	return ok;
}

#ifndef DRIVER_MINI
static void shut_down()
{
	shut_down_provider();
}
#endif

extern "C" const struct driver *conformance_driver(void)
{
	static struct driver d;

	d.lacks[NEED_WRAPPER] = "no-wrapper";
	d.detach_goes_through = true;
	d.records_after_shutdown = true;
	d.set_up = set_up;
#ifdef DRIVER_MINI
	d.lacks[NEED_SHUTDOWN] = "mini-no-shutdown";
#else
	d.shut_down = shut_down;
#endif
	d.start = start;
	d.start_ambient = start_ambient;
	d.start_remote = start_remote;
	d.ids = ids;
	d.rename = rename_span;
	d.end = end;
	d.destroy = destroy;
	d.set_attribute = set_attribute;
	d.start_with = start_with_attribute;
	d.start_with_value = start_with_value;
	d.set_value = set_value;
	d.set_status = set_status;
	d.start_ending = start_ending;
	d.start_linked = start_linked;
	d.attach = attach;
	d.attach_remote = attach_remote;
#ifdef DRIVER_ONE_STORAGE
	d.lacks[NEED_STORAGE] = "direct";
#else
	d.bring_storage = bring_storage;
#endif
	d.odd = odd;
	d.detach = detach;
	return &d;
}
