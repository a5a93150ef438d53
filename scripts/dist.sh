#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: dist.sh DIR. Adds to the packages in DIR: the sources and the carrier as tar files, a list
# of the software in the carrier and in our programs (SPDX), and checksums of all files.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly DIR=$1
# shellcheck source=scripts/package.bash
source scripts/package.bash
export LC_ALL=C
name=spanprof-$version-$(dpkg --print-architecture)

tar -C build/carrier --sort=name --owner=0 --group=0 --numeric-owner --format=posix \
	--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime \
	--mtime="@$SOURCE_DATE_EPOCH" --transform "s|^\.|$name|" -cf - . | gzip -9n >"$DIR/$name.tar.gz"
# The sources come from git: changes that are not committed are not part of a release.
git archive --format=tar --prefix="spanprof-$version/" HEAD |
	gzip -9n >"$DIR/spanprof-$version.tar.gz"
python3 scripts/sbom.py "$version" >"$DIR/$name.spdx.json"
cd "$DIR"
sha256sum ./*.deb ./*.rpm ./*.tar.gz ./*.json | sed 's|\./||' >SHA256SUMS
cat SHA256SUMS
