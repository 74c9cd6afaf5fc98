#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: core.sh ALLOW OBJECT... [-- OBJECT_BELOW...]
#
# What the objects leave undefined must be defined by them or by the objects below, or stand in ALLOW or
# in pure.allow. Every name that they define for others must begin with eplb_.
set -eu

allow=$1
here=$(dirname "$0")
shift

# Prints "SIDE NAME TYPE" for every global symbol of every object.
symbols() {
    side=own
    for object in "$@"; do
        if [ "$object" = -- ]; then
            side=below
        else
            "${NM:-nm}" -P -g "$object" | sed "s/^/$side /"
        fi
    done
}

{
    sed '/^#/d; /^$/d; s/^/allow /' "$here/pure.allow" "$allow"
    symbols "$@"
} | awk -v list="tests/symbols/${allow##*/}" '
    $1 == "allow" { known[$2] = 1; next }
    $3 != "U" && $3 != "w" && $3 != "v" {
        known[$2] = 1
        defined += $1 == "own"
        if ($1 == "own" && $2 !~ /^eplb_/)
            print "external name without the prefix eplb_: " $2, failed = 1
        next
    }
    $1 == "own" { wanted[$2] = 1 }
    END {
        for (name in wanted)
            if (!(name in known)) {
                print name " is used; no folder below defines it and " list " does not allow it"
                failed = 1
            }
        if (defined == 0) {
            print "the objects define nothing"
            failed = 1
        }
        exit failed
    }'
