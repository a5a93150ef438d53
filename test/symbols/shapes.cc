// SPDX-License-Identifier: Apache-2.0
// Functions whose names depend on their scopes: unnamed namespaces, local classes, lambdas, members of templates.
#include <array>
#include <cstdio>
#include <functional>
#include <vector>

extern volatile long sink;
volatile long sink;

namespace
{
struct Parser {
	void step(int n)
	{
		for (int i = 0; i < n; i++)
			sink += i;
	}
};

struct Writer {
	void step(int n)
	{
		for (int i = 0; i < n; i++)
			sink ^= i;
	}
};

template <typename T, unsigned long N> struct Ring {
	std::array<T, N> slot;
	template <bool FORWARDS> void turn(int n)
	{
		for (int i = 0; i < n; i++)
			slot[static_cast<unsigned long>(FORWARDS ? i : n - i) % N] += sink;
	}
};
} // namespace

namespace shop
{
inline namespace v1
{
static void total(int n)
{
	for (int i = 0; i < n; i++)
		sink += 3 * sink;
}
} // namespace v1
} // namespace shop

namespace bank
{
static void total(int n)
{
	for (int i = 0; i < n; i++)
		sink += 5 * sink;
}

struct Account {
	struct Entry {
		void book(int n);
	};
	virtual void close(int n)
	{
		Entry().book(n);
	}
	virtual ~Account() = default;
};

void Account::Entry::book(int n)
{
	total(n);
}
} // namespace bank

template <typename F> static void twice(F f)
{
	f(1);
	f(2);
}

static auto global_lambda = [](int n) { sink -= n; };

static void make_report(int n)
{
	struct Line {
		void put(int k)
		{
			sink += 7 * k;
		}
	};
	Parser parser;

	Line().put(n);
	twice([&](int k) { parser.step(k + n); });
	twice([=](auto k) { Writer().step(n - k); });
	std::function<void(int)> f = [n](int k) { [=] { sink += n * k; }(); };
	f(n);
	global_lambda(n);
}

int main(int argc, char **)
{
	Ring<long, 16> ring = {};
	bank::Account account;
	std::vector<std::function<void(int)>> all = {make_report, [&](int n) { account.close(n); }};

	Parser().step(argc);
	Writer().step(argc);
	ring.turn<true>(argc);
	ring.turn<false>(argc);
	shop::total(argc);
	bank::total(argc);
	for (const auto &f : all)
		f(argc);
	std::printf("%ld\n", sink);
	return 0;
}
