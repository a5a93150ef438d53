#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: build-rpm.sh DIR. Makes a package for distributions that use RPM. These distributions have
# other versions of our libraries, so the package contains the carrier's libraries, with the C
# library and its loader, and needs only a shell. The built files come from build/ and
# build/carrier. RPM_RELEASE=n makes another package of the same version.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/package.bash
source scripts/package.bash
package_to "$1"
export LC_ALL=C TZ=UTC
umask 022

env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s install SPANPROF_SKIP_DEPS=1 DESTDIR="$work/files" PREFIX=/usr >/dev/null
# The programs find their files in ../lib/spanprof, wherever they are installed.
cp -r build/carrier/bin build/carrier/lib "$work/files/usr"
install -D -m 0644 LICENSE "$work/files/usr/share/licenses/spanprof/LICENSE"
find "$work/files" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

# The files are complete, so rpmbuild must not change them or derive requirements from them. ~ sorts before the release, as in Debian's versions.
cat >"$work/spanprof.spec" <<END
%global __os_install_post %{nil}
%global debug_package %{nil}
%global _build_id_links none
Name: spanprof
Version: ${version//-/\~}
Release: ${RPM_RELEASE:-1}
Summary: Span profiles for native programs, by preloading one object
License: Apache-2.0
AutoReqProv: no
Requires: /bin/sh

%description
Samples the CPU time of unmodified C and C++ programs that use an OpenTelemetry SDK, and pushes profiles to
Grafana Pyroscope. Each sample carries the span in which it was taken, so a slow span opens the flame graph of
exactly that span.

Installing this package changes no program. See spanprof(7) for how to preload the object into one, and
spanprof-doctor(1) for when no profiles show up.

%install
cp -a "$work/files/." %{buildroot}

# Removes the object from /etc/ld.so.preload before its file is removed; otherwise every program
# would complain.
%preun
if [ "\$1" = 0 ]; then
	spanprof-preload disable
fi

%files
%defattr(-,root,root)
$(cd "$work/files" && find . -path ./usr/lib/spanprof -prune -o ! -type d -printf '/%P\n' | sort)
/usr/lib/spanprof
%dir /usr/share/licenses/spanprof
END

# The package has no name of a machine and no time of a build.
rpmbuild -bb --quiet --define "_topdir $work/rpm" --define "_rpmdir $out" --define '_buildhost localhost' \
	--define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' \
	--define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' "$work/spanprof.spec" >"$work/log" 2>&1 || {
	tail -n 40 "$work/log" >&2
	exit 1
}
