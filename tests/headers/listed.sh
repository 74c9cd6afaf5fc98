#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# usage: listed.sh INCLUDE_FOLDER HEADER...
#
# Every public header belongs to a folder of src: it stands after HEADERS of that folder's
# eplb_folder(), and says so in its first comment ("Belongs to src/NAME.").
set -eu

include=$1
shift
listed=" $* "
failed=0
for path in "$include"/eplb/*.h; do
    header=eplb/${path##*/}
    folder=$(sed -n 's,.*Belongs to src/\([a-z]*\)\..*,\1,p' "$path" | head -n 1)
    case $listed in
    *" $header "*) ;;
    *) echo "include/$header: no folder lists it after HEADERS in its CMakeLists.txt" && failed=1 ;;
    esac
    if [ -z "$folder" ]; then
        echo "include/$header: its first comment does not say 'Belongs to src/NAME.'" && failed=1
    elif ! grep -qw "${header#eplb/}" "$include/../src/$folder/CMakeLists.txt"; then
        echo "include/$header: it says that it belongs to src/$folder, which does not list it" && failed=1
    fi
done
exit $failed
