#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: document.sh PROTOCOL.md STORIES SRC
#
# The document tells the stories as they are: what stands between ```story NAME and ``` is the file
# STORIES/NAME.story (with UPDATE=1 it is put there). Every story is named in it, as `NAME`; and each
# `folder/file.c:name` in it is a function that SRC/folder/file.c defines.
set -eu

document=$1 stories=$2 sources=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/eplb-document.XXXXXX")
trap 'rm -rf "$work"' EXIT
code=0

complain() {
    echo "$document: $*"
    code=1
}

awk -v stories="$stories" '
    /^```story / {
        print
        file = stories "/" $2 ".story"
        while ((getline line < file) > 0)
            print line
        inside = 1
        next
    }
    /^```$/ { inside = 0 }
    !inside { print }
' "$document" >"$work/now"

if ! cmp -s "$document" "$work/now"; then
    if [ "${UPDATE:-0}" = 1 ]; then
        cat "$work/now" >"$document"
        echo "$document: rewritten"
    else
        complain "the stories are told differently (- there, + the files); UPDATE=1 ctest -L protocol"
        diff -u "$document" "$work/now" | tail -n +3
    fi
fi

for file in "$stories"/*.story; do
    name=$(basename "$file" .story)
    grep -q "\`$name\`" "$document" || complain "the story '$name' is not named"
done

grep -o '`[a-z_]*/[a-z_0-9]*\.[ch]:[a-z_0-9]*`' "$document" | tr -d '`' | sort -u >"$work/names"
[ -s "$work/names" ] || complain "no function is named"
while IFS=: read -r file name; do
    grep -q "^[a-z].*\<$name(" "$sources/$file" 2>/dev/null || complain "$file defines no function $name"
done <"$work/names"
exit $code
