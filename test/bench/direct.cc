/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of opentelemetry-cpp itself: batch processor and an exporter that drops everything.
 * BENCH_SCOPE=1 also makes each span current while it is open, BENCH_ATTRIBUTE=KEY sets an attribute as
 * long as ours.
 */
#include <cstdlib>
#include <memory>
#include <vector>

#include <opentelemetry/sdk/trace/batch_span_processor_factory.h>
#include <opentelemetry/sdk/trace/batch_span_processor_options.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/sdk/trace/tracer_provider_factory.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>

#include "test/bench/loop.h"
#include "test/sdk/exporters.h"

namespace nostd = opentelemetry::nostd;
namespace sdk = opentelemetry::sdk;
namespace trace = opentelemetry::trace;

static std::shared_ptr<sdk::trace::TracerProvider> provider;
static nostd::shared_ptr<trace::Tracer> tracer;
static std::vector<nostd::shared_ptr<trace::Span>> opened;

static void set_provider()
{
	sdk::trace::BatchSpanProcessorOptions options;

	/*
	 * Room for a round of all threads, after which the queue is emptied: a full queue takes another path, and the
	 * SDK logs it.
	 */
	options.max_queue_size = 65536;
	options.schedule_delay_millis = std::chrono::milliseconds(100);
	auto processor =
		sdk::trace::BatchSpanProcessorFactory::Create(new_drop_exporter(), options);
	provider = sdk::trace::TracerProviderFactory::Create(std::move(processor));

	trace::Provider::SetTracerProvider(nostd::shared_ptr<trace::TracerProvider>(
		std::shared_ptr<trace::TracerProvider>(provider)));
	tracer = trace::Provider::GetTracerProvider()->GetTracer("bench");
}

static void pairs(long n)
{
	while (n-- > 0)
		tracer->StartSpan("pair")->End();
}

static void scoped_pairs(long n)
{
	while (n-- > 0) {
		auto span = tracer->StartSpan("pair");
		trace::Scope scope(span);

		span->End();
	}
}

static void attribute_pairs(long n)
{
	const nostd::string_view key = std::getenv("BENCH_ATTRIBUTE");

	while (n-- > 0) {
		auto span = tracer->StartSpan("pair");

		span->SetAttribute(key, "9a517183f26a089d");
		span->End();
	}
}

static void open_spans(long n)
{
	while (n-- > 0)
		opened.push_back(tracer->StartSpan("open"));
}

static void settle()
{
	provider->ForceFlush();
}

int main(int argc, char **argv)
{
	struct loop loop = {pairs, open_spans, settle};

	if (std::getenv("BENCH_SCOPE") != nullptr)
		loop.pairs = scoped_pairs;
	if (std::getenv("BENCH_ATTRIBUTE") != nullptr)
		loop.pairs = attribute_pairs;
	set_provider();
	return loop_main(argc, argv, &loop);
}
