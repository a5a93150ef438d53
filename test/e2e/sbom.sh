#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The list of what we are linked with is well-formed SPDX 2.3, has the package of every library that
# the loader brings, and is the same twice.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 dpkg-query ldd
export SOURCE_DATE_EPOCH=1700000000
python3 scripts/sbom.py 1.2.3 >"$WORK/sbom.json"
expect "$WORK/sbom.json" '(d["spdxVersion"], d["SPDXID"]) == ("SPDX-2.3", "SPDXRef-DOCUMENT")'
expect "$WORK/sbom.json" 'd["creationInfo"]["created"] == "2023-11-14T22:13:20Z"'
expect "$WORK/sbom.json" 'len({p["SPDXID"] for p in d["packages"]}) == len(d["packages"]) > 5'
expect "$WORK/sbom.json" '{r["relatedSpdxElement"] for r in d["relationships"]} == {p["SPDXID"] for p in d["packages"]}'
expect "$WORK/sbom.json" 'all(p["versionInfo"] and "downloadLocation" in p for p in d["packages"])'
expect "$WORK/sbom.json" '{"libc6-dev", "libiberty-dev"} == {p["name"] for p in d["packages"] for r in d["relationships"] if r["relatedSpdxElement"] == p["SPDXID"] and r["relationshipType"] == "STATIC_LINK"} - {p["name"] for p in d["packages"] if p["name"].startswith("libgcc")}'
for library in libcurl4 libprotobuf-c1 libjansson4 libmicrohttpd12 libelf1 zlib1g libc6; do
	version=$(dpkg-query -W -f '${Version}' "$library")
	expect "$WORK/sbom.json" "[p['versionInfo'] for p in d['packages'] if p['name'] == '$library'] == ['$version']"
done
python3 scripts/sbom.py 1.2.3 | cmp - "$WORK/sbom.json" || fail "not the same twice"
