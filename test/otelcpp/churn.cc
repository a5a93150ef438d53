/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that contains an SDK. Its spans are recorded and not sampled, so every virtual function that the profiler
 * replaces is called, and no span is profiled. For test/stress/vtable_slots.c.
 */
#include <atomic>

#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>
#include <opentelemetry/trace/tracer.h>

#include "test/otelcpp/provider.h"

namespace api = opentelemetry::trace;
namespace nostd = opentelemetry::nostd;

static std::atomic<unsigned long> started;
/* Getting it takes a lock, which another thread may hold when a child is forked. */
static nostd::shared_ptr<api::Tracer> tracer;

extern "C" __attribute__((visibility("default"))) void churn_begin()
{
	set_provider(false);
	tracer = api::Provider::GetTracerProvider()->GetTracer("churn");
}

static nostd::shared_ptr<api::Span> start()
{
	started++;
	return tracer->StartSpan("made");
}

static unsigned round_of()
{
	auto span = start();
	auto dropped = start();
	unsigned wrong = span->GetContext() == dropped->GetContext();

	{
		auto scope = tracer->WithActiveSpan(span);

		wrong += !(api::Tracer::GetCurrentSpan()->GetContext() == span->GetContext());
	}
	wrong += api::Tracer::GetCurrentSpan()->GetContext().IsValid();
	span->UpdateName("renamed");
	span->SetAttribute("pyroscope.profile.id", "own");
	wrong += !span->IsRecording();
	span->End();
	wrong += span->IsRecording();
	return wrong;
}

/* The number of faults. */
extern "C" __attribute__((visibility("default"))) unsigned churn(unsigned rounds)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < rounds; i++)
		wrong += round_of();
	return wrong;
}

/* Spans that were started and not ended; called when no thread is in churn(). */
extern "C" __attribute__((visibility("default"))) long churn_open()
{
	return static_cast<long>(started) - static_cast<long>(spans_ended);
}

/* The object of a span that stays open. */
extern "C" __attribute__((visibility("default"))) const void *churn_span()
{
	static auto kept = start();

	return kept.get();
}
