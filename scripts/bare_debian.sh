#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: scripts/bare_debian.sh [--worktree] [--keep]
#
# Proves the front door: makes a Debian 12 with nothing but git and make in a temporary folder, clones
# the last commit into it and runs `make demo` and `make test` there. Needs root and debootstrap.
#
#   --worktree  take the files as they are here, not the last commit
#   --keep      leave the folder behind, to look around in
set -eu

suite=bookworm
worktree=0 keep=0 root=
checkout=$(cd "$(dirname "$0")/.." && pwd)

say() {
    echo "bare_debian: $*" >&2
}

clean_up() {
    [ -n "$root" ] || return 0
    ! mountpoint -q "$root/dev/shm" || umount "$root/dev/shm"
    ! mountpoint -q "$root/proc" || umount "$root/proc"
    if [ $keep -eq 1 ]; then
        say "kept: $root"
    else
        rm -rf --one-file-system "$root"
    fi
}

# The Debian mirror that this machine's own apt uses.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' "Codename: $suite" 'Origin: Debian' 'Created-By: Packages' |
        head -n 1
}

for option in "$@"; do
    case $option in
    --worktree) worktree=1 ;;
    --keep) keep=1 ;;
    *) say "usage: scripts/bare_debian.sh [--worktree] [--keep]" && exit 2 ;;
    esac
done
if [ "$(id -u)" -ne 0 ]; then
    say "a chroot needs root"
    exit 1
fi
source=$(mirror)
if [ -z "$source" ]; then
    say "this machine's apt sources know no Debian $suite; 'apt-get update' may help"
    exit 1
fi

trap clean_up EXIT
trap 'exit 1' HUP INT TERM
root=$(mktemp -d "${TMPDIR:-/var/tmp}/eplb-bare.XXXXXX")
say "Debian $suite with git and make only, in $root"
if ! debootstrap --variant=minbase --include=git,make "$suite" "$root" "$source" >"$root.log" 2>&1; then
    tail -n 20 "$root.log" >&2
    say "debootstrap failed; its last lines are above"
    rm -f "$root.log"
    exit 1
fi
rm -f "$root.log"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mountpoint -q "$root/dev/shm" || mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"

if [ $worktree -eq 1 ]; then
    mkdir "$root/root/eplb"
    (cd "$checkout" && git ls-files -z --cached --others --exclude-standard |
        tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null) | tar -xf - -C "$root/root/eplb"
else
    git clone -q --no-hardlinks "$checkout" "$root/root/eplb"
fi

failed=0
for target in demo test; do
    begin=$(date +%s)
    say "make $target"
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        make -C /root/eplb $target </dev/null || { say "make $target fails" && failed=1; }
    say "make $target: $(($(date +%s) - begin)) s"
done
exit $failed
