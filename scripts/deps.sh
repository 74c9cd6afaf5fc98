#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: scripts/deps.sh GROUP...
#
# Installs the Debian packages of the groups (second column of packages.txt) that are missing. When
# nothing is missing, nothing is run. As root, or where sudo works, apt-get installs them; else the
# one command to type is printed and the exit code is 1.
set -eu

table=$(dirname "$0")/packages.txt
log=
trap 'rm -f "$log"' EXIT

say() {
    echo "eplb: $*" >&2
}

has_header() {
    printf '#include <%s>\n' "$1" | cc -E - >/dev/null 2>&1
}

has_sanitizer() {
    printf 'int main(void) { return 0; }\n' | "$1" -fsanitize=address -x c - -o /dev/null >/dev/null 2>&1
}

proved() {
    case $1 in
    command:*) command -v "${1#command:}" >/dev/null 2>&1 ;;
    header:*) has_header "${1#header:}" ;;
    module:*) /usr/bin/python3 -c "import ${1#module:}" >/dev/null 2>&1 ;;
    sanitizer:*) has_sanitizer "${1#sanitizer:}" ;;
    *) say "packages.txt: '$1' is no proof: command:, header:, module: or sanitizer: is expected" && exit 1 ;;
    esac
}

have_dpkg() {
    command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1
}

present() {
    if have_dpkg; then
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
    else
        proved "$2"
    fi
}

packages_of() {
    awk -v wanted=" $* " '!/^#/ && NF == 3 && index(wanted, " " $2 " ") { print $1, $3 }' "$table"
}

known_groups() {
    awk '!/^#/ && NF == 3 && !seen[$2]++ { printf " %s", $2 }' "$table"
}

check_groups() {
    if [ $# -eq 0 ]; then
        say "usage: scripts/deps.sh GROUP...; the groups are:$(known_groups)"
        exit 1
    fi
    for group in "$@"; do
        case "$(known_groups) " in
        *" $group "*) ;;
        *) say "no package belongs to the group '$group'; the groups are:$(known_groups)" && exit 1 ;;
        esac
    done
}

missing_of() {
    packages_of "$@" | while read -r package proof; do
        present "$package" "$proof" || printf '%s ' "$package"
    done
}

# Prints the words that go before apt-get; fails when there is no way to become root.
root_prefix() {
    if [ "$(id -u)" -eq 0 ]; then
        return 0
    fi
    command -v sudo >/dev/null 2>&1 || return 1
    if sudo -n true 2>/dev/null; then
        echo sudo
    elif [ -t 0 ] && [ -t 2 ]; then
        say "sudo may ask for your password, to install the packages named below"
        echo sudo
    else
        return 1
    fi
}

apt() {
    $prefix env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
        "$@" >>"$log" 2>&1 </dev/null
}

no_package_lists() {
    for list in /var/lib/apt/lists/*_Packages*; do
        [ -e "$list" ] && return 1
    done
    return 0
}

update_lists() {
    say "apt-get update"
    apt update
}

install_now() {
    if no_package_lists; then
        update_lists && apt install --no-install-recommends $missing
    else
        apt install --no-install-recommends $missing ||
            { update_lists && apt install --no-install-recommends $missing; }
    fi
}

check_groups "$@"
missing=$(missing_of "$@")
missing=${missing% }
[ -n "$missing" ] || exit 0

if ! have_dpkg; then
    say "missing: what Debian calls $missing; install it by this system's own means and run again"
    exit 1
fi
if ! prefix=$(root_prefix); then
    say "these packages are missing, and installing them needs root; run"
    echo "apt-get update && apt-get install -y --no-install-recommends $missing" >&2
    exit 1
fi
log=$(mktemp)
say "apt-get install $missing"
if ! install_now; then
    tail -n 20 "$log" >&2
    say "apt-get could not install $missing; its last lines are above"
    exit 1
fi
say "installed"
