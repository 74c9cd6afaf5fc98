#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: alone.sh COMPILER LANGUAGE STANDARD INCLUDE_FOLDER HEADER...
#
# Compiles each header as all that a file includes.
set -eu

compiler=$1 language=$2 standard=$3 include=$4
shift 4
case $compiler in
*-NOTFOUND)
    echo "SKIP: the compiler of this check (${compiler%-NOTFOUND}) is not installed"
    exit 77
    ;;
esac

failed=0
for header in "$@"; do
    printf '#include "%s"\n#include "%s"\nextern int eplb_nothing;\n' "$header" "$header" |
        "$compiler" -x "$language" -std="$standard" -fsyntax-only -Wall -Wextra -Wpedantic -Wundef -Werror \
            -I "$include" - || { echo "$header does not compile alone as $standard" && failed=1; }
done
echo "$# headers as $standard with $compiler"
[ $# -gt 0 ] && [ $failed -eq 0 ]
