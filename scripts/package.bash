# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Shared code of the scripts that make packages; sourced from the top of the repository. The same
# sources give the same bytes on any machine and at any time: all times are those of the last
# commit, or SOURCE_DATE_EPOCH.
version=$(sed -n 's/.*SP_VERSION "\(.*\)"/\1/p' sampler/base/compiler.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# package_to DIR: sets out to the folder for the package, which it makes, and work to a temporary
# folder.
package_to()
{
	mkdir -p "$1"
	out=$(cd "$1" && pwd)
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
}
