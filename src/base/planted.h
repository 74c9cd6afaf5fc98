/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Planted bugs: known wrong turns that the simulator must find. A release build has none of them.
 */
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

#include <stdbool.h>

/** The one list of planted bugs; each is one line in the core that it belongs to. */
#define EPLB_PLANTED_BUGS(BUG)                                                                            \
    BUG(STALE_TOKEN_ACCEPTED, "manager: a report for an older prepare token counts")                      \
    BUG(WINDOW_NOT_CLEARED, "load: the physical window is not restarted at a commit")                     \
    BUG(SAMPLE_TAGGED_AT_SUBMISSION, "manager: a sample belongs to the placement of its submission")      \
    BUG(STAGING_REUSED_EARLY, "migrate: the next attempt starts before the last copy ended")              \
    BUG(VOTE_SKIPPED, "executor: a rank acts on its own transfers and does not wait for the record")      \
    BUG(MESSAGE_WITHOUT_TOKEN, "migrate: messages of an aborted attempt are taken for those of the next") \
    BUG(PREPARE_ON_ANOTHER_BASE, "executor: base generation and hash are not compared")                   \
    BUG(REPORT_LOST_ONCE, "executor: levels are reported once and not repeated")                          \
    BUG(DEATH_ABORTS_DECIDED, "manager: a dead rank aborts an activation whose record is committed")      \
    BUG(KEEP_BY_OWN_CLOCK, "migrate: a rank keeps the old placement when its own deadline passes")        \
    BUG(DROPPED_AFTER_ABORT, "manager: a dropped command's activation is handed out after its abort")     \
    BUG(PREPARE_BEFORE_ACTIVATION, "executor: a command's prepare is taken before its activation")        \
    BUG(WINDOW_OF_TWO_VERSIONS, "load: the physical window is not restarted at a higher weight version")  \
    BUG(WEIGHTS_OF_ANOTHER_GENERATION, "executor: a weight update of another generation is applied")      \
    BUG(VERSION_NOT_RESET, "executor: a switch does not restart the versions of the weights")             \
    BUG(OLDER_WEIGHTS_RESENT, "manager: a dropped weight update comes again after a newer one")           \
    BUG(WEIGHTS_DURING_ACTIVATION, "manager: weights are sent for a layer that is activating")

#if EPLB_TEST_BUILD

enum eplb_planted_bug {
#define EPLB_PLANTED_ENUM(name, text) EPLB_BUG_##name,
    EPLB_PLANTED_BUGS(EPLB_PLANTED_ENUM)
#undef EPLB_PLANTED_ENUM
        EPLB_NUM_PLANTED_BUGS
};

/** Which bugs are on. A test sets them before it starts threads. */
extern bool eplb_planted[EPLB_NUM_PLANTED_BUGS];

#define EPLB_PLANTED(name) (eplb_planted[EPLB_BUG_##name])

#else

#define EPLB_PLANTED(name) false

#endif
#endif
