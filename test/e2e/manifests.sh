#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clusters, systemd and compose accept the files of scripts/deploy by their rules, and everything to which the files
# refer exists.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 systemd-analyze
python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is not installed"
python3 test/install/manifests.py

# A service that is as confined as systemd can make it, with our unchanged drop-in and with the password.
readonly UNITS=$WORK/units
mkdir -p "$UNITS/checkout.service.d"
cat >"$UNITS/checkout.service" <<-END_OF_UNIT
	[Unit]
	Description=Checkout
	[Service]
	ExecStart=/bin/true
	DynamicUser=yes
	NoNewPrivileges=yes
	ProtectSystem=strict
	PrivateTmp=yes
	MemoryDenyWriteExecute=yes
	SystemCallFilter=@system-service
	RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
	CapabilityBoundingSet=
END_OF_UNIT
# verified: systemd's output about the unit with the drop-in
verified()
{
	systemd-analyze --man=no --recursive-errors=no verify "$UNITS/checkout.service" >"$WORK/said" 2>&1 ||
		echo "status $?" >>"$WORK/said"
	cat "$WORK/said"
}
readonly DROP_IN=$UNITS/checkout.service.d/10-spanprof.conf
sed 's/^#\(LoadCredential\|Environment\)/\1/' scripts/deploy/systemd/10-spanprof.conf >"$DROP_IN"
(($(grep -c '^LoadCredential=\|^Environment=.*_PASSWORD_FILE' "$DROP_IN") == 2)) ||
	fail "the drop-in has no credential"
said=$(verified)
[[ -z $said ]] || fail "$said"
cp scripts/deploy/systemd/10-spanprof.conf "$DROP_IN"
said=$(verified)
[[ -z $said ]] || fail "$said"
echo 'LoadCredentials=x' >>"$DROP_IN"
[[ $(verified) == *LoadCredentials* ]] || fail "systemd does not read the drop-in"
