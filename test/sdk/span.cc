/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans and attribute maps of the C interface. A started span is current on its thread until its
 * handle is deleted, because the handle owns the SDK's Scope. Who calls: any thread of the host.
 */
#include "test/sdk/opentelemetry_c.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include <opentelemetry/context/propagation/global_propagator.h>
#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/scope.h>
#include <opentelemetry/trace/tracer.h>

#include "test/sdk/carrier.h"

namespace context = opentelemetry::context;
namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;

using AttrMap = std::map<std::string, opentelemetry::common::AttributeValue>;

/* Profilers that read the original library's handle rely on the order of the members. */
struct SpanAndContext {
	nostd::shared_ptr<trace::Span> span;
	nostd::shared_ptr<trace::Scope> scope;
	nostd::shared_ptr<context::Context> context;
};

static trace::SpanKind sdk_kind(otelc_span_kind_t kind)
{
	switch (kind) {
	case OTELC_SPAN_KIND_SERVER:
		return trace::SpanKind::kServer;
	case OTELC_SPAN_KIND_CLIENT:
		return trace::SpanKind::kClient;
	case OTELC_SPAN_KIND_PRODUCER:
		return trace::SpanKind::kProducer;
	case OTELC_SPAN_KIND_CONSUMER:
		return trace::SpanKind::kConsumer;
	case OTELC_SPAN_KIND_INTERNAL:
		break;
	}
	return trace::SpanKind::kInternal;
}

static trace::StatusCode sdk_status(otelc_span_status_code_t code)
{
	switch (code) {
	case OTELC_SPAN_STATUS_CODE_OK:
		return trace::StatusCode::kOk;
	case OTELC_SPAN_STATUS_CODE_ERROR:
		return trace::StatusCode::kError;
	case OTELC_SPAN_STATUS_CODE_UNSET:
		break;
	}
	return trace::StatusCode::kUnset;
}

extern "C" void *otelc_start_span(void *tracer, const char *span_name, otelc_span_kind_t span_kind,
				  const char *remote_context)
{
	auto &sdk_tracer = *static_cast<nostd::shared_ptr<trace::Tracer> *>(tracer);
	context::Context current = context::RuntimeContext::GetCurrent();
	trace::StartSpanOptions options;

	options.kind = sdk_kind(span_kind);
	if (remote_context != nullptr && remote_context[0] != '\0') {
		const SocketCarrier carrier{std::string(remote_context)};
		auto propagator =
			context::propagation::GlobalTextMapPropagator::GetGlobalPropagator();

		/* Extract returns `current` if the carrier has no valid context. */
		options.parent =
			trace::GetSpan(propagator->Extract(carrier, current))->GetContext();
	}

	auto span = sdk_tracer->StartSpan(span_name, options);
	nostd::shared_ptr<trace::Scope> scope(new trace::Scope(span));
	nostd::shared_ptr<context::Context> inside(
		new context::Context(context::RuntimeContext::GetCurrent()));

	return new SpanAndContext{span, scope, inside};
}

extern "C" char *otelc_extract_context_from_current_span(void *span)
{
	auto *handle = static_cast<SpanAndContext *>(span);
	auto propagator = context::propagation::GlobalTextMapPropagator::GetGlobalPropagator();
	SocketCarrier carrier;

	propagator->Inject(carrier, *handle->context);
	return strdup(carrier.Serialize().c_str());
}

extern "C" void otelc_set_span_status(void *span, otelc_span_status_code_t code,
				      const char *description)
{
	auto *handle = static_cast<SpanAndContext *>(span);

	handle->span->SetStatus(sdk_status(code), description != nullptr ? description : "");
}

extern "C" void otelc_set_span_attrs(void *span, void *attr_map)
{
	auto *handle = static_cast<SpanAndContext *>(span);

	for (const auto &attribute : *static_cast<AttrMap *>(attr_map))
		handle->span->SetAttribute(attribute.first, attribute.second);
}

extern "C" void otelc_add_span_event(void *span, const char *event_name, void *attr_map)
{
	auto *handle = static_cast<SpanAndContext *>(span);

	handle->span->AddEvent(event_name, *static_cast<AttrMap *>(attr_map));
}

extern "C" void otelc_end_span(void *span)
{
	auto *handle = static_cast<SpanAndContext *>(span);

	handle->span->End();
	delete handle;
}

extern "C" void *otelc_create_attr_map(void)
{
	return new AttrMap();
}

extern "C" void otelc_set_bool_attr(void *attr_map, const char *key, int boolean_value)
{
	(*static_cast<AttrMap *>(attr_map))[key] = boolean_value != 0;
}

extern "C" void otelc_set_int32_t_attr(void *attr_map, const char *key, int32_t value)
{
	(*static_cast<AttrMap *>(attr_map))[key] = value;
}

extern "C" void otelc_set_int64_t_attr(void *attr_map, const char *key, int64_t value)
{
	(*static_cast<AttrMap *>(attr_map))[key] = value;
}

extern "C" void otelc_set_uint64_t_attr(void *attr_map, const char *key, uint64_t value)
{
	(*static_cast<AttrMap *>(attr_map))[key] = value;
}

extern "C" void otelc_set_double_attr(void *attr_map, const char *key, double value)
{
	(*static_cast<AttrMap *>(attr_map))[key] = value;
}

extern "C" void otelc_set_str_attr(void *attr_map, const char *key, const char *value)
{
	(*static_cast<AttrMap *>(attr_map))[key] = value;
}

extern "C" void otelc_destroy_attr_map(void *attr_map)
{
	delete static_cast<AttrMap *>(attr_map);
}
