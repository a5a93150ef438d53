/* SPDX-License-Identifier: Apache-2.0 */
/* The stories' tracer provider, of the distribution's SDK. */
#include "test/otelcpp/provider.h"

#include <cstdlib>
#include <memory>
#include <string>

#include <opentelemetry/sdk/trace/samplers/always_off_factory.h>
#include <opentelemetry/sdk/trace/samplers/always_on_factory.h>
#include <opentelemetry/sdk/trace/simple_processor_factory.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/sdk/trace/tracer_provider_factory.h>
#include <opentelemetry/trace/provider.h>

#include "test/sdk/exporters.h"

namespace nostd = opentelemetry::nostd;
namespace sdk = opentelemetry::sdk;
namespace trace = opentelemetry::trace;

static std::shared_ptr<sdk::trace::TracerProvider> installed;

/* The resource that a program names in its code, as most C++ programs do. */
static sdk::resource::ResourceAttributes resource_of_story()
{
	const char *service = std::getenv("STORY_SERVICE");
	sdk::resource::ResourceAttributes attributes;

	if (service == nullptr)
		return attributes;
	attributes["service.name"] = std::string(service);
	attributes["service.namespace"] = std::string("town");
	attributes["service.version"] = std::string("1,2=3 %");
	attributes["process.pid"] = int32_t{7};
	return attributes;
}

void set_provider(bool sampled)
{
	const char *path = std::getenv("OTELC_SPANS_JSON");
	auto sampler = sampled ? sdk::trace::AlwaysOnSamplerFactory::Create()
			       : sdk::trace::AlwaysOffSamplerFactory::Create();
	auto processor = sdk::trace::SimpleSpanProcessorFactory::Create(
		new_json_exporter(path != nullptr ? path : "/dev/null"));

	installed = sdk::trace::TracerProviderFactory::Create(
		std::move(processor), sdk::resource::Resource::Create(resource_of_story()),
		std::move(sampler));
	trace::Provider::SetTracerProvider(nostd::shared_ptr<trace::TracerProvider>(
		std::shared_ptr<trace::TracerProvider>(installed)));
}

void shut_down_provider()
{
	installed->Shutdown();
}
