/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with its own context storage, and an SDK in a plugin that it unloads and loads again while a context is
 * attached. It detaches that context before the first span of the reloaded SDK. Usage: reloaded <plugin>
 * <milliseconds>
 */
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <link.h>

#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/noop.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>

#include "test/hosts/host.h"

namespace context = opentelemetry::context;
namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;

/* set_provider() of test/otelcpp/provider.h */
#define SET_PROVIDER "_Z12set_providerb"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			std::fprintf(stderr, "reloaded: not %s\n", #condition);                    \
			std::exit(1);                                                              \
		}                                                                                  \
	} while (0)

static void tell(const char *name, int ms)
{
	auto span = trace::Provider::GetTracerProvider()->GetTracer("reloaded")->StartSpan(name);
	trace::Scope scope(span);

	host_burn_ms(ms);
	span->End();
}

static void *load(const char *path, const void **place)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void (*set_provider)(bool);
	struct link_map *map;

	CHECK(plugin != nullptr);
	CHECK(dlinfo(plugin, RTLD_DI_LINKMAP, &map) == 0);
	*place = reinterpret_cast<const void *>(map->l_addr);
	set_provider = reinterpret_cast<void (*)(bool)>(dlsym(plugin, SET_PROVIDER));
	CHECK(set_provider != nullptr);
	set_provider(true);
	return plugin;
}

int main(int argc, char **argv)
{
	const void *first;
	const void *second;

	CHECK(argc == 3);
	/* An object that the plugin uses first would be destroyed with the plugin. */
	(void)trace::Provider::GetTracerProvider();
	(void)context::RuntimeContext::GetCurrent();
	void *plugin = load(argv[1], &first);

	tell("before", std::atoi(argv[2]));
	auto current = context::RuntimeContext::GetCurrent();
	auto token = context::RuntimeContext::Attach(current.SetValue("mine", true));

	trace::Provider::SetTracerProvider(
		nostd::shared_ptr<trace::TracerProvider>(new trace::NoopTracerProvider));
	CHECK(dlclose(plugin) == 0);
	CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == nullptr);
	(void)load(argv[1], &second);
	CHECK(first == second);
	CHECK(context::RuntimeContext::Detach(*token));
	tell("after", std::atoi(argv[2]));
	return 25;
}
