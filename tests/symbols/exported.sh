#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: exported.sh [--update] LIBRARY LIST
#
# Compares the symbols that a shared library exports with a committed list, or writes the list.
set -eu

# Absolute symbols are the names of versions.
exported() {
    "${NM:-nm}" -D -P --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | LC_ALL=C sort
}

if [ "$1" = --update ]; then
    exported "$2" >"$3"
    exit 0
fi
if ! exported "$1" | diff -u "$2" -; then
    echo "${1##*/} exports other symbols than $2 lists (- missing, + new);"
    echo "when that is meant, 'make exports' rewrites the list"
    exit 1
fi
