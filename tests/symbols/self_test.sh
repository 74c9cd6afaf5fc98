#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: self_test.sh C_COMPILER
#
# Objects that the symbol tests must refuse, and one that they must accept.
set -eu

compiler=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d ./symbols.XXXXXX)
trap 'rm -rf "$work"' EXIT

# usage: object NAME CODE
object() {
    echo "$2" | "$compiler" -std=c11 -O0 -x c -c - -o "$work/$1.o"
}

# usage: expect accepted|refused WORD COMMAND..., where WORD stands in what the command prints
expect() {
    verdict=$1 word=$2
    shift 2
    if said=$("$@" 2>&1); then found=accepted; else found=refused; fi
    if [ $found != "$verdict" ]; then
        echo "$found, but should be $verdict: $*"
        exit 1
    fi
    case $said in
    *"$word"*) ;;
    *) echo "says '$said' without '$word': $*" && exit 1 ;;
    esac
}

object low 'int eplb_low(void); int eplb_low(void) { return 1; }'
object pure 'int eplb_low(void); int eplb_pure(void); int eplb_pure(void) { return eplb_low(); }'
object thread '#include <pthread.h>
int eplb_thread(pthread_mutex_t *m); int eplb_thread(pthread_mutex_t *m) { return pthread_mutex_lock(m); }'
object heap '#include <stdlib.h>
void *eplb_heap(void); void *eplb_heap(void) { return malloc(8); }'
object naked 'int naked(void); int naked(void) { return 1; }'
object hook 'int eplb_test_hook(void); int eplb_test_hook(void) { return 1; }'
object text 'const char *eplb_text(void); const char *eplb_text(void) { return "planted: off by one"; }'

core() {
    sh "$here/core.sh" "$here/placement.allow" "$@"
}
expect accepted '' core "$work/pure.o" -- "$work/low.o"
expect accepted '' core "$work/pure.o" "$work/low.o"
expect refused eplb_low core "$work/pure.o"
expect refused pthread_mutex_lock core "$work/thread.o"
expect refused malloc core "$work/heap.o"
expect refused naked core "$work/naked.o"
expect accepted '' sh "$here/hooks.sh" "$work/pure.o"
expect refused eplb_test_hook sh "$here/hooks.sh" "$work/pure.o" "$work/hook.o"
expect refused planted sh "$here/hooks.sh" "$work/text.o"

"$compiler" -shared -nostdlib "$work/low.o" -o "$work/low.so"
echo eplb_low >"$work/right.txt"
echo eplb_lower >"$work/wrong.txt"
expect accepted '' sh "$here/exported.sh" "$work/low.so" "$work/right.txt"
expect refused eplb_lower sh "$here/exported.sh" "$work/low.so" "$work/wrong.txt"
expect accepted '' sh "$here/needed.sh" "$work/low.so"
"$compiler" -shared -Wl,--no-as-needed "$work/low.o" -lresolv -o "$work/more.so"
expect refused libresolv sh "$here/needed.sh" "$work/more.so"

mkdir "$work/include"
echo 'EPLB_API int
eplb_low(void);' >"$work/include/low.h"
expect accepted '' sh "$here/declared.sh" "$work/include" "$work/right.txt"
expect refused eplb_low sh "$here/declared.sh" "$work/include" "$work/wrong.txt"
