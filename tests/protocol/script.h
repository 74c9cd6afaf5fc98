/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The language of stories. A story is a text file. Its lines:
 *
 *   # text    a comment
 *   > text    what happened then; made by the program, compared exactly
 *   world ... the settings, before anything happens: layers N, overlap 0 or 1, chunks N (messages of
 *             one expert), adaptive (the manager renews the weights of replicas), interval T, prepare_timeout
 * T, transfer_timeout T; a time is 30s or 500ms given L   does what the line L says and shows nothing of it
 *
 * The engine:
 *   submit ddd [from generation N]  a forward; a letter per DP rank: d decode, p prefill, m mixed,
 *                                   - empty; `submit warmup ddd` is a graph warm-up. The end makes
 *                                   the ranks read another base generation than the manager wrote
 *   drop N                          forward N will not be run
 *   output [lacking 1 2]            the outputs of the oldest forward are processed; those of ranks
 *                                   that lack were lost
 *   policy done | policy fails      the end of a policy run
 *   solved layer L expert E P [of generation N]
 *                                   the solve of weights ended: P percent of the expert's rows are for
 *                                   its first replica; for the present placement, or of generation N
 *   dead N                          the supervisor has seen that rank N is dead
 *   manager restarts                another manager takes over, between forwards
 *   advance T                       time passes
 *   hot layer L expert E            the traffic changes
 *
 * The ranks; `rank 1`, `ranks 0 2`, or `all` for every rank that can:
 *   start [, materialise fails]     start_step of the next forward
 *   finish                          finish_step
 *   abort                           abort_step of the forward under way, or of the next one
 *   poll                            a look at cancelled operations and the decision record
 *   prepare [fails]                 the background thread does what is queued: begin and end in one
 *   begin, end [fails]              the same in two
 *   die                             the process ends; nobody knows yet
 *
 * The network:
 *   deliver 0->1 [slot 3] [chunk 0] [of 2]   messages leave and arrive; `deliver all`
 *   send, arrive                             the same in two
 *
 * Views and shorthands:
 *   window layer L     the open window
 *   state              who runs what
 *   plans              which plans each rank holds
 *   forward ddd        submit, and all ranks do at once whatever they can, and output
 */
#ifndef PROTOCOL_SCRIPT_H
#define PROTOCOL_SCRIPT_H

#include "protocol/world.h"

/** Makes the world of a story, not yet begun. */
struct world *script_open(void);
void script_close(struct world *world);

/** Does what one line says. NULL, or what is wrong with the line. */
const char *script_do(struct world *world, const char *line);

#endif
