/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer provider of the C interface: opentelemetry-cpp's own, with resource, sampler, exporters and processors
 * from the environment (README.md lists the variables). Callers: the host, once at its start and once at its end.
 */
#include "test/sdk/opentelemetry_c.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <opentelemetry/context/propagation/global_propagator.h>
#include <opentelemetry/exporters/otlp/otlp_http_exporter_factory.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/batch_span_processor_factory.h>
#include <opentelemetry/sdk/trace/batch_span_processor_options.h>
#include <opentelemetry/sdk/trace/samplers/always_off_factory.h>
#include <opentelemetry/sdk/trace/samplers/always_on_factory.h>
#include <opentelemetry/sdk/trace/samplers/parent_factory.h>
#include <opentelemetry/sdk/trace/simple_processor_factory.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/sdk/trace/tracer_provider_factory.h>
#include <opentelemetry/trace/noop.h>
#include <opentelemetry/trace/propagation/http_trace_context.h>
#include <opentelemetry/trace/provider.h>

#include "test/sdk/exporters.h"

namespace nostd = opentelemetry::nostd;
namespace propagation = opentelemetry::context::propagation;
namespace sdk = opentelemetry::sdk;
namespace trace = opentelemetry::trace;

using Processors = std::vector<std::unique_ptr<sdk::trace::SpanProcessor>>;

static std::shared_ptr<sdk::trace::TracerProvider> installed;

static std::string env(const char *name)
{
	const char *value = std::getenv(name);

	return value != nullptr ? value : "";
}

static std::unique_ptr<sdk::trace::SpanProcessor>
new_processor(std::unique_ptr<sdk::trace::SpanExporter> exporter)
{
	sdk::trace::BatchSpanProcessorOptions options;

	/* The batch thread does not survive a fork, so tests of forking hosts choose the other one. */
	if (env("OTELC_PROCESSOR") == "simple")
		return sdk::trace::SimpleSpanProcessorFactory::Create(std::move(exporter));

	/* A test must not lose a span, and the default of 2048 is one burst. */
	options.max_queue_size = 65536;
	options.schedule_delay_millis = std::chrono::milliseconds(1000);
	return sdk::trace::BatchSpanProcessorFactory::Create(std::move(exporter), options);
}

static Processors new_processors()
{
	Processors processors;
	std::string text_file = env("OTELC_SPANS_FILE");
	std::string json_file = env("OTELC_SPANS_JSON");

	if (env("OTELC_PROCESSOR") == "drop") {
		processors.push_back(new_processor(new_drop_exporter()));
		return processors;
	}
	if (!json_file.empty())
		processors.push_back(new_processor(new_json_exporter(json_file)));
	if (!env("OTEL_EXPORTER_OTLP_ENDPOINT").empty() ||
	    !env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").empty())
		processors.push_back(new_processor(
			opentelemetry::exporter::otlp::OtlpHttpExporterFactory::Create()));
	/* A program without a setting for its spans still prints them. */
	if (text_file.empty() && processors.empty())
		text_file = "spans.txt";
	if (!text_file.empty())
		processors.push_back(new_processor(new_text_exporter(text_file)));
	return processors;
}

static std::unique_ptr<sdk::trace::Sampler> new_sampler()
{
	std::string name = env("OTEL_TRACES_SAMPLER");

	if (name == "always_off")
		return sdk::trace::AlwaysOffSamplerFactory::Create();
	if (name == "parentbased_always_on")
		return sdk::trace::ParentBasedSamplerFactory::Create(
			std::shared_ptr<sdk::trace::Sampler>(
				sdk::trace::AlwaysOnSamplerFactory::Create()));
	if (!name.empty() && name != "always_on")
		std::fprintf(stderr, "OTEL_TRACES_SAMPLER: %s is not known here, using always_on\n",
			     name.c_str());
	return sdk::trace::AlwaysOnSamplerFactory::Create();
}

static void set_attribute(sdk::resource::ResourceAttributes *attributes, const char *key,
			  const char *value)
{
	if (value != nullptr && value[0] != '\0')
		attributes->SetAttribute(key, nostd::string_view(value));
}

extern "C" void otelc_init_tracer_provider(const char *service_name, const char *service_version,
					   const char *service_namespace,
					   const char *service_instance_id)
{
	sdk::resource::ResourceAttributes attributes;

	/* A name in code is used for the profiles, too; if a variable has another name, there is a message. */
	if (std::getenv("OTELC_NAMELESS") == nullptr)
		set_attribute(&attributes, "service.name", service_name);
	set_attribute(&attributes, "service.version", service_version);
	set_attribute(&attributes, "service.namespace", service_namespace);
	set_attribute(&attributes, "service.instance.id", service_instance_id);

	installed = sdk::trace::TracerProviderFactory::Create(
		new_processors(), sdk::resource::Resource::Create(attributes), new_sampler());
	trace::Provider::SetTracerProvider(nostd::shared_ptr<trace::TracerProvider>(
		std::shared_ptr<trace::TracerProvider>(installed)));
	propagation::GlobalTextMapPropagator::SetGlobalPropagator(
		nostd::shared_ptr<propagation::TextMapPropagator>(
			new trace::propagation::HttpTraceContext()));
}

extern "C" void otelc_destroy_tracer_provider(void)
{
	if (installed == nullptr)
		return;
	trace::Provider::SetTracerProvider(
		nostd::shared_ptr<trace::TracerProvider>(new trace::NoopTracerProvider()));
	installed->Shutdown();
	installed.reset();
}

extern "C" void *otelc_get_tracer(void)
{
	auto provider = trace::Provider::GetTracerProvider();

	return new nostd::shared_ptr<trace::Tracer>(
		provider->GetTracer("opentelemetry-c", OPENTELEMETRY_VERSION));
}

extern "C" void otelc_destroy_tracer(void *tracer)
{
	delete static_cast<nostd::shared_ptr<trace::Tracer> *>(tracer);
}
