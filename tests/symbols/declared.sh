#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: declared.sh INCLUDE_FOLDER LIST
#
# Every function that a public header declares with EPLB_API is in the list of exported symbols, and
# every symbol of the list is declared.
set -eu

declared() {
    cat "$1"/*.h | awk '
        /^EPLB_API / { text = ""; open = 1 }
        open { text = text " " $0 }
        open && /\(/ {
            sub(/\(.*/, "", text)
            count = split(text, words, /[ *]+/)
            print words[count]
            open = 0
        }' | LC_ALL=C sort
}

if ! declared "$1" | diff -u "$2" -; then
    echo "the public headers declare other functions than $2 lists (- not declared, + not exported)"
    exit 1
fi
