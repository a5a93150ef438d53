/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program instrumented with opentelemetry-cpp, which tells one story per run. What every SDK can do is
 * told in test/conformance; this is what only this one has, and CPU time. It says what it
 * does: a line "span NAME ROOT" per span that the SDK exports, ROOT being its local root, and a
 * line "cpu NAME ROOT NANOSECONDS" for work that belongs to a span ("- -" for work that belongs to
 * none), as measured by the thread's own clock. Usage: stories NAME MILLISECONDS-PER-PIECE-OF-WORK
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include <opentelemetry/common/key_value_iterable.h>
#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/default_span.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>
#include <opentelemetry/trace/span_context_kv_iterable.h>

#include "test/otelcpp/provider.h"

namespace common = opentelemetry::common;
namespace context = opentelemetry::context;
namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;

using SpanPtr = nostd::shared_ptr<trace::Span>;

static int piece_ms;

static long long cpu_ns()
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void work(const char *name, const char *root)
{
	long long began = cpu_ns();
	volatile unsigned sum = 0;

	do {
		for (unsigned i = 0; i < 20000; i++)
			sum = sum + i;
	} while (cpu_ns() < began + piece_ms * 1000000LL);
	std::printf("cpu %s %s %lld\n", name, root, cpu_ns() - began);
}

static void work_alone()
{
	work("-", "-");
}

static nostd::shared_ptr<trace::Tracer> tracer()
{
	return trace::Provider::GetTracerProvider()->GetTracer("stories");
}

static SpanPtr start(const char *name, const char *root,
		     const trace::StartSpanOptions &options = {})
{
	std::printf("span %s %s\n", name, root);
	return tracer()->StartSpan(name, options);
}

