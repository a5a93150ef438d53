// SPDX-License-Identifier: Apache-2.0
/*
 * CPU time inside libstdc++: the profile of a C program with C++ libraries must name its functions. Called by
 * test/hosts/spans.c.
 */
#include <set>

extern "C" __attribute__((visibility("default"))) unsigned burn_tree(unsigned rounds)
{
	std::set<unsigned> tree;
	unsigned sum = 0;

	/* libstdc++ itself rebalances the tree, not a template. */
	for (unsigned i = 0; i < rounds; i++)
		tree.insert(i);
	for (unsigned value : tree)
		sum += value;
	return sum;
}
