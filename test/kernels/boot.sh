#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# boot.sh ARCHITECTURE KERNEL ROOT SCRIPT: starts an emulated machine and runs SCRIPT there, in the project's folder,
# as root. KERNEL is a folder with an unpacked Debian package of that architecture's kernel. The machine's root is the
# folder ROOT, which also has a static busybox, with the project's folder at its usual path and an empty disk at
# /var/tmp; changes to these are forgotten. Prints the kernel's messages about trouble, then the script's output. The
# exit status is the script's, or 125 if the script did not run.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly ARCHITECTURE=$1 KERNEL=$2 ROOT=$3 SCRIPT=$4
readonly WORK=build/kernels/$ARCHITECTURE
# Modules for the folders and the disk, and their dependencies.
readonly MODULES=(fs fs/9p fs/netfs fs/fscache fs/overlayfs fs/ext4 fs/jbd2 net/9p drivers/virtio drivers/block crypto lib)
RELEASE=$(ls "$KERNEL/lib/modules")
CPUS=$(nproc)
readonly CPUS RELEASE TREE=$WORK/initrd/lib/modules/$RELEASE

rm -rf "$WORK"
mkdir -p "$WORK/initrd/bin" "$WORK/initrd/proc" "$TREE/kernel"
for folder in "${MODULES[@]}"; do
	[[ ! -d $KERNEL/lib/modules/$RELEASE/kernel/$folder ]] ||
		install -Dt "$TREE/kernel/$folder" "$KERNEL/lib/modules/$RELEASE/kernel/$folder"/*.ko*
done
find "$TREE" -name '*.ko.xz' -exec unxz {} +
cp "$KERNEL/lib/modules/$RELEASE"/modules.builtin* "$TREE/"
busybox depmod -b "$WORK/initrd" "$RELEASE"
cp "$ROOT/bin/busybox" "$WORK/initrd/bin/"
cp test/kernels/init "$WORK/initrd/"
(cd "$WORK/initrd" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$WORK/initrd.gz"
truncate -s 256M "$WORK/disk"

case $ARCHITECTURE in
amd64) emulator=(qemu-system-x86_64 -M q35) console=ttyS0 ;;
arm64) emulator=(qemu-system-aarch64 -M virt) console=ttyAMA0 ;;
esac
readonly PAIRS=${MATRIX_PAIRS:+ kernels.pairs=$MATRIX_PAIRS}
readonly SHARED=security_model=none,readonly=on,multidevs=remap
# Not with KVM, which not every machine has, and which does not work properly in every virtual machine.
"${emulator[@]}" -accel tcg,thread=multi -cpu max -smp "$CPUS" -m "${KERNELS_MEMORY:-4G}" -nodefaults -no-user-config \
	-display none -no-reboot -serial stdio -kernel "$KERNEL/boot/vmlinuz-$RELEASE" -initrd "$WORK/initrd.gz" \
	-drive "file=$WORK/disk,format=raw,if=virtio,cache=unsafe" \
	-virtfs "local,path=$ROOT,mount_tag=root,$SHARED" -virtfs "local,path=$PWD,mount_tag=project,$SHARED" \
	-append "console=$console quiet loglevel=3 panic=-1 kernels.directory=$PWD kernels.script=$SCRIPT$PAIRS" \
	</dev/null 2>&1 | sed -u "s/\r\$//" | tee "$WORK/log"
status=$(sed -n 's/^kernels: exit status \([0-9]*\)$/\1/p' "$WORK/log" | tail -n 1)
exit "${status:-125}"
