#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Profiles of allocations: bytes and blocks of each span are the program's own counts, for any size and number of
# threads. A program with the second object runs as without it, even if other parts are missing.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly ALLOC_SO=${SO%/*}/libspanprof-alloc.so
readonly BOTH="$SO $ALLOC_SO"
readonly MEAN=131072

# under NAME OBJECTS [VARIABLE=VALUE]... COMMAND...: runs it with these objects preloaded, and with profiles in NAME.
under()
{
	local name=$1 objects=$2

	shift 2
	mkdir "$WORK/$name"
	run "$name" LD_PRELOAD="$objects" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_ALLOC=true "$@"
}

# allocated NAME [TYPE]: the allocations in the profiles, as JSON.
allocated()
{
	build/spanprof-report --json --type "${2:-alloc_space}" "$WORK/$1" >"$WORK/$1.json"
}

# no_memory NAME: there is no profile of allocations.
no_memory()
{
	! compgen -G "$WORK/$1/*-memory.pb.gz" >/dev/null || fail "$1: a profile of allocations"
}

# as_counted NAME DEVIATIONS [TYPE]: every sum differs from the truth by at most that many standard deviations.
as_counted()
{
	allocated "$1" "${3:-alloc_space}"
	python3 test/e2e/allocs.py "$WORK/$1.out" "$WORK/$1.json" "$MEAN" "$2" || fail "$1: not what was allocated"
}

# Five standard deviations: one run in a million fails, in one of its 27 sums.
for threads in 1 64; do
	under "truth.$threads" "$BOTH" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/allocs" truth "$threads"
	expect_rc "truth.$threads" 0
	expect_silent "truth.$threads"
	as_counted "truth.$threads" 5
done
# The children of a server draw their samples differently.
under children "$BOTH" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/allocs" children 128
expect_rc children 0
as_counted children 5
# The caller of the allocator is on top, and below it the caller of that one.
build/spanprof-report --folded --type alloc_space "$WORK/truth.1" >"$WORK/folded"
grep -q ';work;by_malloc [0-9]*$' "$WORK/folded" || fail "stacks: $(head -3 "$WORK/folded")"
build/spanprof-report --type alloc_space "$WORK/truth.1" >"$WORK/table"
grep -q 'MiB allocated; in spans: ' "$WORK/table" || fail "table: $(head -3 "$WORK/table")"
# Without a type the report is about CPU time, and says which other types there are.
build/spanprof-report "$WORK/truth.1" >"$WORK/table"
grep -q 'allocations are in another profile: use --type alloc_space' "$WORK/table" || fail "no hint"

# In either order of the objects, with snapshots of stacks, and in front of other allocators.
under order "$ALLOC_SO $SO" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/allocs" truth 2
as_counted order 5
under snapshot "$BOTH" SPANPROF_ALLOC_INTERVAL=$((8 * MEAN)) SPANPROF_UNWIND=snapshot "$HOSTS/allocs" truth 2
expect_rc snapshot 0
build/spanprof-report --folded --type alloc_space "$WORK/snapshot" >"$WORK/folded"
grep -q ';work;by_malloc [0-9]*$' "$WORK/folded" || fail "stacks of snapshots: $(head -3 "$WORK/folded")"
# C++'s operators are counted once, those of the C++ library by its calls of malloc(), and their exceptions reach the
# program.
run operators LD_PRELOAD= "$HOSTS/operators" odd
under operators.odd "$BOTH" SPANPROF_ALLOC_INTERVAL=1 "$HOSTS/operators" odd
expect_same operators operators.odd out err rc
for what in truth left; do
	under "operators.$what" "$BOTH" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/operators" "$what"
	expect_rc "operators.$what" 0
