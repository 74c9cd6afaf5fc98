/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/event_replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "trace/event_codec.h"

struct player {
    struct eplb_event_log *log;
    const struct eplb_manager_observer *observer;
    struct eplb_event_replay *replay;
    struct eplb_binary bytes; /* of an action that came */
};

static void differ(struct player *player, const struct eplb_logged *logged)
{
    player->replay->differs = true;
    player->replay->record = logged->number;
}

/* -------------------------------------------------------------------------------- policy runs */

static bool same_real(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_benefit(const struct eplb_benefit *a, const struct eplb_benefit *b)
{
    return same_real(a->current_peak, b->current_peak) && same_real(a->candidate_peak, b->candidate_peak) &&
           same_real(a->improvement, b->improvement) && a->sets_changed == b->sets_changed &&
           a->publish == b->publish;
}

static void benefit_text(const struct player *player, int32_t layer, const struct eplb_benefit *benefit,
                         uint64_t candidate_hash, char text[EPLB_ERROR_TEXT])
{
    const int32_t *ids = player->log->params.layer_ids;
    snprintf(text, EPLB_ERROR_TEXT,
             "layer %d: %s, peak %.17g, candidate's %.17g, improvement %.17g, candidate %016" PRIx64,
             ids == NULL ? layer : ids[layer], benefit->publish ? "publish" : "keep", benefit->current_peak,
             benefit->candidate_peak, benefit->improvement, candidate_hash);
}

/** Compares what the policy made of the window with what it made of it then. */
static void compare_policy(struct player *player, const struct eplb_logged *logged,
                           const struct eplb_manager_event *came)
{
    const struct eplb_manager_event *recorded = &logged->event;
    const struct eplb_shape *shape = &player->log->params.shape;
    struct eplb_event_replay *replay = player->replay;
    if (recorded->status != came->status || strcmp(recorded->reason, came->reason) != 0) {
        differ(player, logged);
        snprintf(replay->recorded, sizeof replay->recorded, "policy run ended with %s: %.400s",
                 eplb_status_text(recorded->status), recorded->reason);
        snprintf(replay->came, sizeof replay->came, "%s: %.400s", eplb_status_text(came->status),
                 came->reason);
        return;
    }
    for (int32_t layer = 0; recorded->benefits != NULL && layer < shape->num_layers; layer++) {
        size_t row = (size_t)layer * (size_t)shape->num_slots;
        uint64_t hash = eplb_placement_hash(shape, came->candidates + row);
        if (same_benefit(&recorded->benefits[layer], &came->benefits[layer]) &&
            hash == logged->candidate_hashes[layer])
            continue;
        differ(player, logged);
        benefit_text(player, layer, &recorded->benefits[layer], logged->candidate_hashes[layer],
                     replay->recorded);
        benefit_text(player, layer, &came->benefits[layer], hash, replay->came);
        return;
    }
}

/** Runs the policy that the core waits for; a result that it did not ask for is left as it was told. */
static void run_policy(struct player *player, const struct eplb_logged *logged,
                       struct eplb_manager_event *event, struct eplb_error *reason)
{
    struct eplb_manager_core *core = player->replay->core;
    struct eplb_manager_status status;
    eplb_manager_core_status(core, logged->now, &status);
    if (!status.policy_running)
        return;
    event->status = eplb_manager_core_run_policy(core, reason);
    event->reason = reason->text;
    event->benefits = eplb_manager_core_benefits(core);
    event->candidates = eplb_manager_core_candidates(core);
    compare_policy(player, logged, event);
}

/* ----------------------------------------------------------------------------- events, actions */

/** Takes what the core did next, and shows it. False when that was all. */
static bool take_action(struct player *player, struct eplb_manager_action *action)
{
    const struct eplb_manager_observer *observer = player->observer;
    if (!eplb_manager_core_next(player->replay->core, action))
        return false;
    if (observer != NULL && observer->action != NULL)
        observer->action(observer->context, action);
    return true;
}

static void came_text(struct player *player, const struct eplb_manager_action *action)
{
    const struct eplb_manager_core_params *params = &player->log->params;
    uint64_t hash = action->expert_ids == NULL ? 0 : eplb_placement_hash(&params->shape, action->expert_ids);
    eplb_event_action_text(params, action, hash, player->replay->came);
}

/** Before the next event, or at the end of a whole log: nothing more may come of the last event. */
static void expect_nothing(struct player *player, const struct eplb_logged *logged)
{
    struct eplb_manager_action action;
    if (!take_action(player, &action))
        return;
    differ(player, logged);
    came_text(player, &action);
    if (logged->kind == EPLB_LOGGED_EVENT)
        eplb_event_text(&logged->event, player->replay->recorded);
    else
        snprintf(player->replay->recorded, sizeof player->replay->recorded, "the end");
}

static void play_event(struct player *player, const struct eplb_logged *logged)
{
    const struct eplb_manager_observer *observer = player->observer;
    struct eplb_event_replay *replay = player->replay;
    struct eplb_manager_event event = logged->event;
    struct eplb_error reason = {.status = EPLB_OK};
    expect_nothing(player, logged);
    if (replay->differs)
        return;
    if (event.type == EPLB_MANAGER_SUBMIT)
        replay->last_seq = event.seq;
    replay->now = logged->now;
    replay->num_events++;
    if (event.type == EPLB_MANAGER_POLICY_DONE)
        run_policy(player, logged, &event, &reason);
    if (observer != NULL && observer->event != NULL)
        observer->event(observer->context, &event, logged->now);
    if (!replay->differs)
        eplb_manager_core_step(replay->core, &event, logged->now);
}

static enum eplb_status compare_action(struct player *player, const struct eplb_logged *logged,
                                       struct eplb_error *error)
{
    struct eplb_event_replay *replay = player->replay;
    struct eplb_manager_action action;
    bool came = take_action(player, &action);
    player->bytes.length = 0;
    if (came)
        eplb_action_encode(&player->log->params.shape, &action, &player->bytes);
    if (player->bytes.failed)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a command");
    if (came && player->bytes.length == logged->length &&
        memcmp(player->bytes.bytes, logged->body, logged->length) == 0) {
        replay->num_actions++;
        return EPLB_OK;
    }
    differ(player, logged);
    eplb_event_action_text(&player->log->params, &logged->action, logged->table_hash, replay->recorded);
    if (came)
        came_text(player, &action);
    else
        snprintf(replay->came, sizeof replay->came, "nothing");
    return EPLB_OK;
}

/** Of the last event in a log that was cut off, not all that came of it need be there. */
static void finish(struct player *player, const struct eplb_logged *logged)
{
    struct eplb_manager_action action;
    if (player->log->ended)
        expect_nothing(player, logged);
    while (!player->replay->differs && take_action(player, &action))
        continue;
}

static enum eplb_status play(struct player *player, struct eplb_error *error)
{
    struct eplb_logged logged;
    while (!player->replay->differs) {
        EPLB_TRY(eplb_event_log_next(player->log, &logged, error));
        switch (logged.kind) {
        case EPLB_LOGGED_EVENT:
            play_event(player, &logged);
            break;
        case EPLB_LOGGED_ACTION:
            EPLB_TRY(compare_action(player, &logged, error));
            break;
        case EPLB_LOGGED_NOTHING:
            finish(player, &logged);
            return EPLB_OK;
        }
    }
    return EPLB_OK;
}

enum eplb_status eplb_event_replay_run(struct eplb_event_log *log,
                                       const struct eplb_manager_observer *observer,
                                       struct eplb_event_replay *replay, struct eplb_error *error)
{
    struct player player = {.log = log, .observer = observer, .replay = replay};
    struct eplb_error reason;
    *replay = (struct eplb_event_replay){0};
    if (log->params.ops == NULL)
        EPLB_FAIL(EPLB_INVALID, "%s was recorded with the policy '%s', which this build has not", log->name,
                  log->policy);
    enum eplb_status status = eplb_manager_core_create(&log->params, &replay->core, &reason);
    if (status != EPLB_OK)
        EPLB_FAIL(status, "%s: the manager of the recording cannot be made: %s", log->name, reason.text);
    status = play(&player, error);
    eplb_binary_free(&player.bytes);
    return status;
}

void eplb_event_replay_free(struct eplb_event_replay *replay)
{
    eplb_manager_core_destroy(replay->core);
    *replay = (struct eplb_event_replay){0};
}
