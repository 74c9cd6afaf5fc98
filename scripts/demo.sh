#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# Shows what eplb does, in two acts: a placement planned for an uneven load, with the ranks' load before
# and after; then a small model served by four processes, which is balanced while the topic of its text
# changes twice, and compared with the same run without balancing. Takes further options of `eplb run`.
# Needs build/release.
set -eu

cd "$(dirname "$0")/.."
out=build/demo
eplb=build/release/eplb
mkdir -p "$out"
rm -f "$out/run.log"

build/release/make_load >"$out/load.json"
echo "+ eplb plan --load=$out/load.json --ep_size=8 --output=$out/placement.json" >&2
"$eplb" plan --load="$out/load.json" --ep_size=8 --output="$out/placement.json"

cat >"$out/model.json" <<'END'
{
  "format": "eplb-model-1",
  "hidden_size": 128,
  "num_layers": 4,
  "num_experts": 16,
  "top_k": 2,
  "expert_hidden_size": 256,
  "shared_hidden_size": 128
}
END
set -- --model="$out/model.json" --steps=720 --max_rows=192 --num_caches=48 \
    --enable_eplb=true --ep_size=4 --redundant_experts_num=1 --eplb_update_interval_steps=60 \
    --instance_name="demo-$$" --log="$out/run.log" --summary_json="$out/run.json" --verify "$@"
echo >&2
echo "+ eplb run $*" >&2
exec "$eplb" run "$@"
