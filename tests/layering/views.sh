#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: views.sh COMPILER SOURCE_FOLDER VIEWS_FOLDER ALLOWED
#
# For every ordered pair of folders: the headers of the one, its public ones too, cannot be found from
# the view of the other unless the list allows it. Its own headers and those of base must be found.
# Headers named shell*.h belong to the shell beside a pure core, which has a view of its own.
set -eu

compiler=$1 source=$2 views=$3 allowed=$4
failed=0 refused=0 accepted=0

complain() {
    echo "$*"
    failed=1
}

# Prints the folders that the list allows to a folder, in one line or several of it; fails when there is none.
allowed_to() {
    grep -q "^$1:" "$allowed" && sed -n "s/^$1://p" "$allowed" | tr '\n' ' '
}

headers_of() {
    for path in "$source/src/$1"/*.h; do
        case ${path##*/} in
        shell*) ;;
        *) [ ! -e "$path" ] || echo "$1/${path##*/}" ;;
        esac
    done
    grep -l "Belongs to src/$1\." "$source"/include/eplb/*.h | sed 's,.*/,eplb/,' || true
}

# Prints those of some headers that the view of a folder shows.
visible_from() {
    view=$views/$1
    shift
    for header in "$@"; do
        printf '#if __has_include("%s")\n%s\n#endif\n' "$header" "$header"
    done | "$compiler" -E -P -x c -std=c11 -I "$view" -
}

# Really includes headers from the view of a folder.
include() {
    view=$views/$1
    shift
    { printf '#include "%s"\n' "$@" && echo 'extern int eplb_nothing;'; } |
        "$compiler" -D_GNU_SOURCE -x c -std=c11 -fsyntax-only -I "$view" - 2>&1
}

# All headers in one question to the preprocessor, and one of them in a real include: a compiler is
# started twice for a folder, not twice for each of its pairs.
expect_refused() {
    from=$1
    shift
    for header in $(visible_from "$from" "$@"); do
        complain "src/$from can include \"$header\", which $(basename "$allowed") does not allow"
    done
    said=$(include "$from" "$1") || true
    case $said in
    *"$1"*"No such file"* | *"$1"*"file not found"*) refused=$((refused + $#)) ;;
    *) complain "an include of \"$1\" from src/$from should end with 'No such file', and says '$said'" ;;
    esac
}

expect_accepted() {
    from=$1
    shift
    if said=$(include "$from" "$@"); then
        accepted=$((accepted + $#))
    else
        complain "src/$from should be able to include \"$1\": $said"
    fi
}

# A folder's own headers, each as the only include of a file; those of base in one file, which are
# tried alone from base.
expect_all_accepted() {
    from=$1
    shift
    together=
    for header in "$@"; do
        case $header in
        "$from"/* | eplb/*) expect_accepted "$from" "$header" ;;
        *) together="$together $header" ;;
        esac
    done
    set -- $together
    [ $# -eq 0 ] || expect_accepted "$from" "$@"
}

folders=
for list in "$source"/src/*/CMakeLists.txt; do
    folder=${list%/CMakeLists.txt}
    folders="$folders ${folder##*/}"
done
for one in $folders; do
    if ! below=$(allowed_to "$one"); then
        complain "src/$one has no line in $(basename "$allowed")"
        continue
    fi
    [ -d "$views/$one" ] || complain "there is no view for src/$one"
    own='' forbidden=''
    for other in $folders; do
        case " $below $one " in
        *" $other "*) [ "$other" != base ] && [ "$other" != "$one" ] || own="$own $(headers_of "$other")" ;;
        *) forbidden="$forbidden $(headers_of "$other")" ;;
        esac
    done
    set -- $own
    expect_all_accepted "$one" "$@"
    set -- $forbidden
    [ $# -eq 0 ] || expect_refused "$one" "$@"
done
echo "$refused forbidden includes refused, $accepted allowed ones accepted"
[ $failed -eq 0 ] && [ $refused -gt 0 ] && [ $accepted -gt 0 ]
