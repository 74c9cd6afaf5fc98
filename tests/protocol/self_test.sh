#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: self_test.sh STORY STORY_PLANTED DOCUMENT.sh
#
# The tests of the protocol can fail: a story that goes another way, a line that says nothing, a planted
# bug that changes nothing, a document that tells something else.
set -eu

story=$1 planted=$2 document=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/eplb-story.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset UPDATE

fail() {
    echo "self_test: $*"
    cat "$work/said"
    exit 1
}

# usage: ends CODE WORDS COMMAND...: the command ends with the code and says the words, if any
ends() {
    wanted=$1 words=$2 code=0
    shift 2
    "$@" >"$work/said" 2>&1 || code=$?
    [ $code -eq "$wanted" ] || fail "'$*' ends with $code, not with $wanted"
    [ -z "$words" ] || grep -q -e "$words" "$work/said" || fail "'$*' does not say '$words'"
}

cat >"$work/true.story" <<'STORY'
# A forward.
submit ddd
> manager: forward 1 has an empty command
given all start
STORY
ends 0 '' "$story" "$work/true.story"

sed 's/forward 1/forward 2/' "$work/true.story" >"$work/other.story"
ends 1 ':3: the story goes another way' "$story" "$work/other.story"
ends 1 '^+> manager: forward 1' "$story" "$work/other.story"
sed '/^>/d' "$work/true.story" >"$work/short.story"
ends 1 '^+> manager' "$story" "$work/short.story"
{
    cat "$work/true.story"
    echo '> manager: more'
} >"$work/long.story"
ends 1 '^-> manager: more' "$story" "$work/long.story"

# usage: wrong LINE WORDS
wrong() {
    echo "$1" >"$work/wrong.story"
    ends 2 "wrong.story:1: .*$2" "$story" "$work/wrong.story"
}
wrong 'dance' 'no line begins like this'
wrong 'submit dd' 'a letter per DP rank'
wrong 'submit ddd twice' 'words left'
wrong 'rank 0 sleep' 'a rank does'
wrong 'deliver 0->9' 'two ranks'
wrong 'advance soon' 'time is written'
wrong 'world layers 99' 'a setting is'
wrong 'dead 1' 'a rank that has died'
wrong 'drop 1' 'was submitted'

ends 1 'changes nothing' "$planted" --planted=VOTE_SKIPPED "$work/true.story"
ends 2 'no planted bug' "$planted" --planted=NONE "$work/true.story"

UPDATE=1 && export UPDATE
ends 0 'rewritten' "$story" "$work/other.story"
cmp "$work/true.story" "$work/other.story" || fail "the rewrite differs"
unset UPDATE

mkdir -p "$work/src/part" "$work/golden"
cp "$work/true.story" "$work/golden/one.story"
printf 'static void there(void)\n{\n}\n' >"$work/src/part/file.c"
tell() {
    {
        echo 'See `one`, and `part/file.c:there`.'
        echo '```story one'
        cat "$work/golden/one.story"
        echo '```'
        echo 'Then.'
    } >"$work/page.md"
}
tell
ends 0 '' sh "$document" "$work/page.md" "$work/golden" "$work/src"
sed 's/forward 1/forward 2/' "$work/page.md" >"$work/stale.md"
ends 1 '^-> manager: forward 2' sh "$document" "$work/stale.md" "$work/golden" "$work/src"
sed 's/file.c:there/file.c:here/' "$work/page.md" >"$work/gone.md"
ends 1 'no function here' sh "$document" "$work/gone.md" "$work/golden" "$work/src"
cp "$work/true.story" "$work/golden/two.story"
ends 1 'two' sh "$document" "$work/page.md" "$work/golden" "$work/src"
