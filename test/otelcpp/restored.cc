/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in which another library restores a virtual function of the tracer to its state before the SDK's first
 * use, while a span is open. Spans work as before.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <opentelemetry/trace/provider.h>

#include "test/otelcpp/provider.h"

namespace trace = opentelemetry::trace;

#define VTABLE_TRACER "_ZTVN13opentelemetry2v13sdk5trace6TracerE"
#define SLOT_START 4 /* behind offset, typeinfo and two destructors */

static void put_back(void **slot, void *function)
{
	uintptr_t size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
	void *page = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(slot) & ~(size - 1));

	if (mprotect(page, size, PROT_READ | PROT_WRITE) != 0) {
		std::perror("mprotect");
		std::exit(1);
	}
	*slot = function;
}

int main()
{
	void **vtable = static_cast<void **>(dlsym(RTLD_DEFAULT, VTABLE_TRACER));

	if (vtable == nullptr)
		return 1;
	void *found = vtable[SLOT_START];

	set_provider(true);
	auto tracer = trace::Provider::GetTracerProvider()->GetTracer("restored");
	auto open = tracer->StartSpan("open");

	std::printf("%s\n", vtable[SLOT_START] != found ? "replaced" : "as it was");
	put_back(&vtable[SLOT_START], found);
	for (int i = 0; i < 3; i++)
		tracer->StartSpan("next")->End();
	open->End();
	return 25;
}
