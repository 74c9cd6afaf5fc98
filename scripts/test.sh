#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: scripts/test.sh PRESET
#
# Configures, builds and tests one preset of CMakePresets.json, then says why each skipped test was
# skipped. Leaves build/PRESET/totals ("PASSED FAILED SKIPPED") and build/PRESET/skips for .ci/run.
set -eu

preset=$1
cd "$(dirname "$0")/.."
build=build/$preset
report=$build/ctest.xml

# Prints the number in name="..." of the report's first element.
total() {
    sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1
}

# Prints "test: SKIP: reason" for every reason that a test gave.
skips() {
    awk '/^[0-9]+\/[0-9]+ Testing: / { test = $3 } /^SKIP: / { print test ": " $0 }' \
        "$build/Testing/Temporary/LastTest.log"
}

cmake --preset "$preset" -DEPLB_BUILD_TESTS=ON
cmake --build --preset "$preset"
rm -f "$report" "$build/totals" "$build/skips"
status=0
ctest --preset "$preset" --output-junit "$PWD/$report" || status=$?

skipped=$(($(total skipped) + $(total disabled)))
failed=$(total failures)
echo "$(($(total tests) - failed - skipped)) $failed $skipped" >"$build/totals"
skips | tee "$build/skips"
exit "$status"
