#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Generated code has the names of the program's perf map: with node (--perf-basic-prof), as root, as nobody, and in a
# container, where the process has another number and another /tmp. Without that file, or with another user's, the
# code is [anon], or [unknown] once it is not mapped any more.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need node unshare
cat >"$WORK/work.js" <<'END'
function handle_order(n) {
	let sum = 0;
	for (let i = 0; i < n; i++)
		sum += Math.sqrt(i) * i % 7;
	return sum;
}
let sum = 0;
const limit = process.cpuUsage().user + 400e3;
while (process.cpuUsage().user < limit)
	sum += handle_order(1e5);
console.log(sum > 0);
END
chmod 755 "$WORK"
chmod 644 "$WORK/work.js"
# A folder that stays visible when there is another /tmp.
mkdir "$WORK/object"
cp "$SO" "$EXPORTER" "$WORK/object"

# node leaves its perf map behind; the program first prints its process id.
readonly START="cd '$WORK' && echo \$\$ && exec env SPANPROF_PROFILE=always LD_PRELOAD='$WORK/object/libspanprof.so' node"
readonly WITH_MAP="$START --perf-basic-prof --no-logfile-per-isolate --logfile=/dev/null work.js"

# profiled NAME COMMAND...
profiled()
{
	local name=$1

	shift
	mkdir -m 777 "$WORK/$name.d"
	run "$name" SPANPROF_OUTPUT_DIR="$WORK/$name.d" "$@"
	rm -f "/tmp/perf-$(head -n 1 "$WORK/$name.out").map"
	expect_rc "$name" 0
	report "$WORK/$name.d" "$WORK/$name.json"
	expect "$WORK/$name.json" 'd["total"]["ns"] >= 300e6'
}

readonly IN_FUNCTION='sum(f["self_ns"] for f in d["functions"] if "handle_order " in f["function"])'
readonly NAMELESS='sum(f["self_ns"] for f in d["functions"] if f["function"] in ("[anon]", "[unknown]"))'

# named NAME
named()
{
	expect "$WORK/$1.json" "$IN_FUNCTION >= 0.5 * d['total']['ns']"
	expect "$WORK/$1.json" "$NAMELESS <= 0.1 * d['total']['ns']"
}

profiled root sh -c "$WITH_MAP"
named root
profiled without sh -c "$START work.js"
expect "$WORK/without.json" "$IN_FUNCTION == 0"
expect "$WORK/without.json" "$NAMELESS >= 0.5 * d['total']['ns']"

if has_nobody; then
	profiled nobody setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$WITH_MAP"
	named nobody
fi
if ((EUID == 0)) && unshare --mount --pid --fork true 2>/dev/null; then
	profiled container unshare --mount --pid --fork --mount-proc sh -c "mount --bind '$WORK' /mnt &&
		mount -t tmpfs tmpfs /tmp && mkdir -p '$WORK' && mount --move /mnt '$WORK' && $WITH_MAP"
	named container
fi
echo "generated code is named"
