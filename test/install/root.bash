# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Small file systems and containers for the tests of this folder; sourced after test/e2e/lib.bash. No container
# engine: bubblewrap makes the namespaces, as the present user or as another one.

readonly PRODUCT=/opt/spanprof

# The libraries of programs or objects, and their loader; with the library that export/push/libcurl.c loads.
libraries_of()
{
	local later=''

	if grep -qF libcurl.so.4 "$@"; then
		later=libcurl.so.4
	fi
	LD_PRELOAD=$later ldd "$@" 2>/dev/null | grep -oE '/[^ ):]+' | grep '\.so' | sort -u
}

# root_add ROOT FILE [PATH]: adds the file and its libraries to the root, at PATH or at its own path.
root_add()
{
	local root=$1 file=$2 path=${3:-$2} library

	mkdir -p "$root$(dirname "$path")"
	cp -L "$file" "$root$path"
	while read -r library; do
		[[ -e $root$library ]] || {
			mkdir -p "$root$(dirname "$library")"
			cp -L "$library" "$root$library"
		}
	done < <(libraries_of "$file")
}

readonly SMALL_LOADER=/lib/ld-linux.so.2

# root_add_small ROOT: the files that 32-bit programs need to run there, if they run here. A loader finds its C
# library by its cache, as on every machine with one.
root_add_small()
{
	local root=$1 folder

	"$SMALL_LOADER" --list libc.so.6 >/dev/null 2>&1 || return 1
	folder=$(dirname "$(readlink -f "$SMALL_LOADER")")
	mkdir -p "$root$folder"
	cp -L "$SMALL_LOADER" "$folder/libc.so.6" "$root$folder"
	[[ -e $root$SMALL_LOADER ]] || ln -s "$folder/ld-linux.so.2" "$root$SMALL_LOADER"
	ldconfig -r "$root" "$folder"
}

# root_make ROOT: our product, a program with spans, and nothing else, not even a shell.
root_make()
{
	local root=$1

	mkdir -p "$root"/{app,proc,dev,out,volume,etc} "$root$PRODUCT"/{bin,lib/spanprof}
	root_add "$root" "$HOSTS/entry" /app/entry
	root_add "$root" "$HOSTS/spend" /app/test/spend
	# In a default folder, because the loader cannot resolve $ORIGIN without /proc.
	root_add "$root" "$TEST_LIBS/libfixture-otelc.so" \
		"$(libraries_of "$HOSTS/spend" | grep -m 1 '/libc\.so\.6$' | xargs dirname)/libfixture-otelc.so"
	root_add "$root" "$SO" "$PRODUCT/lib/spanprof/libspanprof.so"
	root_add "$root" "$EXPORTER" "$PRODUCT/lib/spanprof/spanprof-exporter"
	cp build/spanprof-{run,entrypoint} "$root$PRODUCT/bin"
	chmod -R a+rX "$root"
}

# contained UID ROOT [BWRAP OPTION]... -- COMMAND...: the root is read-only; network and time are shared, processes
# are not; the command is process 1. With NO_PROC there is no /proc.
contained()
{
	local uid=$1 root=$2 as=() options=()

	shift 2
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	if ((EUID == 0)); then
		as=(setpriv --reuid "$uid" --regid "$uid" --clear-groups)
	else
		options+=(--uid "$uid" --gid "$uid")
	fi
	[[ -n ${NO_PROC-} ]] || options+=(--proc /proc)
	exec "${as[@]}" timeout --foreground --kill-after=5 "$RUN_LIMIT_S" \
		bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try \
		--die-with-parent --as-pid-1 --new-session --ro-bind "$root" / --dev /dev \
		"${options[@]}" -- "${@:2}"
}

# inside NAME UID ROOT [BWRAP OPTION]... -- COMMAND...: the same, with the output files of run().
inside()
{
	local name=$1 rc=0

	shift
	(contained "$@") >"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null || rc=$?
	echo "$rc" >"$WORK/$name.rc"
	((rc != 124 && rc != 137)) || fail "$name: did not end within $RUN_LIMIT_S s"
}

# Skips the test if the kernel does not allow this.
need_containers()
{
	need bwrap
	mkdir -p "$WORK/empty"
	root_add "$WORK/empty" "$(type -P true)" /true
	chmod 755 "$WORK"
	mkdir -p "$WORK"/empty/{dev,proc}
	chmod -R a+rX "$WORK/empty"
	inside probe 65532 "$WORK/empty" -- /true
	[[ $(result probe.rc) == 0 ]] || skip "no containers here: $(tail -n 1 "$WORK/probe.err")"
}
