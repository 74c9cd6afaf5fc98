#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: self_test.sh COMPILER
#
# views.sh on a tree of three folders: accepts right views, and refuses one that shows too much, one
# that shows too little, and a folder that the list forgets.
set -eu

compiler=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d ./layering.XXXXXX)
trap 'rm -rf "$work"' EXIT
work=$(cd "$work" && pwd)

for folder in base low high; do
    mkdir -p "$work/src/$folder" "$work/include/eplb" "$work/views/$folder/eplb"
    touch "$work/src/$folder/CMakeLists.txt"
    echo 'extern int eplb_one;' >"$work/src/$folder/$folder.h"
    echo "/** Belongs to src/$folder. */" >"$work/include/eplb/$folder.h"
done

# usage: show VIEW FOLDER...
show() {
    view=$work/views/$1
    shift
    for folder in "$@"; do
        ln -s "$work/src/$folder" "$view/$folder"
        ln -s "$work/include/eplb/$folder.h" "$view/eplb/$folder.h"
    done
}

# usage: expect accepted|refused WORD
expect() {
    if said=$(sh "$here/views.sh" "$compiler" "$work" "$work/views" "$work/allowed" 2>&1); then
        found=accepted
    else
        found=refused
    fi
    case $found:$said in
    "$1:"*"$2"*) ;;
    *) echo "views.sh should say '$1' with '$2'; it says '$found': $said" && exit 1 ;;
    esac
}

show base base
show low base low
show high base low high
printf 'base:\nlow: base\nhigh: base low\n' >"$work/allowed"
expect accepted '6 forbidden includes refused'

show low high
expect refused 'src/low can include "eplb/high.h"'
rm "$work/views/low/high" "$work/views/low/eplb/high.h"

rm "$work/views/low/eplb/base.h"
expect refused 'src/low should be able to include "eplb/base.h"'
printf 'base:\nlow: base\n' >"$work/allowed"
expect refused 'src/high has no line'
