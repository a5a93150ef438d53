/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same interface as a wrapper over a shared opentelemetry-cpp of ABI version 2, which is what the
 * original is: each start and end fires the hooks of both. The latest release's layout.
 */
#include <cstring>
#include <string>

#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/provider.h>

#include "test/otelcpp/provider.h"

#define _Static_assert static_assert
#define FIXTURE_API 11
extern "C" {
#include "test/haproxy/wrapper.h"
__attribute__((visibility("default"))) void fixture_label(unsigned place, const void *pointer,
							  const char *label);
}

namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;

struct otelc_ctx {
	int unused;
};

namespace
{

struct cpp_span {
	otelc_span c;
	nostd::shared_ptr<trace::Span> span;
};

trace::Span *of(const otelc_span *span)
{
	return reinterpret_cast<const cpp_span *>(span)->span.get();
}

int get_id(const otelc_span *span, uint8_t *span_id, size_t, uint8_t *trace_id, size_t,
	   uint8_t *flags)
{
	trace::SpanContext context = of(span)->GetContext();

	std::memcpy(span_id, context.span_id().Id().data(), 8);
	std::memcpy(trace_id, context.trace_id().Id().data(), 16);
	*flags = context.trace_flags().flags();
	return OTELC_RET_OK;
}

int is_recording(const otelc_span *span)
{
	return of(span)->IsRecording();
}

void destroy_span(otelc_span **span)
{
	if (span == nullptr || *span == nullptr)
		return;
	delete reinterpret_cast<cpp_span *>(*span);
	*span = nullptr;
}

void end(otelc_span **span)
{
	of(*span)->End();
	destroy_span(span);
}

void end_with_options(otelc_span **span, const timespec *, int, const char *)
{
	end(span);
}

void set_operation_name(const otelc_span *span, const char *name)
{
	if (*name != '\0')
		of(span)->UpdateName(name);
}

int set_attribute_kv_n(const otelc_span *span, const otelc_kv *kv, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (kv[i].value.u_type == OTELC_VALUE_INT64)
			of(span)->SetAttribute(kv[i].key, kv[i].value.u.value_int64);
		else
			of(span)->SetAttribute(kv[i].key, kv[i].value.u.value_string);
	}
	return static_cast<int>(n);
}

int set_status(const otelc_span *span, int, const char *)
{
	of(span)->SetStatus(trace::StatusCode::kOk, "");
	return OTELC_RET_OK;
}

void nothing()
{
}

otelc_span_ops make_span_ops()
{
	otelc_span_ops ops;
	void (**slot)(void) = reinterpret_cast<void (**)(void)>(&ops);

	for (size_t i = 0; i < sizeof(ops) / sizeof(*slot); i++)
		slot[i] = nothing;
	ops.get_id = get_id;
	ops.is_recording = is_recording;
	ops.end = end;
	ops.end_with_options = end_with_options;
	ops.set_operation_name = set_operation_name;
	ops.set_attribute_kv_n = set_attribute_kv_n;
	ops.set_status = set_status;
	ops.destroy = destroy_span;
	return ops;
}

const otelc_span_ops span_ops = make_span_ops();

otelc_span *start_span_with_options(otelc_tracer *tracer, const char *name,
				    const otelc_span *parent, const otelc_span_context *,
				    const timespec *, const timespec *, int,
				    const otelc_span_link *, size_t)
{
	trace::StartSpanOptions options;

	if (*name == '\0' || !tracer->enabled)
		return nullptr;
	if (parent != nullptr)
		options.parent = of(parent)->GetContext();
	return &(new cpp_span{{1, tracer, &span_ops},
			      trace::Provider::GetTracerProvider()->GetTracer("wrapper")->StartSpan(
				      name, options)})
			->c;
}

otelc_span *start_span(otelc_tracer *tracer, const char *name)
{
	return start_span_with_options(tracer, name, nullptr, nullptr, nullptr, nullptr, 0, nullptr,
				       0);
}

int start(otelc_tracer *tracer)
{
	tracer->enabled = true;
	return OTELC_RET_OK;
}

void destroy_tracer(otelc_tracer **tracer)
{
	delete *tracer;
	*tracer = nullptr;
}

otelc_tracer_ops make_tracer_ops()
{
	otelc_tracer_ops ops;
	void (**slot)(void) = reinterpret_cast<void (**)(void)>(&ops);

	for (size_t i = 0; i < sizeof(ops) / sizeof(*slot); i++)
		slot[i] = nothing;
	ops.start_span = start_span;
	ops.start_span_with_options = start_span_with_options;
	ops.start = start;
	ops.destroy = destroy_tracer;
	return ops;
}

const otelc_tracer_ops tracer_ops = make_tracer_ops();
otelc_ctx the_context;

} // namespace

#define API extern "C" __attribute__((visibility("default")))

API const char *otelc_version(void)
{
	return "3.3.0-1234";
}

API otelc_ctx *otelc_init(const char *, char **)
{
	set_provider(true);
	return &the_context;
}

API void otelc_deinit(otelc_ctx **context)
{
	*context = nullptr;
}

API otelc_span_context *otelc_span_context_create(void)
{
	return nullptr;
}

API otelc_tracer *otelc_tracer_create(const otelc_ctx *context, char **)
{
	otelc_tracer *tracer = new otelc_tracer();

	tracer->ops = &tracer_ops;
	tracer->ctx = context;
	return tracer;
}

API void fixture_label(unsigned, const void *, const char *)
{
}
