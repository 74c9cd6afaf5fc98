/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Traces of the executor core. A script is the whole expected transcript: its lines that begin with
 * "> " are played as events, everything else must be what the core answers.
 *
 * Two layers, four experts, rank 0 of two ranks with three slots each; an expert is 10 bytes, a
 * message 8 at most; the transfer timeout is 1000 ms. Tables:
 *
 *   A  0 1 2 | 2 3 0   the initial one
 *   B  0 1 3 | 2 3 0   rank 0 gets expert 3 from rank 1
 *   C  0 1 2 | 2 3 1   rank 1 gets expert 1 from rank 0
 *   D  1 0 2 | 2 3 0   rank 0 swaps two of its own
 *   X  0 1 1 | 2 3 0   not legal
 *   S  the first five of A
 *
 * Events:
 *
 *   start SEQ [activate aT of pT layer L] [prepare pT layer L base G of TABLE to TABLE]
 *   abort [SEQ ... as start]
 *   refused SEQ ... as start      eplb_executor_core_check must refuse it; nothing is fed
 *   began pT | prepared pT ok | prepared pT failed
 *   materialised ok | materialised failed
 *   finish
 *   complete #N done | cancelled | failed
 *   read undecided | commit | abort
 *   time MS                       the clock goes on; no event
 *   epoch N                       the weights' epoch from now on
 *   moves                         how many slots the plan that was prepared last changes
 *
 * Answers: the actions in order, then what changed: levels, tables, and whether finish_step waits.
 */
#ifndef UNIT_EXECUTOR_SCRIPT_H
#define UNIT_EXECUTOR_SCRIPT_H

/** Plays a script on a new core and fails the test when the transcript differs. */
void script_play(const char *script);

#endif
