/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with its own context storage, as for fibers: the current context belongs to
 * the fiber, on whatever thread it runs. Worker i burns its time in the function leaf_i() and, except the last
 * one, in spans named "worker_i". Usage: fibers HOW THREADS MILLISECONDS, where HOW is
 *
 *   pinned     each thread has its own fibers, which take turns
 *   migrating  all threads share the fibers: a thread takes the next one for one turn
 *   threads    no fibers: each worker is a thread
 */
#include <boost/context/fiber.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>

#include "test/otelcpp/provider.h"

namespace boost_context = boost::context;
namespace context = opentelemetry::context;
namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;

static constexpr unsigned WORKERS = 8;
static constexpr long TURN_NS = 1000000;

using Stack = std::vector<context::Context>;

static thread_local Stack of_thread;
static thread_local Stack *of_fiber;

/* Not inlined: a fiber may continue on another thread, whose variable has another address. */
static __attribute__((noinline)) Stack &here()
{
	return of_fiber != nullptr ? *of_fiber : of_thread;
}

static __attribute__((noinline)) void run_as(Stack *stack)
{
	of_fiber = stack;
}

class OwnStorage : public context::RuntimeContextStorage
{
      public:
	context::Context GetCurrent() noexcept override
	{
		return here().empty() ? context::Context() : here().back();
	}

	nostd::unique_ptr<context::Token> Attach(const context::Context &c) noexcept override
	{
		here().push_back(c);
		return CreateToken(c);
	}

	bool Detach(context::Token &token) noexcept override
	{
		Stack &stack = here();

		for (size_t n = stack.size(); n > 0; n--) {
			if (token == stack[n - 1]) {
				stack.resize(n - 1);
				return true;
			}
		}
		return false;
	}
};

/* The program's own reference to the storage, besides the SDK's. */
static nostd::shared_ptr<context::RuntimeContextStorage> storage;
static context::RuntimeContextStorage *plain_storage;

static long cpu_ns()
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

static volatile unsigned sum;

static inline __attribute__((always_inline)) void burn()
{
	long end = cpu_ns() + TURN_NS;

	do {
		for (unsigned i = 0; i < 20000; i++)
			sum = sum + i;
	} while (cpu_ns() < end);
}

#define LEAF(n)                                                                                    \
	extern "C" __attribute__((noinline)) void leaf_##n()                                       \
	{                                                                                          \
		burn();                                                                            \
		sum = sum + n;                                                                     \
	}
LEAF(0)
LEAF(1)
LEAF(2)
LEAF(3)
LEAF(4)
LEAF(5)
LEAF(6)
LEAF(7)
static void (*const leaf[WORKERS])() = {leaf_0, leaf_1, leaf_2, leaf_3,
					leaf_4, leaf_5, leaf_6, leaf_7};

static long requests;

/* Requests, the second half of each in a child span. Between the turns other workers run. */
template <typename Yield> static void work(unsigned me, Yield yield)
{
	auto tracer = trace::Provider::GetTracerProvider()->GetTracer("fibers");
	std::string name = "worker_" + std::to_string(me);
	auto some_turns = [&] {
		for (int i = 0; i < 4; i++) {
			leaf[me]();
			yield();
		}
	};

	for (long n = 0; n < requests; n++) {
		if (me == WORKERS - 1) {
			some_turns();
			some_turns();
			continue;
		}
		auto request = tracer->StartSpan(name);
		trace::Scope scope(request);

		some_turns();
		auto part = tracer->StartSpan(name);
		{
			trace::Scope inner(part);

			some_turns();
		}
		part->End();
		request->End();
	}
}

struct Fiber {
	boost_context::fiber fiber;
	Stack stack;
};

static std::shared_ptr<Fiber> new_fiber(unsigned me)
{
	auto f = std::make_shared<Fiber>();

	f->fiber = boost_context::fiber([me](boost_context::fiber &&back) {
		work(me, [&back] { back = std::move(back).resume(); });
		return std::move(back);
	});
	return f;
}

static std::mutex busy;

/* Runs the fibers in that queue until there are none. */
static void run(std::deque<std::shared_ptr<Fiber>> *queue)
{
	for (;;) {
		std::shared_ptr<Fiber> f;
		{
			std::lock_guard<std::mutex> lock(busy);

			if (queue->empty())
				return;
			f = queue->front();
			queue->pop_front();
		}
		run_as(&f->stack);
		f->fiber = std::move(f->fiber).resume();
		run_as(nullptr);
		std::lock_guard<std::mutex> lock(busy);

		if (f->fiber)
			queue->push_back(f);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	bool pinned = std::strcmp(argv[1], "pinned") == 0;
	bool fibers = pinned || std::strcmp(argv[1], "migrating") == 0;
	auto n = static_cast<unsigned>(std::atoi(argv[2]));
	std::vector<std::deque<std::shared_ptr<Fiber>>> queues(pinned ? n : 1);
	std::vector<std::thread> threads;

	requests = std::atol(argv[3]) * 1000000 / TURN_NS / WORKERS / 8;
	set_provider(true);
	plain_storage = new OwnStorage;
	storage = nostd::shared_ptr<context::RuntimeContextStorage>(plain_storage);
	context::RuntimeContext::SetRuntimeContextStorage(storage);
	/* the first span of the process, before there are several threads */
	trace::Provider::GetTracerProvider()->GetTracer("fibers")->StartSpan("begin")->End();
	for (unsigned i = 0; fibers && i < WORKERS; i++)
		queues[i % queues.size()].push_back(new_fiber(i));
	for (unsigned i = 0; i < (fibers ? n : WORKERS); i++) {
		if (fibers)
			threads.emplace_back(run, &queues[i % queues.size()]);
		else
			threads.emplace_back([i] { work(i, [] {}); });
	}
	for (auto &t : threads)
		t.join();
	std::printf("done\n");
	return 0;
}
