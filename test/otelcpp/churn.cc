/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin with an SDK of its own, whose spans record and are not sampled: every virtual function that the
 * profiler puts one of its own in place of is called, and no span is profiled. For test/stress/vtable_slots.c.
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
/* Asking for it takes a lock, which another thread may hold when a child is forked. */
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

/* How often something was not as it has to be. */
extern "C" __attribute__((visibility("default"))) unsigned churn(unsigned rounds)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < rounds; i++)
		wrong += round_of();
	return wrong;
}

/* Once no thread is in churn(): spans that were started and not ended. */
extern "C" __attribute__((visibility("default"))) long churn_open()
{
	return static_cast<long>(started) - static_cast<long>(spans_ended);
}

/* A span that stays, of which the object is. */
extern "C" __attribute__((visibility("default"))) const void *churn_span()
{
	static auto kept = start();

	return kept.get();
}