done
as_counted operators.truth 5
as_counted operators.left 5 inuse_space
# opened LIBRARY: plugins get the same operators as without the second object, before and after others are unloaded.
opened()
{
	local plugins=("$TEST_LIBS"/liboperators_{a,inside,b,shared}.so)

	run "opener.$1" LD_PRELOAD="$1" "$HOSTS/operators_opener" "${plugins[@]}"
	expect_rc "opener.$1" 0
	under "opened.$1" "$BOTH $1" "$HOSTS/operators_opener" "${plugins[@]}"
	expect_same "opener.$1" "opened.$1" out err rc
}
opened ""
for library in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2; do
	if [[ $(ldconfig -p) != *"$library"* ]]; then
		left_out "an allocator that is not installed: $library"
		continue
	fi
	under "behind.$library" "$BOTH $library" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/allocs" truth 4
	expect_rc "behind.$library" 0
	as_counted "behind.$library" 5
	under "left.$library" "$BOTH $library" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/leaks"
	expect_rc "left.$library" 0
	as_counted "left.$library" 5 inuse_space
	# The allocator's operators do not call malloc(), or only some of them do; it is preloaded or linked.
	under "operators.$library" "$BOTH $library" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/operators" truth
	under "linked.$library" "$BOTH" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/operators_$library" truth
	under "kept.$library" "$BOTH" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/operators_$library" left
	for name in operators linked kept; do
		expect_rc "$name.$library" 0
		expect_silent "$name.$library"
	done
	as_counted "operators.$library" 5
	as_counted "linked.$library" 5
	as_counted "kept.$library" 5 inuse_space
	build/spanprof-report --folded --type alloc_space "$WORK/operators.$library" >"$WORK/folded"
	grep -q ';[^;]*work;[^;]*by_new [0-9]*$' "$WORK/folded" || fail "stacks of $library: $(grep by_new "$WORK/folded" | head -3)"
	run "plain.$library" LD_PRELOAD="$library" "$HOSTS/operators" odd
	under "odd.$library" "$BOTH $library" SPANPROF_ALLOC_INTERVAL=1 "$HOSTS/operators" odd
	expect_same "plain.$library" "odd.$library" out err rc
	opened "$library"
	# An allocator in front of our object hides all allocations, and there is a message about it.
	under "front.$library" "$SO $library $ALLOC_SO" "$HOSTS/allocs" truth 1
	expect_rc "front.$library" 0
	grep -q 'has an allocator of its own in front of libspanprof-alloc.so' "$WORK/front.$library.err" ||
		fail "$library in front is not told"
	no_memory "front.$library"
done

under nested "$BOTH $TEST_LIBS/libnested.so" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/allocs" truth 4
expect_rc nested 0
as_counted nested 5

# The report has the memory that spans leave behind when they end. It has no freed memory, wherever and by whichever
# thread it was freed.
under leaks "$BOTH" SPANPROF_ALLOC_INTERVAL=$MEAN "$HOSTS/leaks"
expect_rc leaks 0
expect_silent leaks
as_counted leaks 5 inuse_space
expect "$WORK/leaks.json" "not {'frees', 'hands over', 'vforks'} & {n['span_name'] for n in d['span_names']}"
expect "$WORK/leaks.json" "[s['span_name'] for s in d['spans']] == ['is open']"
# Of the thread that has ended; these blocks have no span.
expect "$WORK/leaks.json" "39 << 20 < d['total']['bytes'] - d['labelled']['bytes'] < 42 << 20"
# The same with spans of an SDK, which itself allocates in them.
under leaks_sdk "$BOTH" SPANPROF_ALLOC_INTERVAL=$MEAN SPANPROF_PROFILE_URL='http://grafana/{profile_type}' \
	OTELC_SPANS_JSON="$WORK/leaks_sdk.spans" "$HOSTS/leaks_sdk"
expect_rc leaks_sdk 0
# Each span with a sample has a link, either to CPU time or, if only allocations were sampled, to those.
for type in cpu alloc_space; do
	build/spanprof-report --json --type "$type" "$WORK/leaks_sdk" >"$WORK/$type.json"
