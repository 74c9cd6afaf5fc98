#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: self_test.sh C_COMPILER CXX_COMPILER
#
# Headers that must not pass: one that leans on another's include, one without a guard, one that C++
# does not understand.
set -eu

alone=$(dirname "$0")/alone.sh
folder=$(mktemp -d ./headers.XXXXXX)
trap 'rm -rf "$folder"' EXIT

refused() {
    if sh "$alone" "$1" "$2" "$3" "$folder" "$4" >/dev/null 2>&1; then
        echo "$4 passed as $3; $5"
        exit 1
    fi
}

echo 'extern size_t eplb_leaning;' >"$folder/leaning.h"
echo 'struct eplb_twice { int x; };' >"$folder/unguarded.h"
echo 'extern int eplb_class(int class);' >"$folder/keyword.h"
refused "$1" c c11 leaning.h "it needs <stddef.h>"
refused "$1" c c11 unguarded.h "it defines a struct twice"
sh "$alone" "$1" c c11 "$folder" keyword.h >/dev/null
case $2 in
*-NOTFOUND) ;;
*) refused "$2" c++ c++17 keyword.h "it has a C++ keyword for a name" ;;
esac
