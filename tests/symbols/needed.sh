#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: needed.sh LIBRARY
#
# The shared library needs nothing but the C library's own parts.
set -eu

"${READELF:-readelf}" -d "$1" | awk -v library="${1##*/}" '
    /\(NEEDED\)/ {
        name = $NF
        gsub(/[][]/, "", name)
        if (name !~ /^(libc|libm|libpthread|ld-linux[a-z0-9_-]*)\.so\.[0-9]+$/) {
            print library " needs " name "; libc, libm and libpthread are all that it may need"
            failed = 1
        }
    }
    END { exit failed }'
