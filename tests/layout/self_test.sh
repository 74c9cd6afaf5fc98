#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: self_test.sh ROWS SHM_LAYOUT.md
#
# document.sh can fail: an offset, a size, a name, a lost row and a lost table are all noticed.
set -eu

rows=$1 document=$2
tools=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/eplb-self.XXXXXX")
trap 'rm -rf "$work"' EXIT

# usage: refuses WHAT SED_SCRIPT
refuses() {
    sed "$2" "$document" >"$work/changed.md"
    ! cmp -s "$document" "$work/changed.md" || { echo "self_test: $1: nothing to change"; exit 1; }
    ! sh "$tools/document.sh" "$rows" "$work/changed.md" >"$work/said" 2>&1 || {
        echo "self_test: $1 is accepted"
        exit 1
    }
}

sh "$tools/document.sh" "$rows" "$document" >"$work/said"
refuses "another offset" 's/^| 24 | 8 | generation |/| 32 | 8 | generation |/'
refuses "another size" 's/^| 12 | 4 | kind |/| 12 | 8 | kind |/'
refuses "another name" 's/| beats |/| pulse |/'
refuses "a lost row" '/| num_wants |/d'
refuses "another size of a struct" 's/^`struct eplb_mesh_link`, 320/`struct eplb_mesh_link`, 384/'
refuses "a lost table" '/^`struct eplb_fragment`/d'
