#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: cycles.sh CMAKE C_COMPILER SOURCE_FOLDER
#
# Small projects that use cmake/folders.cmake: one in the right order configures, one with a cycle and
# one with a folder that does not exist are refused, with the names in the message.
set -eu

cmake=$1 compiler=$2 source=$3
work=$(mktemp -d ./cycles.XXXXXX)
trap 'rm -rf "$work"' EXIT

# usage: configure NAME LINES, as the body of a project
configure() {
    mkdir "$work/$1"
    cat >"$work/$1/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project($1 LANGUAGES C)
include($source/cmake/folders.cmake)
add_library(eplb_flags INTERFACE)
file(WRITE \${CMAKE_SOURCE_DIR}/empty.c "int eplb_nothing;")
$2
END
    "$cmake" -S "$work/$1" -B "$work/$1/build" -G Ninja -DCMAKE_C_COMPILER="$compiler" >"$work/$1/output" 2>&1
}

expect_refused() {
    if configure "$1" "$2"; then
        echo "CMake accepts the project '$1': $2"
        exit 1
    fi
    tr -s ' \n' ' ' <"$work/$1/output" | grep -q "$3" || {
        echo "CMake refuses the project '$1', but not because $3:"
        cat "$work/$1/output"
        exit 1
    }
}

configure right 'eplb_folder(low SOURCES empty.c)
eplb_folder(high SOURCES empty.c BELOW low)' || {
    cat "$work/right/output"
    exit 1
}
expect_refused cycle 'eplb_folder(low SOURCES empty.c BELOW high)
eplb_folder(high SOURCES empty.c BELOW low)' "folder 'low' may not include 'high'"
expect_refused self 'eplb_folder(low SOURCES empty.c BELOW low)' "folder 'low' may not include 'low'"
expect_refused unknown 'eplb_folder(low SOURCES empty.c BELOW lwo)' "folder 'low' may not include 'lwo'"
