#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: check.sh CMAKE C_COMPILER BUILD_FOLDER VERSION
#
# Installs into an empty folder, asks the installed command for its version, and builds a host program
# against the installed headers with the shared and with the static library.
set -eu

cmake=$1 compiler=$2 build=$3 version=$4
work=$(mktemp -d ./install.XXXXXX)
trap 'rm -rf "$work"' EXIT
work=$(cd "$work" && pwd)

"$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" || {
    cat "$work/log"
    exit 1
}
said=$("$work/prefix/bin/eplb" --version)
case $said in
*"$version"*) ;;
*) echo "the installed command says '$said' to --version; $version is expected" && exit 1 ;;
esac

cat >"$work/host.c" <<'END'
#include <stdio.h>

#include "eplb/placement.h"

int main(void)
{
    struct eplb_shape shape;
    struct eplb_error error;
    if (eplb_shape_init(&shape, 1, 32, 3, 0, &error) == EPLB_OK)
        return 1;
    puts(error.text);
    return 0;
}
END
folder=$(dirname "$(find "$work/prefix" -name libeplb.so)")
strictly="-std=c11 -Wall -Werror -I $work/prefix/include"
"$compiler" $strictly "$work/host.c" -L "$folder" -leplb -o "$work/shared"
"$compiler" $strictly "$work/host.c" "$folder/libeplb.a" -lm -lpthread -o "$work/static"
shared=$(LD_LIBRARY_PATH=$folder "$work/shared")
static=$("$work/static")
if [ -z "$shared" ] || [ "$shared" != "$static" ]; then
    echo "host programs say '$shared' with the shared library and '$static' with the static one"
    exit 1
fi
for page in eplb.1 eplb-plan.1 eplb-run.1 eplb-replay.1 eplb-shm.1; do
    [ -n "$(find "$work/prefix" -path "*/man1/$page")" ] || {
        echo "the manual page $page is not installed"
        exit 1
    }
done
