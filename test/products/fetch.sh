#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fetch.sh PRODUCT FOLDER: downloads the product as its users get it into FOLDER, with all dependencies.
# FOLDER/version names it and is written last, so a complete folder is not fetched again. mysql and tango are unpacked
# in FOLDER/root; pyarrow is in a virtual environment, FOLDER/venv.
set -euo pipefail
# shellcheck source=test/common/debian.bash
source "${BASH_SOURCE[0]%/*}/../common/debian.bash"

readonly PYARROW=26.0.1

mkdir -p "$2"
dir=$(cd "$2" && pwd)
readonly dir
[[ ! -s $dir/version ]] || exit 0

# from_debian PACKAGE "SUITE..." [PACKAGE OR OPTION]...
from_debian()
{
	local package=$1 suites=$2

	shift 2
	# shellcheck disable=SC2086
	debian_apt "$dir" $suites
	debian_packages "$dir" "$package" "$@" >"$dir/packages"
	debian_unpack "$dir" <"$dir/packages"
	# Two hundred megabytes that are not needed any more.
	rm -rf "$dir/apt"
	debian_version "$package" <"$dir/packages" >"$dir/version"
}

case $1 in
mysql)
	from_debian mysql-server-core sid mysql-client-core
	;;
tango)
	from_debian tango-test "bookworm bookworm-backports" -t bookworm-backports python3-tango
	;;
pyarrow)
	rm -rf "$dir/venv"
	python3 -m venv "$dir/venv"
	"$dir/venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "pyarrow==$PYARROW"
	echo "$PYARROW" >"$dir/version"
	;;
*)
	echo "fetch: no such product: $1" >&2
	exit 2
	;;
esac
