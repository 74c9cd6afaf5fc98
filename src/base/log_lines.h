/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The one table of log lines: prefix and keys, in the order in which they are printed.
 *
 * LINE(id, level, prefix, number of keys, "key", "key", ...)
 */
#ifndef BASE_LOG_LINES_H
#define BASE_LOG_LINES_H

#define EPLB_LOG_LINES(LINE)                                                                      \
    LINE(WARNING, WARNING, "EPLB warning", 1, "message")                                          \
    LINE(PLACEMENT_BENEFIT, INFO, "EPLB placement benefit", 7, "layer", "policy", "current_peak", \
         "candidate_peak", "improvement", "threshold", "verdict")

#endif
