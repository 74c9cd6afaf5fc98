#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: npy DTYPE SHAPE BYTES...
#
# Writes a NumPy .npy file (version 1.0) on standard output: npy '<i4' '(1, 2)' '\1\0\0\0' '\2\0\0\0'
# is the int32 array [[1, 2]]. BYTES are printf formats, so escapes are octal.
set -eu

header_bytes=118
dtype=$1 shape=$2
shift 2
printf '\223NUMPY\1\0'
printf "\\$(printf '%o' $header_bytes)\\0"
printf "%-$((header_bytes - 1))s\n" "{'descr': '$dtype', 'fortran_order': False, 'shape': $shape, }"
for bytes in "$@"; do
    printf "$bytes"
done
