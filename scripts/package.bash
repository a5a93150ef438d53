# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# What the scripts that make packages share; sourced from the top of the repository. The same sources give the
# same bytes, wherever and whenever they are packed: times are those of the last commit, unless
# SOURCE_DATE_EPOCH says otherwise.
version=$(sed -n 's/.*SP_VERSION "\(.*\)"/\1/p' sampler/base/compiler.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# package_to DIR: sets out, the folder for the package, which is made, and work, which goes at the end.
package_to()
{
	mkdir -p "$1"
	out=$(cd "$1" && pwd)
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
}
