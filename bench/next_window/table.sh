#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# The table of docs/ROUTING.md, from the lines of bench_next_window on standard input:
#
#   build/release/bench_next_window --data=DIR | sh bench/next_window/table.sh [COLUMN]
#
# COLUMN is one of the bench's, next_window unless it is given. Plans follow each other (start sticky), both
# windows lie in one phase or domain (scope within).
exec awk -v column="${1:-next_window}" '
$1 == "recording" {
    for (i = 1; i <= NF; i++)
        at[$i] = i
    next
}
$at["start"] == "sticky" && $at["scope"] == "within" {
    row = $at["recording"] " | " $at["ep_size"] " | " $at["redundant"]
    if (!(row in seen)) {
        seen[row] = 1
        rows[++count] = row
    }
    figure[row, $at["policy"], $at["routing"]] = $at[column]
}
END {
    if (!(column in at)) {
        print "table.sh: no column " column > "/dev/stderr"
        exit 2
    }
    shown = split("balanced static,balanced adaptive,balanced batch,minmax static,robust static," \
                  "robust weighted,robust adaptive,robust batch", names, ",")
    printf "| recording | ranks | redundant"
    for (i = 1; i <= shown; i++) {
        split(names[i], pair, " ")
        printf " | %s, %s", pair[1], pair[2]
    }
    print " |"
    printf "|---|---|---"
    for (i = 1; i <= shown; i++)
        printf "|---"
    print "|"
    for (r = 1; r <= count; r++) {
        printf "| %s", rows[r]
        for (i = 1; i <= shown; i++) {
            split(names[i], pair, " ")
            value = figure[rows[r], pair[1], pair[2]]
            printf(value == "" || value == "-" ? " | -" : " | %.3f", value)
        }
        print " |"
    }
}'
