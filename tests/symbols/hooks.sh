#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: hooks.sh FILE...
#
# Test hooks (eplb_test_...) and planted bugs (texts with "planted") are not in what is delivered.
set -eu

failed=0
for file in "$@"; do
    if "${NM:-nm}" -P "$file" | grep '^eplb_test_'; then
        echo "${file##*/} holds the test hooks above" && failed=1
    fi
    if grep -a -o 'planted[ -~]*' "$file"; then
        echo "${file##*/} holds the text of a planted bug, above" && failed=1
    fi
done
exit $failed
