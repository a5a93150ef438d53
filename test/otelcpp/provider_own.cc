/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stories' tracer provider with a tracer that the program makes by itself, as the SDK's own unit tests do.
 * Without -fPIC the program has a copy of the tracer's vtable, by a copy relocation of the loader. So the address of
 * the class is not in the SDK's library.
 */
#include "test/otelcpp/provider.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include <opentelemetry/sdk/trace/samplers/always_off.h>
#include <opentelemetry/sdk/trace/samplers/always_on.h>
#include <opentelemetry/sdk/trace/simple_processor.h>
#include <opentelemetry/sdk/trace/tracer.h>
#include <opentelemetry/sdk/trace/tracer_context.h>
#include <opentelemetry/trace/provider.h>

#include "test/sdk/exporters.h"

namespace nostd = opentelemetry::nostd;
namespace sdk = opentelemetry::sdk;
namespace trace = opentelemetry::trace;

class OwnProvider final : public trace::TracerProvider
{
      public:
	explicit OwnProvider(nostd::shared_ptr<trace::Tracer> only) : tracer(only)
	{
	}
	nostd::shared_ptr<trace::Tracer> GetTracer(nostd::string_view, nostd::string_view,
						   nostd::string_view) noexcept override
	{
		return tracer;
	}

      private:
	nostd::shared_ptr<trace::Tracer> tracer;
};

static std::shared_ptr<sdk::trace::TracerContext> installed;

void set_provider(bool sampled)
{
	const char *path = std::getenv("OTELC_SPANS_JSON");
	std::vector<std::unique_ptr<sdk::trace::SpanProcessor>> processors;
	std::unique_ptr<sdk::trace::Sampler> sampler;

	if (sampled)
		sampler.reset(new sdk::trace::AlwaysOnSampler);
	else
		sampler.reset(new sdk::trace::AlwaysOffSampler);
	processors.emplace_back(new sdk::trace::SimpleSpanProcessor(
		new_json_exporter(path != nullptr ? path : "/dev/null")));
	installed = std::make_shared<sdk::trace::TracerContext>(
		std::move(processors), sdk::resource::Resource::Create({}), std::move(sampler));
	auto tracer = std::make_shared<sdk::trace::Tracer>(installed);

	trace::Provider::SetTracerProvider(nostd::shared_ptr<trace::TracerProvider>(new OwnProvider(
		nostd::shared_ptr<trace::Tracer>(std::shared_ptr<trace::Tracer>(tracer)))));
}

void shut_down_provider()
{
	installed->Shutdown();
}
