/* SPDX-License-Identifier: Apache-2.0 */
/* Static functions of C that are inlined, split off and copied, and a function within a function. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *left, *right;
	int key;
};

static struct node *insert(struct node *n, int key)
{
	if (n == NULL) {
		n = calloc(1, sizeof(*n));
		if (n == NULL)
			abort();
		n->key = key;
		return n;
	}
	if (key < n->key)
		n->left = insert(n->left, key);
	else
		n->right = insert(n->right, key);
	return n;
}

static int depth(const struct node *n)
{
	int left, right;

	if (n == NULL)
		return 0;
	left = depth(n->left);
	right = depth(n->right);
	return 1 + (left > right ? left : right);
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static inline unsigned hash(const char *s)
{
	unsigned h = 5381;

	while (*s != '\0')
		h = h * 33 + (unsigned char)*s++;
	return h;
}

int main(int argc, char **argv)
{
	struct node *root = NULL;
	int key[64];

	for (int i = 0; i < 64; i++) {
		key[i] = (int)(hash(argv[0]) >> i % 16) ^ i * argc;
		root = insert(root, key[i]);
	}
	qsort(key, 64, sizeof(key[0]), by_value);
	printf("%d %d %d\n", depth(root), key[0], key[63]);
	return 0;
}
