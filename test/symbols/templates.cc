// SPDX-License-Identifier: Apache-2.0
// A C++ program with templates, lambdas, inlining and code in several namespaces, as a subject for debug information.
// It can run, so the linker keeps all of it.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

namespace shop
{
template <typename T, unsigned N> struct Grid {
	T cell[N][N];

	template <typename F> T fold(T start, F f) const
	{
		for (const auto &row : cell)
			start = std::accumulate(row, row + N, start, f);
		return start;
	}
};

struct Item {
	std::string name;
	double price;
	bool operator<(const Item &other) const
	{
		return price < other.price;
	}
};

class Cart
{
      public:
	virtual ~Cart() = default;
	virtual double total() const
	{
		return std::accumulate(items.begin(), items.end(), 0.0,
				       [](double sum, const Item &i) { return sum + i.price; });
	}
	void add(Item item)
	{
		items.push_back(std::move(item));
		std::stable_sort(items.begin(), items.end());
	}

      protected:
	std::vector<Item> items;
};

class Discounted : public Cart
{
      public:
	explicit Discounted(std::function<double(double)> f) : rule(std::move(f))
	{
	}
	double total() const override
	{
		return rule(Cart::total());
	}

      private:
	std::function<double(double)> rule;
};
} // namespace shop

namespace
{
using Value = std::variant<int, double, std::string>;

std::string show(const Value &value)
{
	return std::visit(
		[](const auto &v) {
			std::ostringstream out;
			out << v;
			return out.str();
		},
		value);
}

template <int N> int ladder(int x)
{
	if constexpr (N == 0)
		return x * 3 + 1;
	else
		return ladder<N - 1>(x ^ N) + N;
}

std::map<std::string, unsigned> words(const std::string &text)
{
	std::map<std::string, unsigned> count;
	std::istringstream in(text);

	for (std::string word; in >> word;)
		count[word]++;
	return count;
}
} // namespace

int main(int argc, char **)
{
	shop::Grid<long, 16> grid{};
	auto cart = std::make_unique<shop::Discounted>([argc](double t) { return t * 0.9 / argc; });
	long sum = 0;

	for (int i = 0; i < 16; i++)
		grid.cell[i][15 - i] = ladder<20>(i);
	sum = grid.fold(0L, [](long a, long b) { return a * 31 + b; });
	for (const char *name : {"tea", "salt", "rope"})
		cart->add({name, static_cast<double>(sum % 97)});
	for (const auto &[word, n] : words("the cat and the dog and the bird"))
		std::printf("%s %u\n", word.c_str(), n);
	std::printf("%s %s %.2f\n", show(Value(3)).c_str(), show(Value("x")).c_str(),
		    cart->total());
	return 0;
}
