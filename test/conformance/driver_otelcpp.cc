/* SPDX-License-Identifier: Apache-2.0 */
/* The stories' SDK: opentelemetry-cpp, the distribution's or one of the small ones of test/otelcpp. */
#include "test/conformance/driver.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/noop.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>
#include <opentelemetry/trace/tracer.h>

#include "test/otelcpp/provider.h"

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
	trace::StartSpanOptions options;
	context::Context empty;

	if (parent != nullptr)
		options.parent = span_of(parent)->GetContext();
	else
		options.parent = empty.SetValue(trace::kIsRootSpanKey, true);
	return start_with(name, options);
}

static void *start_ambient(const char *name)
{
	return start_with(name, {});
}

static void *start_remote(const char *name, const struct driver_ids *parent)
{
	trace::StartSpanOptions options;

	options.parent =
		trace::SpanContext(trace::TraceId(nostd::span<const uint8_t, 16>(parent->trace_id)),
				   trace::SpanId(nostd::span<const uint8_t, 8>(parent->span_id)),
				   trace::TraceFlags(trace::TraceFlags::kIsSampled), true);
	return start_with(name, options);
}

static bool ids(const void *span, struct driver_ids *out)
{
	auto own = span_of(span)->GetContext();

	std::memcpy(out->trace_id, own.trace_id().Id().data(), sizeof(out->trace_id));
	std::memcpy(out->span_id, own.span_id().Id().data(), sizeof(out->span_id));
	return own.IsValid();
}

static void rename_span(void *span, const char *name)
{
	span_of(span)->UpdateName(name);
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

static bool detach(void *scope)
{
	auto *token = static_cast<Token *>(scope);
	bool ok = context::RuntimeContext::Detach(**token);

	/* A token detaches itself again when it goes; there is nothing left for it to find then. */
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
	d.attach = attach;
	d.detach = detach;
	return &d;
}
