#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Python's functions are in the flame graph of their span: Python 3.12 or newer with -X perf, and spans of
# opentelemetry-cpp, which a library starts and ends for it. Python's trampolines have no call frame information and
# no frame pointer, and stacks pass through all of them, from a built-in function to the beginning of the thread.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need g++ python3

# python_with_trampolines: an installed one, even behind pyenv.
python_with_trampolines()
{
	local python

	for python in python3.{20..12} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 python3; do
		python=$(command -v "$python") || continue
		if "$python" -X perf -c 'import ctypes, os, sys
os.path.exists(m := f"/tmp/perf-{os.getpid()}.map") and os.remove(m)
sys.exit(not sys.is_stack_trampoline_active())' 2>/dev/null; then
			echo "$python"
			return 0
		fi
	done
	return 1
}
python=$(python_with_trampolines) || skip 'no Python 3.12 or newer that can -X perf'
[[ $(uname -m) == x86_64 ]] || left_out 'the walk through a trampoline is tried on x86-64'

cat >"$WORK/spans.cc" <<'END'
#include <memory>
#include <utility>
#include <vector>

#include <opentelemetry/sdk/trace/simple_processor_factory.h>
#include <opentelemetry/sdk/trace/exporter.h>
#include <opentelemetry/sdk/trace/span_data.h>
#include <opentelemetry/sdk/trace/tracer_provider_factory.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>

namespace sdk = opentelemetry::sdk;
namespace trace = opentelemetry::trace;
namespace nostd = opentelemetry::nostd;

class Nowhere : public sdk::trace::SpanExporter {
	std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override
	{
		return std::unique_ptr<sdk::trace::Recordable>(new sdk::trace::SpanData);
	}
	sdk::common::ExportResult
	Export(const nostd::span<std::unique_ptr<sdk::trace::Recordable>> &) noexcept override
	{
		return sdk::common::ExportResult::kSuccess;
	}
	/* Not in all releases. */
	bool ForceFlush(std::chrono::microseconds) noexcept
	{
		return true;
	}
	bool Shutdown(std::chrono::microseconds) noexcept override
	{
		return true;
	}
};

struct Open {
	nostd::shared_ptr<trace::Span> span;
	trace::Scope scope;
};
static thread_local std::vector<std::unique_ptr<Open>> open_spans;

extern "C" void span_init(void)
{
	auto processor = sdk::trace::SimpleSpanProcessorFactory::Create(std::unique_ptr<sdk::trace::SpanExporter>(new Nowhere));
	std::shared_ptr<trace::TracerProvider> provider = sdk::trace::TracerProviderFactory::Create(std::move(processor));
	trace::Provider::SetTracerProvider(provider);
}

extern "C" void span_begin(const char *name)
{
	auto span = trace::Provider::GetTracerProvider()->GetTracer("python")->StartSpan(name);
	open_spans.emplace_back(new Open{span, trace::Scope(span)});
}

extern "C" void span_end(void)
{
	open_spans.back()->span->End();
	open_spans.pop_back();
}
END
cat >"$WORK/service.py" <<'END'
import ctypes, os, sys, threading, time

spans = ctypes.CDLL(sys.argv[1])
spans.span_init()


class span:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        spans.span_begin(self.name.encode())

    def __exit__(self, *_):
        spans.span_end()


def price(items):
    return sum(hash((i, items)) % 7 for i in range(20000))


def handle_order(end):
    while time.thread_time() < end:
        price(3)


def handle_stock(end):
    while time.thread_time() < end:
        sorted(range(20000), key=lambda i: -i)


def serve(name, handler):
    with span(name):
        handler(time.thread_time() + 0.3)


print(os.getpid(), flush=True)
thread = threading.Thread(target=serve, args=("GET /stock", handle_stock))
serve("POST /order", handle_order)
thread.start()
thread.join()
sys.exit(5)
END
readonly OTEL_FLAGS=(-std=gnu++17 -O1 -fPIC -shared -DHAVE_ABSEIL -DOPENTELEMETRY_ABI_VERSION_NO=1)
echo '#include <opentelemetry/sdk/trace/tracer_provider_factory.h>' | g++ "${OTEL_FLAGS[@]}" -fsyntax-only -x c++ - 2>/dev/null ||
	skip 'opentelemetry-cpp is not installed'
variant=()
[[ $(g++ -print-file-name=libabsl_bad_variant_access.so) != /* ]] || variant=(-labsl_bad_variant_access)
g++ "${OTEL_FLAGS[@]}" -o "$WORK/libspans.so" "$WORK/spans.cc" -lopentelemetry_trace -lopentelemetry_resources \
	-lopentelemetry_common "${variant[@]}"

mkdir "$WORK/d"
run_under python SPANPROF_SAMPLE_RATE=500 SPANPROF_OUTPUT_DIR="$WORK/d" "$python" -X perf "$WORK/service.py" "$WORK/libspans.so"
rm -f "/tmp/perf-$(head -n 1 "$WORK/python.out").map"
expect_rc python 5

# in_span SPAN FUNCTION CALLER...: the percentages of the span's time below these functions, and in complete stacks.
in_span()
{
	build/spanprof-report --folded --span-name "$1" "$WORK/d" >"$WORK/folded"
	python3 - "$WORK/folded" "${@:2}" <<'END'
import re, sys

below = complete = total = 0
for line in open(sys.argv[1]):
    stack, _, n = line.rstrip().rpartition(" ")
    if stack.startswith("[unsampled"):
        continue
    python = [f.split(":")[2].split(".")[-1] for f in stack.split(";") if f.startswith("py::")]
    at = iter(python)
    total += int(n)
    below += int(n) * all(f in at for f in sys.argv[2:])
    complete += int(n) * (not re.match(r"\[(incomplete|truncated)\]", stack))
print(100 * below // total, 100 * complete // total)
END
}

# all_in SPAN FUNCTION...
all_in()
{
	local got below complete

	got=$(in_span "$@") || fail "nothing in span $1"
	read -r below complete <<<"$got"
	((below >= 90)) || fail "$below % of span $1 are below ${*:2}: $(head -c 3000 "$WORK/folded")"
	[[ $(uname -m) != x86_64 ]] || ((complete >= 97)) || fail "$complete % of the stacks of $1 are complete: $(head -c 3000 "$WORK/folded")"
}

all_in 'POST /order' '<module>' serve handle_order price
all_in 'GET /stock' _bootstrap run serve handle_stock
[[ $(in_span 'POST /order' handle_stock) == 0\ * && $(in_span 'GET /stock' handle_order) == 0\ * ]] ||
	fail 'a function stands in the span of another one'
echo "Python's functions stand in the flame graph of their span ($("$python" -V))"
