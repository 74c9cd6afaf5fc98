/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Bars in a terminal: the ranks' load before and after.
 */
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include <stdint.h>
#include <stdio.h>

/** How a chart may look. */
struct eplb_chart_style {
    int colours; /* ANSI colours */
    int blocks;  /* block characters (UTF-8), else '#' */
    int width;   /* columns */
};

/** What the stream's terminal and locale allow. */
struct eplb_chart_style eplb_chart_style_of(FILE *file);

/**
 * Draws one row per rank: its load before and after, as multiples of the mean load. Many ranks
 * are cut to the heaviest and the lightest (as they were before), with a line that says so.
 *
 * before and after are [num_ranks]; mean > 0.
 */
void eplb_chart_ranks(FILE *file, const struct eplb_chart_style *style, const double *before,
                      const double *after, int32_t num_ranks, double mean);

#endif
