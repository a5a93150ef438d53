#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: build-deb.sh DIR. The Debian package of the sources as git has them (with what is changed but
# not committed), built in a folder of its own; the .deb and its debug symbols go to DIR.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/package.bash
source scripts/package.bash
package_to "$1"

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