done
python3 test/e2e/off_cpu.py types "$WORK/leaks_sdk.spans" "$WORK/cpu.json" memory "$WORK/alloc_space.json"
allocated leaks_sdk inuse_space
# 64 blocks of 1 MiB: one of them is missed in two of a hundred runs.
expect "$WORK/leaks_sdk.json" "[60 << 20 < n['bytes'] < 66 << 20 for n in d['span_names'] if n['span_name'] == 'leaks large'] == [True]"
expect "$WORK/leaks_sdk.json" "[s['span_name'] for s in d['spans']] == ['is open']"
build/spanprof-report --type inuse_space "$WORK/leaks" >"$WORK/table"
# Each root says exactly how many bytes it has allocated itself, if allocations are counted.
told_bytes()
{
	python3 - "$WORK/$1.spans" "$2" <<'END' || fail "$1: $(grep -o '"name":[^,]*\|spanprof.alloc[^,]*' "$WORK/$1.spans" | head -20)"
import json, sys
least = {"leaks small": 10**8, "leaks large": 64 << 20, "frees": 10**8, "hands over": 64 << 20,
         "grows": 64 * 1000 + (128 << 20), "shrinks": (500 << 20) + 500 * 60000, "is refused": 64 << 20}
spans = {s["name"]: s["attributes"].get("spanprof.allocated_bytes") for s in map(json.loads, open(sys.argv[1]))}
told = {name: bytes for name, bytes in spans.items() if bytes is not None}
if sys.argv[2] == "none":
    sys.exit(len(told))
# Besides the program, its SDK allocates, and printf() does once.
sys.exit(any(not bytes <= told[name] < bytes + 20000 for name, bytes in least.items()))
END
}
for host in leaks leaks_sdk; do
	for alloc in true false; do
		under "$host.$alloc" "$BOTH" SPANPROF_SPAN_TIMES=true SPANPROF_ALLOC=$alloc \
			SPANPROF_ALLOC_INTERVAL=1073741824 FIXTURE_SPANS="$WORK/$host.$alloc.spans" \
			OTELC_SPANS_JSON="$WORK/$host.$alloc.spans" "$HOSTS/$host"
		told_bytes "$host.$alloc" "$([[ $alloc == true ]] && echo all || echo none)"
	done
done
grep -q 'span_name: allocated in the span and in use after its end$' "$WORK/table" || fail "table: $(head -3 "$WORK/table")"
# In each mode, and with an allocator that has a different realloc; all memory is freed in the end.
for mode in auto snapshot; do
	under "gone.$mode" "$BOTH" SPANPROF_ALLOC_INTERVAL=$((8 * MEAN)) SPANPROF_UNWIND=$mode SPANPROF_OUTPUT_FORMAT=otlp \
		"$HOSTS/leaks" gone
	allocated "gone.$mode" inuse_space
	expect "$WORK/gone.$mode.json" "d['total']['bytes'] == 0 and d['span_names'] == []"
	allocated "gone.$mode"
	expect "$WORK/gone.$mode.json" "d['total']['bytes'] > 500 << 20"
done

# If parts are missing or switched off, the program runs as usual, and there is no needless message.
run plain "$HOSTS/allocs" odd
expect_rc plain 0
under odd "$BOTH" SPANPROF_ALLOC_INTERVAL=1024 "$HOSTS/allocs" odd
under alone "$ALLOC_SO" "$HOSTS/allocs" odd
under killed "$BOTH" SPANPROF_DISABLED=true "$HOSTS/allocs" odd
under unasked "$BOTH" SPANPROF_ALLOC=false "$HOSTS/allocs" odd
under absent "$SO" "$HOSTS/allocs" odd
for name in odd alone killed unasked absent; do
	expect_same plain "$name" out rc
done
for name in alone killed; do
	expect_silent "$name"
done
for name in alone killed unasked absent; do
	no_memory "$name"
