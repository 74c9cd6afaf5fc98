/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Recorded events once more through a manager's core, with the recorded times: the same core does the same.
 *
 * The policy runs when the log says that it was done; the core keeps the window that it plans from until
 * then, and the tables that it starts from as well, so nothing differs from a run beside the events.
 */
#ifndef TRACE_EVENT_REPLAY_H
#define TRACE_EVENT_REPLAY_H

#include "trace/event_log.h"

/** What a replay came to. */
struct eplb_event_replay {
    struct eplb_manager_core *core; /* as it stands at the end; owned */
    uint64_t num_events;
    uint64_t num_actions;           /* compared, and the same */
    uint64_t last_seq;              /* of the forward submitted last; 0: none */
    int64_t now;                    /* of the last event */
    bool differs;                   /* something was not as recorded, and the replay ended there */
    uint64_t record;                /* where */
    char recorded[EPLB_ERROR_TEXT]; /* what is in the log, */
    char came[EPLB_ERROR_TEXT];     /* and what came instead */
};

/**
 * Replays what is left of a log, up to its end or the first difference. log->params may have been changed
 * meanwhile, for what another policy or threshold would have done first.
 *
 * @param observer sees the replayed core: its events (of a policy run, the replayed verdicts) and actions;
 * `start` is not called. NULL: nobody
 * @param replay   to be freed with eplb_event_replay_free, whatever is returned
 * @return EPLB_OK, also when something differs; EPLB_INVALID for a damaged log or one whose policy is not
 * known here; EPLB_NO_MEMORY
 */
enum eplb_status eplb_event_replay_run(struct eplb_event_log *log,
                                       const struct eplb_manager_observer *observer,
                                       struct eplb_event_replay *replay, struct eplb_error *error);

/** A zeroed one is allowed. */
void eplb_event_replay_free(struct eplb_event_replay *replay);

/** An action in words. table_hash is that of a committed table; layers are called by their ids. */
void eplb_event_action_text(const struct eplb_manager_core_params *params,
                            const struct eplb_manager_action *action, uint64_t table_hash,
                            char text[EPLB_ERROR_TEXT]);

/** An event in words. */
void eplb_event_text(const struct eplb_manager_event *event, char text[EPLB_ERROR_TEXT]);

#endif
