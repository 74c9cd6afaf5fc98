#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: transcript.sh EPLB INPUTS FILE.cases
#
# Replays a transcript of the command and compares what it says now with what is written there. With
# UPDATE=1 the file is rewritten instead, for a person to read the difference before it is committed.
#
# A case is a paragraph. It runs in a fresh folder that holds a copy of INPUTS. Its lines:
#
#   # text      what the case is about
#   @ command   prepares something; must succeed, and what it prints is no part of the transcript; `npy`
#               is npy.sh
#   $ command   what is tested, run by sh; `eplb` is the program EPLB. Below it stand
#   > line      what it wrote on standard output
#   ! line      what it wrote on standard error
#   + file      a file that it created, changed or removed
#   ? code      its exit code, when not 0
#
# In a file named refused_*.cases every tested command must fail as bad input fails: exit code 2, one
# sentence on standard error, nothing on standard output, no file touched.
set -u

if [ $# -ne 3 ]; then
    echo "usage: transcript.sh EPLB INPUTS FILE.cases" >&2
    exit 2
fi
program=$1 inputs=$2 cases=$3
tools=$(cd "$(dirname "$0")" && pwd)
case $cases in
*/refused_*) refused=1 ;;
*) refused=0 ;;
esac

# One locale, no terminal, no colours; what the commands see is the same everywhere.
unset LC_ALL LC_CTYPE NO_COLOR EPLB_SHARED
LANG=C TERM=dumb
export LANG TERM
umask 022

work=$(mktemp -d "${TMPDIR:-/tmp}/eplb-cli.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/bin" "$work/case"
ln -s "$program" "$work/bin/eplb"
ln -s "$tools/npy.sh" "$work/bin/npy"
PATH=$work/bin:$PATH
number=0

die() {
    echo "$cases:$number: $*" >&2
    exit 1
}

fresh_folder() {
    rm -rf "$work/case"
    mkdir "$work/case"
    cp "$inputs"/* "$work/case" || die "the inputs cannot be copied"
}

# Names, sizes and sums of all files of the case.
listing() {
    find . ! -type d -exec cksum {} + | sort -k 3
}

quote_lines() {
    sed -e "s|$work/case/||g" -e "s/^/$1 /" -e "s/^$1 \$/$1/" "$2"
    [ -z "$(tail -c 1 "$2")" ] || printf '\n%s\n' "$1 (no newline at the end)"
}

changed_files() {
    listing >"$work/after"
    diff "$work/before" "$work/after" | sed -n 's|^[<>] [0-9]* [0-9]* \./|+ |p' | sort -u
}

check_refusal() {
    [ "$1" -eq 2 ] || die "exit code $1; bad input ends with 2"
    [ ! -s "$work/out" ] || die "bad input leaves standard output empty"
    [ "$(wc -l <"$work/err")" -eq 1 ] || die "bad input gets exactly one line on standard error"
    grep -q '^eplb: [^ ].*[^ .]$' "$work/err" || die "a sentence begins with 'eplb: ' and has no full stop"
    [ -z "$(changed_files)" ] || die "bad input touches no file"
}

prepare() {
    (cd "$work/case" && exec sh -c "$1") </dev/null >"$work/out" 2>&1 && return
    cat "$work/out" >&2
    die "this preparation failed: $1"
}

replay() {
    cd "$work/case" || exit 1
    listing >"$work/before"
    sh -c "$1" </dev/null >"$work/out" 2>"$work/err"
    code=$?
    quote_lines '>' "$work/out"
    quote_lines '!' "$work/err"
    changed_files
    [ $code -eq 0 ] || echo "? $code"
    [ $refused -eq 0 ] || check_refusal $code
}

transcribe() {
    fresh_folder
    while IFS= read -r line; do
        number=$((number + 1))
        case $line in
        '') fresh_folder ;;
        '@ '*) prepare "${line#@ }" ;;
        '> '* | '>' | '! '* | '!' | '+ '* | '? '*) continue ;;
        '# '* | '#' | '$ '*) ;;
        *) die "no line begins like this: $line" ;;
        esac
        printf '%s\n' "$line"
        case $line in
        '$ '*) (replay "${line#??}") || exit 1 ;;
        esac
    done <"$cases"
}

grep -q '^\$ ' "$cases" || die "there is no command in this file"
(transcribe) >"$work/now" || exit 1
cmp -s "$cases" "$work/now" && exit 0
if [ "${UPDATE:-0}" = 1 ]; then
    cat "$work/now" >"$cases"
    echo "$cases: rewritten"
    exit 0
fi
echo "The command no longer says what $cases holds (- expected, + now):"
diff -u "$cases" "$work/now" | tail -n +3
echo "If the change is meant: UPDATE=1 ctest -L cli, then read the difference."
exit 1