done
grep -q 'SPANPROF_ALLOC needs a second object: set LD_PRELOAD to' "$WORK/absent.err" || fail "what is absent is not told"
[[ $(grep -c SPANPROF_ALLOC "$WORK/absent.err") == 1 ]] || fail "told more than once"
allocated odd
# Three stacks with 200 blocks of 64 KiB each under the label, and four MiB; and the same once in each of eight
# threads. The interval is so small that nearly all blocks are sampled.
expect "$WORK/odd.json" "abs(d['labelled']['bytes'] - (600 * 65536 + (4 << 20))) < 1 << 20"
expect "$WORK/odd.json" "abs(d['total']['bytes'] - (2200 * 65536 + (4 << 20))) < 2 << 20"
expect "$WORK/odd.json" "[n['span_name'] for n in d['span_names'] if n['bytes'] != 0] == ['odd']"

# A handler interrupts the taking of a sample and takes samples itself, 4 MB in all, as far as the ring has room.
under handler "$BOTH $TEST_LIBS/libbump.so" SPANPROF_ALLOC_INTERVAL=1024 "$HOSTS/allocs" handler
expect_rc handler 0
allocated handler
expect "$WORK/handler.json" "any(f['function'] == 'on_tick' and f['total_bytes'] > 4e5 for f in d['functions'])"

# All blocks are freed while the ring is full, and no thread allocates afterwards.
under full "$BOTH" SPANPROF_ALLOC_INTERVAL=1024 "$HOSTS/allocs" full 4
expect_rc full 0
grep -q 'stay in the profile of memory' "$WORK/full.err" && fail "$(cat "$WORK/full.err")"
allocated full inuse_space
expect "$WORK/full.json" "d['labelled']['bytes'] == 0"

# Blocks that C23's functions free are gone, whether the C library has these functions or a program only believes so.
# Blocks that an allocator's calloc() and realloc() get by calling malloc() are counted once.
for allocator in "" "$TEST_LIBS/libbump.so"; do
	name=sized${allocator:+.bump}
	under "$name" "$BOTH $allocator" SPANPROF_ALLOC_INTERVAL=1024 "$HOSTS/allocs" sized
	expect_rc "$name" 0
	allocated "$name"
	expect "$WORK/$name.json" "60 << 20 < d['labelled']['bytes'] < 65 << 20"
	allocated "$name" inuse_space
	expect "$WORK/$name.json" "d['labelled']['bytes'] == 0"
done

# A program with a sanitizer keeps its allocator. It refuses to start behind another object, unless an option allows
# it.
under sanitized "$BOTH" ASAN_OPTIONS=verify_asan_link_order=0:allocator_may_return_null=1 \
	"$HOSTS/allocs_sanitized" odd
expect_same plain sanitized out rc
no_memory sanitized
grep -q 'SPANPROF_ALLOC: the program has a sanitizer' "$WORK/sanitized.err" || fail "a sanitizer is not told"

# A search for leaks finds the program's lost blocks, although our table has their addresses.
run lost "$HOSTS/allocs_leaky" lost
under lost.sampled "$BOTH" SPANPROF_ALLOC_INTERVAL=1024 "$HOSTS/allocs_leaky" lost
expect_same lost lost.sampled out rc
cmp <(grep SUMMARY "$WORK/lost.err") <(grep SUMMARY "$WORK/lost.sampled.err") || fail "other leaks than without us"
allocated lost.sampled inuse_space
expect "$WORK/lost.sampled.json" "d['labelled']['bytes'] > 95 * 65536"

# Our own launchers preload the object without being given its path.
mkdir -p "$WORK/runner" "$WORK/entrypoint"
run runner build/spanprof-run --alloc --output "$WORK/runner" -- "$HOSTS/allocs" odd
run entrypoint SPANPROF_ALLOC=true SPANPROF_OUTPUT_DIR="$WORK/entrypoint" LD_PRELOAD=libm.so.6 \
	build/spanprof-entrypoint "$HOSTS/allocs" odd
for name in runner entrypoint; do
	expect_same plain "$name" out rc
	allocated "$name"
	expect "$WORK/$name.json" "d['labelled']['bytes'] > 400 * 65536"
done
