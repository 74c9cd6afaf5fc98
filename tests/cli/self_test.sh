#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: self_test.sh
#
# transcript.sh can fail: a program that stands in for eplb says something else than the transcript,
# or breaks one of the rules for bad input.
set -eu

tools=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/eplb-self.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/inputs"
echo 1 >"$work/inputs/one"
unset UPDATE

# The program does what its arguments say.
cat >"$work/program" <<'PROGRAM'
#!/bin/sh
eval "$*"
PROGRAM
chmod +x "$work/program"

# usage: transcript NAME, with the cases on standard input
transcript() {
    cat >"$work/$1.cases"
    sh "$tools/transcript.sh" "$work/program" "$work/inputs" "$work/$1.cases" >"$work/said" 2>&1
}

fail() {
    echo "self_test: $*"
    cat "$work/said"
    exit 1
}

accepts() {
    transcript "$1" || fail "$2 is not accepted"
}

# usage: rejects NAME WHAT WORDS: the transcript fails and says WORDS
rejects() {
    ! transcript "$1" || fail "$2 is accepted"
    grep -q -e "$3" "$work/said" || fail "$2 is rejected with other words than '$3'"
}

accepts plain "a true transcript" <<'CASES'
# All that can be seen.
@ echo 2 >two
$ eplb 'echo out; echo; echo err >&2; echo 3 >three; rm two; exit 7'
> out
>
! err
+ three
+ two
? 7

# A fresh folder.
$ eplb 'ls; printf end'
> one
> end
> (no newline at the end)
CASES

rejects plain "another output" '^+> in' <<'CASES'
$ eplb 'echo in'
> out
CASES
rejects plain "a message more" '^+! more' <<'CASES'
$ eplb 'echo more >&2'
CASES
rejects plain "a message less" '^-! less' <<'CASES'
$ eplb true
! less
CASES
rejects plain "another exit code" '^+? 1' <<'CASES'
$ eplb 'exit 1'
CASES
rejects plain "a file more" '^++ more' <<'CASES'
$ eplb 'echo >more'
CASES
rejects plain "a changed file" '^++ one' <<'CASES'
$ eplb 'echo 2 >one'
CASES
rejects plain "a blank at the end" '^+> out $' <<'CASES'
$ eplb 'echo "out "'
> out
CASES
rejects plain "a failed preparation" 'preparation failed' <<'CASES'
@ false
$ eplb true
CASES
rejects plain "a line of no kind" 'no line begins like this' <<'CASES'
$ eplb true
what
CASES
rejects plain "a file without a command" 'no command' <<'CASES'
# Nothing.
CASES

accepts refused_plain "a refusal" <<'CASES'
$ eplb 'echo "eplb: it is wrong" >&2; exit 2'
! eplb: it is wrong
? 2
CASES
rejects refused_plain "a refusal with code 1" 'ends with 2' <<'CASES'
$ eplb 'echo "eplb: it is wrong" >&2; exit 1'
! eplb: it is wrong
? 1
CASES
rejects refused_plain "a refusal with output" 'standard output empty' <<'CASES'
$ eplb 'echo out; echo "eplb: it is wrong" >&2; exit 2'
> out
! eplb: it is wrong
? 2
CASES
rejects refused_plain "a refusal in two lines" 'exactly one line' <<'CASES'
$ eplb 'echo "eplb: it is" >&2; echo "eplb: wrong" >&2; exit 2'
! eplb: it is
! eplb: wrong
? 2
CASES
rejects refused_plain "a refusal without a word" 'exactly one line' <<'CASES'
$ eplb 'exit 2'
? 2
CASES
rejects refused_plain "a crash report" "begins with 'eplb: '" <<'CASES'
$ eplb 'echo "==1==ERROR" >&2; exit 2'
! ==1==ERROR
? 2
CASES
rejects refused_plain "a refusal that writes" 'touches no file' <<'CASES'
$ eplb 'echo >more; echo "eplb: it is wrong" >&2; exit 2'
! eplb: it is wrong
+ more
? 2
CASES

UPDATE=1 && export UPDATE
accepts plain "a rewrite" <<'CASES'
# Kept.
$ eplb 'echo new'
> old
CASES
grep -q '^> new$' "$work/plain.cases" || fail "the rewrite lacks what is said now"
grep -q '^# Kept.$' "$work/plain.cases" || fail "the rewrite lacks the comment"
