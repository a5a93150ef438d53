#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: build-deb.sh DIR. The Debian package of the sources as git has them (with what is changed but
# not committed), built in a folder of its own; the .deb and its debug symbols go to DIR. The same
# sources give the same bytes, wherever they are built: SOURCE_DATE_EPOCH defaults to the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/.*SP_VERSION "\(.*\)"/\1/p' sampler/base/compiler.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

mkdir "$work/spanprof"
git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - |
	tar -C "$work/spanprof" -xf -
cp -r scripts/debian "$work/spanprof/debian"
# The notes are in the file; its newest entry is of the version that the sources have.
sed -i "s/@VERSION@/$version/; s/@DATE@/$(date -R -u -d "@$SOURCE_DATE_EPOCH")/" "$work/spanprof/debian/changelog"
# The package keeps the times of files that it takes as they are.
find "$work/spanprof" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
cd "$work/spanprof"
# Whoever runs this may have set variables for another build.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u CC -u B -u DEV -u CI \
	dpkg-buildpackage -b -us -uc -d >"$work/log" 2>&1 || {
	tail -n 40 "$work/log" >&2
	exit 1
}
cp "$work"/*.deb "$out"
