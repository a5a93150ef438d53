#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our objects, built here, in an older and a newer Debian: a host that the compiler of that release builds there ends
# as without us, and it is either profiled, or one line says why not. With the carrier, whose exporter brings its own
# C library, it is profiled. So is a program whose threads change its ids again and again: the C library does that by
# the signal with which we sample, differently in each release. The product is built in both as well, because
# compilers and library headers change. Downloads some hundred megabytes: "make roots" runs it, "make test" does not.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

((EUID == 0)) || skip "needs root for debootstrap and chroot"
need debootstrap chroot python3
[[ -e build/carrier.done ]] || skip "no build/carrier (make carrier)"
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk '$1 == "bookworm" && $2 == "main" { print $3; exit }')
[[ -n $mirror ]] || skip "no apt source for bookworm to take the mirror from"

# The exporter's libraries have different package names in each release.
declare -A EXPORT_LIBS=(
	[bullseye]="libcurl4 libprotobuf-c1 libjansson4 libelf1 libdw1 libunwind8"
	[trixie]="libcurl4t64 libprotobuf-c1 libjansson4 libelf1t64 libdw1t64 libunwind8"
)

# With /proc, as in containers, and in a separate mount namespace, so that it is gone afterwards.
readonly -a IN_ROOT=(unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$@"' sh)

host_in()
{
	local root=$1 name=$2

	shift 2
	rm -rf "$root/profiles"
	mkdir "$root/profiles"
	run "$name" "${IN_ROOT[@]}" "$root" env -i PATH=/usr/bin:/bin LC_ALL=C "$@"
	expect_rc "$name" 7
	grep -qx 'done' "$WORK/$name.out" || fail "$name: $(<"$WORK/$name.out")"
}

# verdict NAME ROOT
verdict()
{
	local lines

	lines=$(grep -c . "$WORK/$1.err" || true)
	if [[ -n $(profiles_in "$2/profiles") ]]; then
		((lines == 0)) || fail "$1: profiled, but: $(<"$WORK/$1.err")"
		report "$2/profiles" "$WORK/$1.json"
		expect "$WORK/$1.json" 'd["labelled"]["ns"] >= 100e6'
		echo "$1: profiled"
	else
		[[ $lines == 1 && $(<"$WORK/$1.err") == 'spanprof['* ]] ||
			fail "$1: neither a profile nor one line: $(<"$WORK/$1.err")"
		echo "$1: $(<"$WORK/$1.err")"
	fi
}

for suite in bullseye trixie; do
	root=$WORK/$suite
	if ! debootstrap --variant=minbase --include="gcc,libc6-dev,${EXPORT_LIBS[$suite]// /,}" "$suite" \
		"$root" "$mirror" >"$WORK/$suite.log" 2>&1; then
		tail -n 3 "$WORK/$suite.log"
		skip "$suite cannot be made from $mirror"
	fi
	mkdir -p "$root/src/test"
	cp -r test/common test/hosts test/otelc test/sdk "$root/src/test"
	cp build/libspanprof.so build/spanprof-{exporter,run,entrypoint} "$root/src"
	chroot "$root" sh -ec 'cd /src
		gcc -O2 -I. -fPIC -shared -o /usr/lib/libfixture-otelc.so test/hosts/lib/fixture_otelc.c test/hosts/lib/fixture_spans.c -lpthread
		gcc -O2 -I. -o spend test/hosts/spend.c -lfixture-otelc -lpthread
		gcc -O2 -I. -o setxid test/hosts/setxid.c -lfixture-otelc -lpthread
		gcc -O2 -I. -static -o static test/hosts/plain.c'
	host_in "$root" "$suite.plain" /src/spend 200
	cp -r build/carrier "$root/carrier"
	for start in LD_PRELOAD=/src/libspanprof.so /src/spanprof-run /src/spanprof-entrypoint; do
		name=$suite.${start##*/}
		host_in "$root" "$name" SPANPROF_OUTPUT_DIR=/profiles "$start" /src/spend 200
		verdict "$name" "$root"
	done
	name=$suite.carrier
	host_in "$root" "$name" SPANPROF_OUTPUT_DIR=/profiles LD_PRELOAD=/carrier/lib/spanprof/libspanprof.so \
		/src/spend 200
	verdict "$name" "$root"
	[[ -n $(profiles_in "$root/profiles") ]] || fail "$name: not profiled"
	name=$suite.setxid
	rm -r "$root/profiles"
	run "$name" "${IN_ROOT[@]}" "$root" env -i PATH=/usr/bin:/bin LC_ALL=C SPANPROF_SAMPLE_RATE=1000 \
		SPANPROF_OUTPUT_DIR=/profiles LD_PRELOAD=/carrier/lib/spanprof/libspanprof.so /src/setxid
	expect_rc "$name" 12
	[[ $(result "$name.out") == changed ]] || fail "$name: $(<"$WORK/$name.out")"
	verdict "$name" "$root"
	[[ -n $(profiles_in "$root/profiles") ]] || fail "$name: not profiled"
	# Inactive in programs of that release.
	chroot "$root" env LD_PRELOAD=/src/libspanprof.so sh -c 'ls -l / && perl -e "print 1"' \
		>"$WORK/asleep.out" 2>"$WORK/asleep.err"
	[[ ! -s $WORK/asleep.err ]] || fail "$suite: $(<"$WORK/asleep.err")"
	run check chroot "$root" /src/spanprof-run --check /src/spend
	expect_rc check 0
	run check.static chroot "$root" /src/spanprof-run --check /src/static
	expect_rc check.static 2
done

# README's commands, with that release's compiler and libraries, and this machine's package sources.
for suite in bullseye trixie; do
	root=$WORK/$suite
	cp -L /etc/resolv.conf "$root/etc/"
	cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
	mkdir "$root/product"
	git archive HEAD | tar -x -C "$root/product"
	"${IN_ROOT[@]}" "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C sh -ec 'cd /product
		apt-get -q update
		scripts/install-deps.sh build
		make -j"$(nproc)"' >"$WORK/$suite.build.log" 2>&1 || {
		tail -n 20 "$WORK/$suite.build.log"
		fail "$suite: the product cannot be built there"
	}
	host_in "$root" "$suite.built" LD_PRELOAD=/product/build/libspanprof.so SPANPROF_OUTPUT_DIR=/profiles \
		/src/spend 200
	verdict "$suite.built" "$root"
	[[ -n $(profiles_in "$root/profiles") ]] || fail "$suite.built: not profiled"
done