/* Its trace state is of its own, so that a reference too many would be a leak. */
static trace::SpanContext remote_parent()
{
	const uint8_t trace_id[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	const uint8_t span_id[8] = {17, 18, 19, 20, 21, 22, 23, 24};

	return trace::SpanContext(trace::TraceId(trace_id), trace::SpanId(span_id),
				  trace::TraceFlags(trace::TraceFlags::kIsSampled), true,
				  trace::TraceState::FromHeader("vendor=1"));
}

static void single()
{
	auto span = start("one", "one");

	work("one", "one");
	span->End();
	work_alone();
}

static void nested()
{
	auto outer = start("outer", "outer");
	{
		trace::Scope outer_scope(outer);

		work("outer", "outer");
		auto inner = start("inner", "outer");
		{
			trace::Scope inner_scope(inner);

			work("inner", "outer");
		}
		inner->End();
		work("outer", "outer");
	}
	work_alone();
	outer->End();
}

/* Nothing is ever attached: the SDK sees two roots. */
static void unattached()
{
	auto first = start("first", "first");

	work("first", "first");
	auto second = start("second", "second");

	/* nor does anything tell which of them the thread works for */
	work_alone();
	second->End();
	work("first", "first");
	first->End();
	work_alone();
}

/* What a start asks for its attributes may be any code; this ends another span. */
class Ending final : public common::KeyValueIterable
{
      public:
	explicit Ending(SpanPtr ended) : span(ended)
	{
	}
	bool ForEachKeyValue(nostd::function_ref<bool(nostd::string_view, common::AttributeValue)>)
		const noexcept override
	{
		span->End();
		return true;
	}
	size_t size() const noexcept override
	{
		return 0;
	}

      private:
	SpanPtr span;
};

/* Nothing is ever attached, but a root that links to another says that it goes on with its work, as in MySQL. */
static void linked()
{
	auto session = start("session", "session");
	trace::SpanContext other = remote_parent();

	work("session", "session");
	for (const char *name : {"statement", "another"}) {
		std::map<std::string, std::string> none;
		std::vector<std::pair<trace::SpanContext, std::map<std::string, std::string>>>
			links{{other, none}, {session->GetContext(), none}};
		std::printf("span %s %s\n", name, name);
		auto statement =
			tracer()->StartSpan(name, std::map<std::string, std::string>(), links);

		work(name, name);
		statement->End();
		work("session", "session");
	}
	session->End();
	work_alone();
}

static void ended_inside()
{
	auto first = start("first", "first");

	work("first", "first");
	std::printf("span second second\n");
	auto second = tracer()->StartSpan("second", Ending(first), trace::NullSpanContext());

	work("second", "second");
	second->End();
	work_alone();
}

/* Once something was attached, a start alone says nothing about the thread. */
static void scopes_decide()
{
	auto attached = start("attached", "attached");
	auto idle = start("idle", "idle");
	{
		trace::Scope scope(attached);
		auto child = start("child", "attached");

		work("attached", "attached");
		child->End();
	}
	attached->End();
	auto late = start("late", "late");

	work_alone();
	late->End();
	idle->End();
}

static void handed_over()
{
	auto span = start("job", "job");

	std::thread([&] {
		work_alone();
		{
			trace::Scope scope(span);
			work("job", "job");
		}
		work_alone();
	}).join();
	work_alone();
	span->End();
}

/* Started here, attached elsewhere, ended here while it is still attached there. */
static void async()
{
	std::promise<void> attached;
	std::promise<void> ended;
	auto span = start("async", "async");
	auto child = SpanPtr{};
	std::thread worker([&] {
		trace::Scope scope(span);

		child = start("step", "async");
		{
			trace::Scope inner(child);

			work("step", "async");
			attached.set_value();
			ended.get_future().wait();
		}
	});

	attached.get_future().wait();
	child->End();
	span->End();
	ended.set_value();
	worker.join();
	work_alone();
}

static void remote()
{
	trace::StartSpanOptions options;

	options.parent = remote_parent();
	auto by_span_context = start("served", "served", options);
	{
		trace::Scope scope(by_span_context);
		auto child = start("part", "served");
		trace::Scope inner(child);

		work("part", "served");
		child->End();
	}
	by_span_context->End();

	context::Context extracted;

	extracted = trace::SetSpan(extracted, SpanPtr(new trace::DefaultSpan(remote_parent())));
	options.parent = extracted;
	auto by_context = start("again", "again", options);
	{
		trace::Scope scope(by_context);

		work("again", "again");
	}
	by_context->End();
	{
		/* what a server framework does: the remote span is current, not an option */
		auto token = context::RuntimeContext::Attach(extracted);
		auto current = start("third", "third");

		work_alone();
		trace::Scope scope(current);

		work("third", "third");
		current->End();
	}
}

/* Parents that are given, and given up, explicitly. */
static void parents()
{
	trace::StartSpanOptions options;
	auto top = start("top", "top");
	trace::Scope scope(top);

	options.parent = top->GetContext();
	std::thread([&] {
		auto by_id = start("by_id", "top", options);
		trace::Scope inner(by_id);

		work("by_id", "top");
		by_id->End();
	}).join();
	options.parent = context::RuntimeContext::GetCurrent();
	std::thread([&] {
		auto by_context = start("by_context", "top", options);
		trace::Scope inner(by_context);

		work("by_context", "top");
		by_context->End();
	}).join();

	context::Context root;

	options.parent = root.SetValue(trace::kIsRootSpanKey, true);
	auto fresh = start("fresh", "fresh", options);
	{
		trace::Scope inner(fresh);

		work("fresh", "fresh");
	}
	fresh->End();
	options.parent = root.SetValue("colour", int64_t{5});
	start("fallback", "top", options)->End();
	work("top", "top");
	top->End();
}

static void out_of_order()
{
	auto outer = start("outer", "outer");
	auto outer_scope = std::make_unique<trace::Scope>(outer);
	auto inner = start("inner", "outer");
	auto inner_scope = std::make_unique<trace::Scope>(inner);

	outer->End();
	work("inner", "outer");
	/* takes the inner one along */
	outer_scope.reset();
	work_alone();
	inner_scope.reset();
	work_alone();
	inner->End();
}

static void destroyed()
{
	{
		auto span = start("dropped", "dropped");
		trace::Scope scope(span);

		work("dropped", "dropped");
	}
	work_alone();
	{
		/* the context holds the last reference, and goes with the token */
		auto token = context::RuntimeContext::Attach(trace::SetSpan(
			*std::make_unique<context::Context>(), start("held", "held")));

		work("held", "held");
	}
	work_alone();
}

/* The same context twice, and a token that is given back on the wrong thread. */
static void tokens()
{
	auto span = start("same", "same");
	context::Context empty;
	auto with_span = trace::SetSpan(empty, span);
	auto first = context::RuntimeContext::Attach(with_span);
	auto second = context::RuntimeContext::Attach(with_span);

	first.reset();
	work("same", "same");
	std::thread([&] {
		if (context::RuntimeContext::Detach(*second))
			std::abort();
	}).join();
	work("same", "same");
	{
		auto hidden = context::RuntimeContext::Attach(empty);

		work_alone();
	}
	work("same", "same");
	second.reset();
	work_alone();
	span->End();
}

/* A host's own storage, with virtual functions that the interface does not have. */
class OwnStorage : public context::ThreadLocalContextStorage
{
      public:
	nostd::unique_ptr<context::Token> Attach(const context::Context &c) noexcept override
	{
		attached++;
		return ThreadLocalContextStorage::Attach(c);
	}
	virtual int Count()
	{
		return attached;
	}

      private:
	int attached = 0;
};

/* Whatever is attached to it, the context that is current has nothing in it but a mark. */
class DeafStorage : public context::ThreadLocalContextStorage
{
      public:
	context::Context GetCurrent() noexcept override
	{
		return marked;
	}

      private:
	context::Context marked{"mark", true};
};

static void deaf_storage()
{
	context::RuntimeContext::SetRuntimeContextStorage(
		nostd::shared_ptr<context::RuntimeContextStorage>(new DeafStorage));
	auto span = start("span", "span");
	{
		trace::Scope scope(span);

		work("span", "span");
	}
	work("span", "span");
	span->End();
	work_alone();
}

static void own_storage()
{
	auto *own = new OwnStorage;
	auto storage = nostd::shared_ptr<context::RuntimeContextStorage>(own);
	auto before = start("before", "before");
	{
		trace::Scope scope(before);

		work("before", "before");
	}
	before->End();
	context::RuntimeContext::SetRuntimeContextStorage(storage);
	auto after = start("after", "after");
	{
		trace::Scope scope(after);

		work("after", "after");
	}
	after->End();
	work_alone();

#ifdef __cpp_rtti
	/* not to be known by its static type */
	context::RuntimeContextStorage *volatile seen = own;
	auto *known = dynamic_cast<OwnStorage *>(seen);

	if (known == nullptr || known->Count() != 1 ||
	    std::strstr(typeid(*seen).name(), "Own") == nullptr)
		std::abort();
#endif
}

/* No span is exported here, so none is announced. */
static void not_recorded()
{
	auto span = tracer()->StartSpan("nothing");
	{
		trace::Scope scope(span);
		auto child = tracer()->StartSpan("nothing either");

		work_alone();
		child->End();
	}
	span->End();
}

/* The first spans of the process, at the same moment. */
static void at_once()
{
	std::thread threads[8];
	pthread_barrier_t begin;

	pthread_barrier_init(&begin, nullptr, 8);
	for (auto &t : threads)
		t = std::thread([&] {
			pthread_barrier_wait(&begin);
			start("one", "one")->End();
		});
	for (auto &t : threads)
		t.join();
	pthread_barrier_destroy(&begin);
}

/* Several hundred spans on several threads, for counting. */
static void many()
{
	std::thread threads[4];

	for (auto &t : threads)
		t = std::thread([] {
			for (int i = 0; i < 50; i++) {
				auto outer = start("outer", "outer");
				trace::Scope outer_scope(outer);
				auto inner = start("inner", "outer");
				trace::Scope inner_scope(inner);

				inner->SetAttribute("turn", i);
				if (i % 2 != 0)
					inner->End();
				outer->End();
			}
		});
	for (auto &t : threads)
		t.join();
	/* so that there is a profile */
	auto last = start("last", "last");
	trace::Scope scope(last);

	work("last", "last");
	last->End();
}

/* Scopes that never end, as where a program loses its tokens: they pile up, in the SDK as well. */
/* A root with an attribute, which is set by that function when its work is done, and with a child. */
static void with_value(const char *value, void (*set)(trace::Span &span))
{
	auto span = start("labelled", "labelled");
	{
		trace::Scope scope(span);
		long long began = cpu_ns();

		span->SetAttribute("test.value", "first");
		work("labelled", "labelled");
		auto child = start("child", "labelled");

		child->SetAttribute("test.value", "of the child");
		work("child", "labelled");
		child->End();
		/* test/e2e/span_labels.sh knows what follows */
		std::printf("value %lld %s\n", cpu_ns() - began, value);
		if (std::getenv("STORY_WAITS") != nullptr)
			std::this_thread::sleep_for(std::chrono::milliseconds(100));
		set(*span);
	}
	span->End();
	span->SetAttribute("test.value", "too late");
}

/* Attributes whose values become labels (SPANPROF_SPAN_LABELS=test.value), of every type. */
static void labels()
{
	static const int64_t array[] = {1, 2};
	static const std::string cut(300, 'x');
	auto span = tracer()->StartSpan(
		"labelled",
		{{"other", 1}, {"test.value", nostd::string_view("given at the start+", 18)}});

	std::printf("span labelled labelled\n");
	{
		trace::Scope scope(span);
		long long began = cpu_ns();

		work("labelled", "labelled");
		std::printf("value %lld given at the start\n", cpu_ns() - began);
	}
	span->End();
	with_value("first", [](trace::Span &) {});
	with_value("a text", [](trace::Span &s) { s.SetAttribute("test.value", "a text"); });
	with_value("a part", [](trace::Span &s) {
		s.SetAttribute("test.value", nostd::string_view("a part of it", 6));
	});
	with_value("-7", [](trace::Span &s) { s.SetAttribute("test.value", int32_t{-7}); });
	with_value("9007199254740993",
		   [](trace::Span &s) { s.SetAttribute("test.value", int64_t{9007199254740993}); });
	with_value("4000000000",
		   [](trace::Span &s) { s.SetAttribute("test.value", uint32_t{4000000000}); });
	with_value("18446744073709551615",
		   [](trace::Span &s) { s.SetAttribute("test.value", ~uint64_t{0}); });
	with_value("0.1", [](trace::Span &s) { s.SetAttribute("test.value", 0.1); });
	with_value("true", [](trace::Span &s) { s.SetAttribute("test.value", true); });
	with_value(cut.substr(0, 256).c_str(),
		   [](trace::Span &s) { s.SetAttribute("test.value", cut); });
	with_value("-", [](trace::Span &s) { s.SetAttribute("test.value", ""); });
	with_value("-", [](trace::Span &s) {
		s.SetAttribute("test.value", nostd::span<const int64_t>(array, 2));
	});
	work_alone();
}

/* More different values than are kept apart. */
static void many_labels()
{
	for (int i = 0; i < 1300; i++) {
		auto span = start("labelled", "labelled");
		trace::Scope scope(span);

		work("labelled", "labelled");
		span->SetAttribute("test.value", int32_t{i});
		span->End();
	}
}

static void piled_up()
{
	for (int i = 0; i < 1200; i++) {
		auto span = start("lost", "lost");

		new nostd::unique_ptr<context::Token>(context::RuntimeContext::Attach(
			context::RuntimeContext::GetCurrent().SetValue(trace::kSpanKey, span)));
		span->End();
	}
	auto after = start("after", "lost");

	work("after", "lost");
	after->End();
	work_alone();
}

static SpanPtr start_and_rename(const char *name, const char *root)
{
	std::printf("span %s %s\n", name, root);
	auto span = tracer()->StartSpan("draft");

	span->UpdateName(name);
	return span;
}

/* As a server does that knows the route only after it has begun. */
static void renamed()
{
	auto route = start_and_rename("route", "route");
	{
		trace::Scope route_scope(route);

		work("route", "route");
		auto query = start_and_rename("query", "route");
		{
			trace::Scope query_scope(query);

			work("query", "route");
		}
		query->End();
	}
	route->End();
	route->UpdateName("late");
}

static void say_attribute(const char *span, const char *key, const char *value)
{
	std::printf("attribute %s %s %s\n", span, key, value);
}

static void set_attribute(const SpanPtr &span, const char *name, const char *key, const char *value)
{
	/* keys are as long as they are said to be */
	const std::string longer = std::string(key) + ".and_more";

	say_attribute(name, key, value);
	span->SetAttribute(nostd::string_view(longer.data(), std::strlen(key)), value);
}

static SpanPtr start_with(const char *name, const char *key, const char *value)
{
	std::printf("span %s %s\n", name, name);
	say_attribute(name, key, value);
	return tracer()->StartSpan(name, {{"first", 1}, {key, value}, {"last", true}});
}

/* Programs that say themselves what leads to a profile, and others that say something like it. */
static void own_attributes()
{
	const char *id = "pyroscope.profile.id";
	auto at_start = start_with("at_start", id, "mine");
	auto almost = start_with("almost", "pyroscope.profile.ix", "other");
	auto later = start("later", "later");
	auto untouched = start("untouched", "untouched");

	set_attribute(later, "later", id, "mine_too");
	set_attribute(almost, "almost", "pyroscope.profile.id.of", "another");
	set_attribute(untouched, "untouched", "pyroscope.profile", "short");
	untouched->End();
	later->End();
	almost->End();
	at_start->End();
	work_alone();
	later = SpanPtr{};
	at_start = SpanPtr{};

	/* may get the memory of those before */
	auto next = start("next", "next");
	auto elsewhere = start("elsewhere", "elsewhere");

	std::thread([&] { set_attribute(elsewhere, "elsewhere", id, "of_a_thread"); }).join();
	elsewhere->End();
	{
		trace::Scope scope(next);

		work("next", "next");
	}
	next->End();
	next->SetAttribute(id, "too late");
}

/* The program's first scope; from then on scopes decide which span a thread works for. */
static void use_scopes()
{
	auto span = start("prologue", "prologue");
	trace::Scope scope(span);

	span->End();
}

struct Story {
	const char *name;
	void (*tell)();
	bool with_scopes;
};

static const Story stories[] = {
	{"single", single, false},
	{"nested", nested, true},
	{"unattached", unattached, false},
	{"linked", linked, false},
	{"ended_inside", ended_inside, false},
	{"scopes_decide", scopes_decide, true},
	{"handed_over", handed_over, true},
	{"async", async, true},
	{"remote", remote, true},
	{"parents", parents, true},
	{"out_of_order", out_of_order, true},
	{"destroyed", destroyed, true},
	{"tokens", tokens, true},
	{"own_storage", own_storage, true},
	{"deaf_storage", deaf_storage, false},
	{"renamed", renamed, true},
	{"own_attributes", own_attributes, true},
	{"labels", labels, true},
	{"many_labels", many_labels, true},
	{"piled_up", piled_up, false},
	{"unsampled", not_recorded, false},
	{"noop", not_recorded, false},
	{"many", many, true},
	{"at_once", at_once, false},
};

int main(int argc, char **argv)
{
	const std::string name = argc > 1 ? argv[1] : "";

	piece_ms = argc > 2 ? std::atoi(argv[2]) : 0;
	if (name.empty()) {
		for (const Story &s : stories)
			std::puts(s.name);
		return 0;
	}
	if (name != "noop")
		set_provider(name != "unsampled");
	for (const Story &s : stories) {
		if (name == s.name) {
			if (s.with_scopes)
				use_scopes();
			s.tell();
			return 0;
		}
	}
	std::fprintf(stderr, "no story %s\n", name.c_str());
	return 2;
}
