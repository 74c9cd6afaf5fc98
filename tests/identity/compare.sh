#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: compare.sh SOURCE_FOLDER EXPECTED PROGRAM C_FILE...
#
# Runs PROGRAM, built with this build's own compiler and flags, and the C files compiled by gcc and by
# clang at several levels, and with sanitizers; in one thread, in four, in four processes. All of them
# must print the lines of EXPECTED, which is committed: other machines agree with it too.
set -eu

source=$1 expected=$2 program=$3
shift 3
work=$(mktemp -d ./identity.XXXXXX)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
    echo "$*"
    failed=1
}

# usage: check NAME FILE, where FILE holds the lines that NAME printed
check() {
    if diff "$expected" "$2" >"$work/difference"; then
        echo "same: $1"
    else
        complain "other tables: $1 (< expected, > found)"
        head -n 8 "$work/difference"
    fi
}

run() {
    name=$1
    shift
    if "$@" >"$work/lines" 2>"$work/errors"; then
        check "$name" "$work/lines"
    else
        complain "fails: $name: $(cat "$work/errors")"
    fi
}

# usage: build_and_run COMPILER FLAGS C_FILE...
build_and_run() {
    compiler=$1 flags=$2
    shift 2
    # The flags are words. The two that say how reals are computed are those of cmake/options.cmake.
    if "$compiler" -std=c11 -D_GNU_SOURCE -DEPLB_TEST_BUILD=0 -fno-strict-overflow -ffp-contract=off $flags \
        -I "$source/src" -I "$source/include" "$@" -o "$work/program" -lm -lpthread 2>"$work/errors"; then
        run "$compiler $flags" "$work/program"
        run "$compiler $flags, layers in two threads" "$work/program" 1 2
    else
        complain "does not compile with $compiler $flags: $(cat "$work/errors")"
    fi
}

run "this build" "$program"
run "this build, four threads" "$program" 4
run "this build, layers in two threads" "$program" 1 2
run "this build, layers in five threads, twice" "$program" 2 5
for process in 1 2 3 4; do
    "$program" >"$work/process$process" 2>&1 &
done
wait
for process in 1 2 3 4; do
    check "this build, process $process of four" "$work/process$process"
done

for compiler in gcc clang; do
    if ! command -v $compiler >/dev/null; then
        echo "SKIP: $compiler is not installed; the other compilers were compared"
        continue
    fi
    for level in -O0 -O3; do
        build_and_run $compiler $level "$@"
    done
done
build_and_run "${CC:-gcc}" "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all" "$@"
exit $failed
