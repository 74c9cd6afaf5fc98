#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# Shows what a plan does: makes an uneven load, plans a placement for it, and draws the ranks' load
# before and after. Takes further options of `eplb plan`. Needs build/release.
set -eu

cd "$(dirname "$0")/.."
out=build/demo
mkdir -p "$out"
build/release/make_load >"$out/load.json"
echo "+ eplb plan --load=$out/load.json --ep_size=8 --output=$out/placement.json $*" >&2
build/release/eplb plan --load="$out/load.json" --ep_size=8 --output="$out/placement.json" "$@"
