# SPDX-License-Identifier: Apache-2.0
"""Prints an SPDX 2.3 document, as JSON, with the packages that our objects and programs in build/ are linked
with, as dpkg knows them: usage sbom.py VERSION. Libraries that the loader loads are DYNAMIC_LINK, code that
is copied from archives is STATIC_LINK. The same packages and SOURCE_DATE_EPOCH give the same output."""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

PRODUCTS = ["libspanprof.so", "libspanprof-alloc.so", "spanprof-exporter", "spanprof-report", "spanprof-run"]
# Programs that load libcurl and its libraries at their first request.
REQUESTING = ["spanprof-exporter"]
# Archives that the Makefile links: the static C library of spanprof-run, libiberty, libgcc.
ARCHIVES = ["libc.a", "libiberty.a", "libgcc.a", "libgcc_eh.a"]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def owners(paths):
    """{path: package}; with merged /usr dpkg knows some files by their other name."""
    names = {path: {path, "/usr" + path, os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")}
             for path in paths}
    # One call for all paths, because each call is slow. dpkg-query does not know most of the paths, which is no error.
    said = subprocess.run(["dpkg-query", "-S"] + sorted(set().union(*names.values())),
                          capture_output=True, text=True).stdout
    known = {line.split(": ")[1]: line.split(": ")[0] for line in said.splitlines() if ": /" in line}
    for path in paths:
        if not names[path] & known.keys():
            sys.exit(f"sbom: no package has {path}")
    return {path: known[min(names[path] & known.keys())] for path in paths}


def described(name):
    fields = output("dpkg-query", "-W", "-f", "${Package}|${Version}|${Architecture}|${source:Package}|"
                    "${source:Version}|${Maintainer}|${Homepage}", name).split("|")
    package, version, arch, source, source_version, maintainer, homepage = fields
    plain = re.sub(r"\s*<.*", "", maintainer)
    return {
        "SPDXID": "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", package),
        "name": package,
        "versionInfo": version,
        "supplier": f"Organization: {plain}",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "homepage": homepage or "NOASSERTION",
        "sourceInfo": f"Debian source package {source} {source_version}",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{package}@{version.replace(':', '%3A').replace('+', '%2B')}"
                                f"?arch={arch}",
        }],
    }


def linked():
    """{package: how}"""
    how = {}
    for product in PRODUCTS:
        first = ["env", "LD_PRELOAD=libcurl.so.4"] if product in REQUESTING else []
        for path in re.findall(r"=> (/\S+)", output(*first, "ldd", f"build/{product}")):
            how[path] = "DYNAMIC_LINK"
    for archive in ARCHIVES:
        how[output("gcc", f"-print-file-name={archive}").strip()] = "STATIC_LINK"
    return {package: how[path] for path, package in sorted(owners(how).items())}


def main(version):
    packages = linked()
    ours = {
        "SPDXID": "SPDXRef-Package-spanprof",
        "name": "spanprof",
        "versionInfo": version,
        "supplier": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "2026 The spanprof authors",
    }
    others = sorted(((described(name), how) for name, how in packages.items()), key=lambda p: p[0]["name"])
    content = json.dumps([p for p, _ in others], sort_keys=True).encode()
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"spanprof-{version}",
        "documentNamespace": f"https://spanprof.invalid/spdx/{version}/{hashlib.sha256(content).hexdigest()}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [f"Tool: sbom.py-{version}"],
        },
        "packages": [ours] + [p for p, _ in others],
        "relationships": [{
            "spdxElementId": "SPDXRef-DOCUMENT",
            "relationshipType": "DESCRIBES",
            "relatedSpdxElement": ours["SPDXID"],
        }] + [{
            "spdxElementId": ours["SPDXID"],
            "relationshipType": how,
            "relatedSpdxElement": p["SPDXID"],
        } for p, how in others],
    }
    json.dump(document, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1])
