#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The short form of "make corpus-rooted": the same work, once, for the runtimes that "make test" installs anyway. It
# fails only if it is next to impossible that 99.9 % of the samples are unwound to the beginning of their thread; make
# corpus takes enough samples to show that.
# Times here are CPU time, so a busy machine may take long.
TEST_RUN_LIMIT_S=240
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/corpus/common.bash
source test/corpus/common.bash
# shellcheck source=test/corpus/programs.bash
source test/corpus/programs.bash

need python3 perl openssl xz clang git

# Only some of our files, to save time.
WORDS[clang]='for file in $ROOT/sampler/*/s*.c; do
	clang -std=gnu11 -D_GNU_SOURCE= -I$ROOT -O2 -c -o source.o "$file"; done'
WORDS[xz]='xz -T2 -1 -c big | xz -dc | cmp - big'

mkdir "$WORK/profiles"
make_data 1000
for name in python3 perl git clang xz; do
	run "$name" LD_PRELOAD="$SO" SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_STACK_DEPTH=496 \
		SPANPROF_SYMBOLIZE=names SPANPROF_FLUSH_TIMEOUT=30s SPANPROF_OUTPUT_DIR="$WORK/profiles" \
		ROUND=1 CORPUS="$CORPUS" ROOT="$ROOT" bash -c "cd '$DATA' && ${WORDS[$name]}"
	expect_rc "$name" 0
done
# Some seconds of CPU time; even a kernel with the slowest tick gives 100 samples each.
python3 "$CORPUS/stacks.py" plausible "$WORK/profiles" '.*' 100
