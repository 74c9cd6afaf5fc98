#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: document.sh ROWS SHM_LAYOUT.md
#
# The document's tables are what the program ROWS prints: each begins after a line
# "`struct NAME`, BYTES bytes", and its rows begin with offset, bytes and field.
set -eu

rows=$1 document=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/eplb-layout.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$rows" >"$work/code"
awk -F ' *[|] *' '
    /^`struct [a-z_]*`, [0-9]* bytes/ {
        split($0, part, /[` ,]+/)
        name = part[3]
        print name, part[4]
        next
    }
    /^#/ { name = "" }
    name != "" && $2 ~ /^[0-9]+$/ && $3 ~ /^[0-9]+$/ { print name, $2, $3, $4 }
' "$document" >"$work/document"

if ! cmp -s "$work/document" "$work/code"; then
    echo "$document differs from the structs (- there, + what the compiler makes of them):"
    diff -u "$work/document" "$work/code" | tail -n +3
    exit 1
fi
echo "$(wc -l <"$work/code") rows"
