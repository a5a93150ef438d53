// SPDX-License-Identifier: Apache-2.0
/*
 * CPU time inside libstdc++: what a profile of a C program with C++ libraries has to be able to
 * name. Called by test/hosts/spans.c.
 */
#include <set>

extern "C" __attribute__((visibility("default"))) unsigned burn_tree(unsigned rounds)
{
	std::set<unsigned> tree;
	unsigned sum = 0;

	/* Rebalancing the tree is libstdc++'s, not a template's. */
	for (unsigned i = 0; i < rounds; i++)
		tree.insert(i);
	for (unsigned value : tree)
		sum += value;
	return sum;
}
