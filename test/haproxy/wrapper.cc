/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary interface of wrapper.h over opentelemetry-cpp with ABI version 2, like the original and by its rules.
 * Only creators are exported, all other calls go through constant tables of functions. The wrapper attaches no
 * context, and a start takes the parent as an argument. An end and a destroy free the span and clear the caller's
 * pointer, and a destroy ends an open span. A tracer that was not started, or was shut down, starts no span.
 *
 * FIXTURE_MODE=noop leaves the process without a provider; with FIXTURE_MODE=unsampled nothing is sampled. The SDK
 * writes ended spans to the file that OTELC_SPANS_JSON names.
 */
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/provider.h>

#include "test/otelcpp/provider.h"

#define _Static_assert static_assert
extern "C" {
#include "test/haproxy/wrapper.h"
}

#define API extern "C" __attribute__((visibility("default")))
#define KINDS 6

namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;

struct otelc_ctx {
	int unused;
};

namespace
{

struct whole_span {
	otelc_span c;
	nostd::shared_ptr<trace::Span> span;
};

struct whole_context {
	otelc_span_context c;
	trace::SpanContext ids;
};

struct whole_tracer {
	otelc_tracer c;
	bool started;
};

trace::Span *of(const otelc_span *span)
{
	return reinterpret_cast<const whole_span *>(span)->span.get();
}

const trace::SpanContext &of(const otelc_span_context *context)
{
	return reinterpret_cast<const whole_context *>(context)->ids;
}

int copy_ids(const trace::SpanContext &ids, uint8_t *span_id, uint8_t *trace_id, uint8_t *flags)
{
	if (!ids.IsValid())
		return OTELC_RET_ERROR;
	if (span_id != nullptr)
		std::memcpy(span_id, ids.span_id().Id().data(), 8);
	if (trace_id != nullptr)
		std::memcpy(trace_id, ids.trace_id().Id().data(), 16);
	if (flags != nullptr)
		*flags = ids.trace_flags().flags();
	return OTELC_RET_OK;
}

int get_id(const otelc_span *span, uint8_t *span_id, size_t, uint8_t *trace_id, size_t,
	   uint8_t *flags)
{
	return copy_ids(of(span)->GetContext(), span_id, trace_id, flags);
}

int is_recording(const otelc_span *span)
{
	return of(span)->IsRecording();
}

void destroy_span(otelc_span **span)
{
	if (span == nullptr || *span == nullptr)
		return;
	delete reinterpret_cast<whole_span *>(*span);
	*span = nullptr;
}

void end(otelc_span **span)
{
	if (span == nullptr || *span == nullptr)
		return;
	of(*span)->End();
	destroy_span(span);
}

void end_with_options(otelc_span **span, const timespec *, int, const char *)
{
	end(span);
}

void set_operation_name(const otelc_span *span, const char *name)
{
	if (name != nullptr && *name != '\0')
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

int set_status(const otelc_span *span, int status, const char *description)
{
	of(span)->SetStatus(static_cast<trace::StatusCode>(status),
			    description != nullptr ? description : "");
	return OTELC_RET_OK;
}

int inject(const otelc_span *span, otelc_carrier *carrier)
{
	return get_id(span, carrier->span_id, 8, carrier->trace_id, 16, nullptr);
}

void unused()
{
	std::abort();
}

/* A function that no host here calls ends the program. */
template <class Ops> Ops empty_ops()
{
	Ops ops;
	void (**slot)(void) = reinterpret_cast<void (**)(void)>(&ops);

	for (size_t i = 0; i < sizeof(ops) / sizeof(*slot); i++)
		slot[i] = unused;
	return ops;
}

otelc_span_ops make_span_ops()
{
	auto ops = empty_ops<otelc_span_ops>();

	ops.get_id = get_id;
	ops.is_recording = is_recording;
	ops.end = end;
	ops.end_with_options = end_with_options;
	ops.set_operation_name = set_operation_name;
	ops.set_attribute_kv_n = set_attribute_kv_n;
	ops.set_status = set_status;
	ops.inject_text_map = inject;
	ops.destroy = destroy_span;
	return ops;
}

const otelc_span_ops span_ops = make_span_ops();

int context_get_id(const otelc_span_context *context, uint8_t *span_id, size_t, uint8_t *trace_id,
		   size_t, uint8_t *flags)
{
	return copy_ids(of(context), span_id, trace_id, flags);
}

void destroy_context(otelc_span_context **context)
{
	delete reinterpret_cast<whole_context *>(*context);
	*context = nullptr;
}

otelc_span_context_ops make_context_ops()
{
	auto ops = empty_ops<otelc_span_context_ops>();

	ops.get_id = context_get_id;
	ops.destroy = destroy_context;
	return ops;
}

const otelc_span_context_ops context_ops = make_context_ops();

otelc_span_context *extract(otelc_tracer *, const otelc_carrier *carrier)
{
	trace::SpanContext ids(trace::TraceId(nostd::span<const uint8_t, 16>(carrier->trace_id)),
			       trace::SpanId(nostd::span<const uint8_t, 8>(carrier->span_id)),
			       trace::TraceFlags(trace::TraceFlags::kIsSampled), true);

	return &(new whole_context{{1, &context_ops}, ids})->c;
}

bool may_start(otelc_tracer *tracer, const char *name)
{
#if FIXTURE_API >= 10
	if (!tracer->enabled)
		return false;
#endif
	return name != nullptr && *name != '\0' &&
	       reinterpret_cast<whole_tracer *>(tracer)->started;
}

otelc_span *start_span_with_options(otelc_tracer *tracer, const char *name,
				    const otelc_span *parent, const otelc_span_context *context,
				    const timespec *, const timespec *, int kind,
				    const otelc_span_link *links, size_t links_len)
{
	using attributes = std::map<std::string, std::string>;
	static std::atomic<int64_t> spans;
	std::vector<std::pair<trace::SpanContext, attributes>> linked;
	trace::StartSpanOptions options;

	if (!may_start(tracer, name) || (parent != nullptr && context != nullptr) || kind < 0 ||
	    kind >= KINDS)
		return nullptr;
	if (parent != nullptr)
		options.parent = of(parent)->GetContext();
	else if (context != nullptr)
		options.parent = of(context);
	for (size_t i = 0; i < links_len; i++)
		linked.emplace_back(links[i].span != nullptr ? of(links[i].span)->GetContext()
							     : of(links[i].context),
				    attributes());
	auto sdk = trace::Provider::GetTracerProvider()->GetTracer("wrapper");

	return &(new whole_span{{++spans, tracer, &span_ops},
				linked.empty()
					? sdk->StartSpan(name, options)
					: sdk->StartSpan(name, attributes(), linked, options)})
			->c;
}

otelc_span *start_span(otelc_tracer *tracer, const char *name)
{
	return start_span_with_options(tracer, name, nullptr, nullptr, nullptr, nullptr, 0, nullptr,
				       0);
}

int start(otelc_tracer *tracer)
{
	reinterpret_cast<whole_tracer *>(tracer)->started = true;
	return OTELC_RET_OK;
}

int shut_down(otelc_tracer *tracer, const timespec *)
{
	reinterpret_cast<whole_tracer *>(tracer)->started = false;
	return OTELC_RET_OK;
}

#if FIXTURE_API >= 10
int set_enabled(otelc_tracer *tracer, bool enabled)
{
	tracer->enabled = enabled;
	return OTELC_RET_OK;
}
#endif

void destroy_tracer(otelc_tracer **tracer)
{
	delete reinterpret_cast<whole_tracer *>(*tracer);
	*tracer = nullptr;
}

otelc_tracer_ops make_tracer_ops()
{
	auto ops = empty_ops<otelc_tracer_ops>();

	ops.start_span = start_span;
	ops.start_span_with_options = start_span_with_options;
	ops.extract_text_map = extract;
	ops.extract_http_headers = extract;
#if FIXTURE_API >= 10
	ops.set_enabled = set_enabled;
#endif
	ops.shutdown = shut_down;
	ops.start = start;
	ops.destroy = destroy_tracer;
	return ops;
}

const otelc_tracer_ops tracer_ops = make_tracer_ops();

void set_up()
{
	const char *mode = std::getenv("FIXTURE_MODE");

	if (mode == nullptr || std::strcmp(mode, "noop") != 0)
		set_provider(mode == nullptr || std::strcmp(mode, "unsampled") != 0);
}

otelc_tracer *create(void)
{
	auto *tracer = new whole_tracer();

	tracer->c.scope_name = "scope";
	tracer->c.ops = &tracer_ops;
	return &tracer->c;
}

} // namespace

API const char *otelc_version(void)
{
	return FIXTURE_RELEASE;
}

API otelc_span_context *otelc_span_context_create(void)
{
	return &(new whole_context{{1, &context_ops}, trace::SpanContext::GetInvalid()})->c;
}

#if FIXTURE_API >= 10

static otelc_ctx the_context;

API otelc_ctx *otelc_init(const char *, char **)
{
	set_up();
	return &the_context;
}

API void otelc_deinit(otelc_ctx **context)
{
	*context = nullptr;
}

API otelc_tracer *otelc_tracer_create(const otelc_ctx *context, char **)
{
	otelc_tracer *tracer = create();

	tracer->enabled = true;
	tracer->ctx = context;
	return tracer;
}

#else

API int otelc_init(const char *, char **)
{
	set_up();
	return OTELC_RET_OK;
}

API void otelc_deinit(otelc_tracer **tracer)
{
	if (*tracer != nullptr)
		destroy_tracer(tracer);
}

API otelc_tracer *otelc_tracer_create(char **)
{
	return create();
}

#endif
