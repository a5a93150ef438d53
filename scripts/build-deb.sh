#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: build-deb.sh DIR. Makes the Debian package of the sources in git, including changes that
# are not committed, in a temporary folder; the .deb and its debug symbols go to DIR.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/package.bash
source scripts/package.bash
package_to "$1"

mkdir "$work/spanprof"
git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - |
	tar -C "$work/spanprof" -xf -
cp -r scripts/debian "$work/spanprof/debian"
# The newest entry of the changelog gets the version and date of the sources.
sed -i "s/@VERSION@/$version/; s/@DATE@/$(date -R -u -d "@$SOURCE_DATE_EPOCH")/" "$work/spanprof/debian/changelog"
# A package stores the times of its files.
find "$work/spanprof" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
cd "$work/spanprof"
# The caller may have set variables for another build.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u CC -u B -u DEV -u CI \
	dpkg-buildpackage -b -us -uc -d >"$work/log" 2>&1 || {
	tail -n 40 "$work/log" >&2
	exit 1
}
cp "$work"/*.deb "$out"
