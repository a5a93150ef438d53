#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The version of the region is computed from its headers: another member, constant or record gives another version; a
# comment does not. An object and an exporter with different versions would misread each other's memory.
cd "$(dirname "$0")/../.."
# shellcheck source=test/gates/seed.bash
source test/gates/seed.bash

version()
{
	scripts/region-version.sh "$work"
}

built=$(<build/gen/region_version.h)
[[ $built =~ ^'#define SP_REGION_VERSION '[0-9]{5,}U$ ]] || { echo "not a version: $built"; exit 1; }
[[ $(scripts/region-version.sh) == "$built" ]] || { echo "build/gen has $built, and it is $(scripts/region-version.sh)"; exit 1; }
cp -r sampler export "$work/"
[[ $(version) == "$built" ]] || { echo "the same headers in another place are another version"; exit 1; }

# seed FILE EXPRESSION: gives another version, and the former one when it is undone.
seed()
{
	sed -i "$2" "$work/$1"
	! cmp -s "$1" "$work/$1" || { echo "nothing to seed a fault into: $1, $2"; exit 1; }
	[[ $(version) != "$built" ]] || { echo "the same version with $1, $2"; exit 1; }
	cp "$1" "$work/$1"
}

seed sampler/region/region.h 's/^	_Atomic uint32_t spans_open;/	_Atomic uint32_t spans_open, more;/'
seed sampler/region/region.h 's/^	SP_EXPORTER_FAILED, /	SP_EXPORTER_NEW, &/'
seed sampler/region/record.h 's/^	uint16_t flags;/	uint16_t bits;/'
seed sampler/base/counters.h 's/^	X(SIGNALS, .*/&\n&/'
sed -i '1a/* A comment\n * of two lines. */' "$work/sampler/region/region.h"
[[ $(version) == "$built" ]] || { echo "a comment is another version"; exit 1; }
