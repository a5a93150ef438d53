#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016
# Ordinary programs do not notice: same output, same messages, same exit status, with the default
# settings (where they never start profiling) and when every process is profiled from its start.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need ls grep sed awk tar gzip python3 perl git find sort env curl true

readonly DATA=$WORK/data
declare -A PROGRAM=(
	[sh]='sh -c "for i in 1 2 3; do echo \$i; done | while read -r n; do echo got \$n; done; exit 9"'
	[ls]='ls -lR . missing'
	[grep]='grep -rn line folder lines; grep -c 7 lines missing'
	[sed]='sed -n "s/line \([0-9]*\)5/\1/p" lines'
	[awk]='awk "{ n += \$2 } END { print n; exit 4 }" lines'
	[tar]='tar cf - --sort=name --mtime=@0 --owner=0 --group=0 . | tar tvf -'
	[gzip]='gzip -n -9 <lines | gzip -dc; echo broken | gzip -d'
	[python3]='python3 -S -c "import sys, threading
t = threading.Thread(target=lambda: print(sum(range(6000000))))
t.start(); t.join(); sys.stderr.write(\"bye\n\"); sys.exit(5)"'
	[perl]='perl -e "my \$n = 0; \$n += \$_ for 1..200000; print \"\$n\n\"; warn \"careful\n\"; exit 6"'
	[git]='git init -q -b main repo && cd repo && cp ../lines . && git add lines &&
		git commit -q -m first && git log -p --stat | head -50 && git status --short && git fsck'
	[find]='find . -type f -size +0 | sort | xargs cat | wc; find missing'
	[sort]='sort -rn -k2 --parallel=2 lines; sort missing'
	[env]='env -u LD_PRELOAD -u SPANPROF_PROFILE -u SPANPROF_OUTPUT_DIR env KEPT=1'
	[curl]='curl -sS "file://$PWD/lines" -o copy; cmp copy lines && curl -s http://127.0.0.1:1/'
	[true]='true'
)

fresh_data()
{
	rm -rf "$DATA"
	mkdir -p "$DATA/folder"
	seq -f 'line %.0f' 1 2000 >"$DATA/lines"
	echo 'one line' >"$DATA/folder/small"
	ln -s lines "$DATA/link"
	touch -d @1700000000 "$DATA/lines" "$DATA/folder/small" "$DATA/folder" "$DATA"
	touch -h -d @1700000000 "$DATA/link"
}

export HOME=$WORK GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000
export GIT_AUTHOR_NAME=t GIT_COMMITTER_NAME=t EMAIL=t@example.com GIT_CONFIG_NOSYSTEM=1

both()
{
	local name=$1 part=$2

	shift 2
	fresh_data
	run "$name" "$@" bash -c "cd '$DATA' && ${PROGRAM[$name]}"
	fresh_data
	run_under "$name.$part" "$@" bash -c "cd '$DATA' && ${PROGRAM[$name]}"
	expect_same "$name" "$name.$part" out err rc
}

for name in "${!PROGRAM[@]}"; do
	both "$name" default
done

mkdir "$WORK/profiles"
for name in "${!PROGRAM[@]}"; do
	both "$name" always SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 \
		"SPANPROF_OUTPUT_DIR=$WORK/profiles"
done
# Otherwise the second part would prove nothing.
[[ -n $(profiles_in "$WORK/profiles") ]] || fail "nothing was profiled"
echo "${#PROGRAM[@]} programs, $(profiles_in "$WORK/profiles" | wc -l) profiles"
