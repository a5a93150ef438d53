/* SPDX-License-Identifier: Apache-2.0 */
/* The shared objects that the loader will bring into a program, or has brought into a process. */
#ifndef SP_TREE_H
#define SP_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "scripts/run/elf_file.h"
#include "scripts/run/process.h"
#include "scripts/run/target.h"

#define SP_TREE_MAX 512U

struct sp_tree_object {
	char *path;
	dev_t dev;
	ino_t ino;
};

struct sp_tree {
	struct sp_tree_object object[SP_TREE_MAX]; /* in load order; the program is the first */
	unsigned n;
	char *missing; /* names that the loader does not find, separated by spaces; NULL = none */
	char *said;    /* what else it said, or why it was not asked; NULL = nothing */
	bool full;
	int exe; /* the program's file when it runs, borrowed; -1 = by its path */
};

/* With that LD_PRELOAD. The program alone if its loader cannot be asked. */
void sp_tree_of_program(const struct sp_target *program, const char *preload, struct sp_tree *t);

/* What is mapped into a running process, which must outlive the tree. False when that cannot be read. */
bool sp_tree_of_process(const struct sp_process *p, struct sp_tree *t);

/* As sp_elf_open(), of the i-th. */
int sp_tree_open(const struct sp_tree *t, unsigned i, struct sp_elf *f);

void sp_tree_free(struct sp_tree *t);

#endif
