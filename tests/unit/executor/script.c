/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "script.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "executor/core.h"

enum { NUM_SLOTS = 6, NUM_LAYERS = 2, MAX_WORDS = 32, MAX_OPS = 64, TRANSCRIPT = 8192 };

static const struct {
    char name;
    int32_t length;
    int32_t ids[NUM_SLOTS];
} tables[] = {
    {'A', NUM_SLOTS, {0, 1, 2, 2, 3, 0}}, {'B', NUM_SLOTS, {0, 1, 3, 2, 3, 0}},
    {'C', NUM_SLOTS, {0, 1, 2, 2, 3, 1}}, {'D', NUM_SLOTS, {1, 0, 2, 2, 3, 0}},
    {'X', NUM_SLOTS, {0, 1, 1, 2, 3, 0}}, {'S', 5, {0, 1, 2, 2, 3}},
};
enum { NUM_TABLES = sizeof tables / sizeof *tables };

struct player {
    struct eplb_shape shape;
    struct eplb_executor_core *core;
    int64_t now;
    uint64_t epoch;
    struct eplb_layer_plan *running;
    struct eplb_op ops[MAX_OPS];
    size_t num_ops;
    struct eplb_worker_levels levels;
    uint64_t generations[NUM_LAYERS];
    bool idle;
    char text[TRANSCRIPT];
    size_t length;
};

struct words {
    char text[256];
    char *list[MAX_WORDS];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void say(struct player *player, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(player->text + player->length, TRANSCRIPT - player->length, format, arguments);
    va_end(arguments);
    assert_true(length >= 0 && player->length + (size_t)length < TRANSCRIPT);
    player->length += (size_t)length;
}

/* -------------------------------------------------------------------------------------- input */

static void split(const char *line, size_t length, struct words *words)
{
    assert_true(length < sizeof words->text);
    memcpy(words->text, line, length);
    words->text[length] = '\0';
    words->count = 0;
    for (char *at = words->text; *at != '\0';) {
        at += strspn(at, " ");
        assert_true(words->count < MAX_WORDS);
        words->list[words->count++] = at;
        at += strcspn(at, " ");
        if (*at != '\0')
            *at++ = '\0';
    }
}

static const char *word(const struct words *words, size_t index)
{
    if (index >= words->count)
        fail_msg("word %zu is missing after '%s'", index, words->list[0]);
    return words->list[index];
}

/** A number, after its first letter when it has one: 3, p3, a3, #3. */
static uint64_t number(const struct words *words, size_t index)
{
    const char *text = word(words, index);
    text += strcspn(text, "0123456789");
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end != '\0')
        fail_msg("'%s' is not a number", word(words, index));
    return value;
}

static size_t table_of(const char *name)
{
    for (size_t i = 0; i < NUM_TABLES; i++)
        if (name[0] == tables[i].name && name[1] == '\0')
            return i;
    fail_msg("there is no table '%s'", name);
    return 0;
}

static struct eplb_command command_of(const struct player *player, const struct words *words)
{
    struct eplb_command command;
    eplb_command_init(&command, number(words, 1));
    for (size_t i = 2; i < words->count;) {
        if (strcmp(word(words, i), "activate") == 0) {
            command.activation_token.value = number(words, i + 1);
            command.update_prepare_token.value = number(words, i + 3);
            command.update_layer_id = (int32_t)number(words, i + 5);
            i += 6;
        } else if (strcmp(word(words, i), "prepare") == 0) {
            size_t to = table_of(word(words, i + 9));
            command.prepare_token.value = number(words, i + 1);
            command.prepare_layer_id = (int32_t)number(words, i + 3);
            command.base_generation = number(words, i + 5);
            command.base_hash = eplb_placement_hash(&player->shape, tables[table_of(word(words, i + 7))].ids);
            command.expert_ids = tables[to].ids;
            command.num_expert_ids = tables[to].length;
            i += 10;
        } else {
            fail_msg("'%s' is no part of a command", word(words, i));
        }
    }
    return command;
}

/* ------------------------------------------------------------------------------------- output */

static const char *table_name(const int32_t *ids)
{
    static const char *const names[] = {"A", "B", "C", "D", "X", "S"};
    for (size_t i = 0; i < NUM_TABLES; i++)
        if (tables[i].length == NUM_SLOTS && memcmp(tables[i].ids, ids, sizeof tables[i].ids) == 0)
            return names[i];
    return "?";
}

static size_t op_number(struct player *player, struct eplb_op op)
{
    for (size_t i = 0; i < player->num_ops; i++)
        if (player->ops[i].value == op.value)
            return i + 1;
    assert_true(player->num_ops < MAX_OPS);
    player->ops[player->num_ops++] = op;
    return player->num_ops;
}

static void say_transfer(struct player *player, const struct eplb_executor_action *action)
{
    const struct eplb_transfer_action *transfer = &action->transfer;
    assert_int_equal(action->token.value, transfer->token.value);
    switch (transfer->type) {
    case EPLB_TRANSFER_POST_SEND:
    case EPLB_TRANSFER_POST_RECV:
        say(player, "%s #%zu a%" PRIu64 " layer %d slot %d %s rank %d local %d bytes %d+%d\n",
            transfer->type == EPLB_TRANSFER_POST_SEND ? "send" : "receive", op_number(player, transfer->op),
            transfer->tag.token.value, transfer->layer, transfer->tag.slot,
            transfer->type == EPLB_TRANSFER_POST_SEND ? "to" : "from", transfer->peer, transfer->local_slot,
            (int)transfer->offset, (int)transfer->bytes);
        break;
    case EPLB_TRANSFER_CANCEL:
        say(player, "cancel #%zu\n", op_number(player, transfer->op));
        break;
    case EPLB_TRANSFER_VOTE:
        say(player, "vote %s a%" PRIu64 "\n", transfer->yes ? "yes" : "no", transfer->token.value);
        break;
    case EPLB_TRANSFER_ABORT_RECORD:
        say(player, "abort record a%" PRIu64 "\n", transfer->token.value);
        break;
    }
}

static void say_action(struct player *player, const struct eplb_executor_action *action)
{
    switch (action->type) {
    case EPLB_EXECUTOR_RUN_PREPARE:
        say(player, "run prepare p%" PRIu64 " layer %d\n", action->plan->token.value, action->plan->layer);
        break;
    case EPLB_EXECUTOR_MATERIALISE:
        say(player, "materialise p%" PRIu64 "\n", action->plan->token.value);
        break;
    case EPLB_EXECUTOR_TRANSFER:
        say_transfer(player, action);
        break;
    case EPLB_EXECUTOR_UPDATE:
        say(player, "update p%" PRIu64 " a%" PRIu64 " %s\n", action->plan->token.value, action->token.value,
            action->commit ? "commit" : "drop");
        break;
    case EPLB_EXECUTOR_WEIGHTS:
        say(player, "weights layer %d version %" PRIu64 "\n", action->layer,
            eplb_executor_core_versions(player->core)[action->layer]);
        break;
    case EPLB_EXECUTOR_REFUSED:
        say(player, "weights layer %d refused\n", action->layer);
        break;
    }
}

static void say_levels(struct player *player)
{
    static const char *const statuses[] = {"none", "running", "ok", "failed"};
    static const char *const outcomes[] = {"none", "switched", "kept"};
    struct eplb_worker_levels before = player->levels;
    struct eplb_worker_levels now = eplb_executor_core_levels(player->core);
    if (now.prepare_token.value != before.prepare_token.value ||
        now.prepare_status != before.prepare_status || now.prepare_reason != before.prepare_reason)
        say(player, "level p%" PRIu64 " %s%s%s\n", now.prepare_token.value, statuses[now.prepare_status],
            now.prepare_reason == EPLB_REASON_NONE ? "" : ": ",
            now.prepare_reason == EPLB_REASON_NONE ? "" : eplb_reason_text(now.prepare_reason));
    if (now.activation_token.value != before.activation_token.value ||
        now.activation_outcome != before.activation_outcome ||
        now.activation_reason != before.activation_reason)
        say(player, "level a%" PRIu64 " %s%s%s\n", now.activation_token.value,
            outcomes[now.activation_outcome], now.activation_reason == EPLB_REASON_NONE ? "" : ": ",
            now.activation_reason == EPLB_REASON_NONE ? "" : eplb_reason_text(now.activation_reason));
    player->levels = now;
}

static void say_changes(struct player *player)
{
    say_levels(player);
    const int32_t *table = eplb_executor_core_tables(player->core);
    const uint64_t *generations = eplb_executor_core_generations(player->core);
    for (int32_t layer = 0; layer < NUM_LAYERS; layer++, table += NUM_SLOTS) {
        if (generations[layer] != player->generations[layer])
            say(player, "layer %d runs generation %" PRIu64 ", table %s\n", layer, generations[layer],
                table_name(table));
        player->generations[layer] = generations[layer];
    }
    bool idle = eplb_executor_core_idle(player->core);
    assert_int_equal(idle, eplb_executor_core_attempt(player->core).value == 0);
    if (idle != player->idle)
        say(player, idle ? "idle\n" : "waits\n");
    player->idle = idle;
}

/* --------------------------------------------------------------------------------------- play */

static bool is(const struct words *words, const char *name)
{
    return strcmp(words->list[0], name) == 0;
}

static bool step_event(struct player *player, const struct words *words, struct eplb_executor_event *event)
{
    if (is(words, "began")) {
        event->type = EPLB_EXECUTOR_PREPARE_BEGAN;
        event->token.value = number(words, 1);
        player->running = eplb_executor_core_queued(player->core);
        assert_non_null(player->running);
        assert_int_equal(player->running->token.value, event->token.value);
    } else if (is(words, "prepared")) {
        event->type = EPLB_EXECUTOR_PREPARED;
        event->token.value = number(words, 1);
        event->ok = strcmp(word(words, 2), "ok") == 0;
        eplb_executor_core_build(player->core, player->running);
    } else if (is(words, "materialised")) {
        event->type = EPLB_EXECUTOR_MATERIALISED;
        event->ok = strcmp(word(words, 1), "ok") == 0;
    } else if (is(words, "finish")) {
        event->type = EPLB_EXECUTOR_FINISH_STEP;
    } else if (is(words, "complete")) {
        const char *how = word(words, 2);
        event->type = EPLB_EXECUTOR_COMPLETED;
        event->completion.op = player->ops[number(words, 1) - 1];
        event->completion.result = strcmp(how, "done") == 0        ? EPLB_OP_DONE
                                   : strcmp(how, "cancelled") == 0 ? EPLB_OP_CANCELLED
                                                                   : EPLB_OP_FAILED;
    } else if (is(words, "read")) {
        const char *what = word(words, 1);
        event->type = EPLB_EXECUTOR_DECIDED;
        event->decision = strcmp(what, "commit") == 0  ? EPLB_COMMIT
                          : strcmp(what, "abort") == 0 ? EPLB_ABORT
                                                       : EPLB_UNDECIDED;
    } else {
        return false;
    }
    return true;
}

static void feed(struct player *player, const struct eplb_executor_event *event)
{
    struct eplb_executor_action action;
    eplb_executor_core_step(player->core, event, player->now);
    while (eplb_executor_core_next(player->core, &action))
        say_action(player, &action);
    say_changes(player);
}

static void play_command(struct player *player, const struct words *words)
{
    struct eplb_executor_event event = {.weights_epoch = player->epoch};
    struct eplb_command command = {.seq = 0};
    struct eplb_error error;
    bool has_command = words->count > 1;
    if (has_command)
        command = command_of(player, words);
    if (is(words, "refused")) {
        assert_int_not_equal(eplb_executor_core_check(player->core, &command, &error), EPLB_OK);
        say(player, "%s\n", error.text);
        return;
    }
    event.type = is(words, "start") ? EPLB_EXECUTOR_START_STEP : EPLB_EXECUTOR_ABORT_STEP;
    event.command = has_command ? &command : NULL;
    feed(player, &event);
}

static void play_line(struct player *player, const char *line, size_t length)
{
    struct eplb_executor_event event = {.type = EPLB_EXECUTOR_FINISH_STEP};
    struct words words;
    say(player, "> %.*s\n", (int)length, line);
    split(line, length, &words);
    if (is(&words, "time"))
        player->now += (int64_t)number(&words, 1) * 1000000;
    else if (is(&words, "epoch"))
        player->epoch = number(&words, 1);
    else if (is(&words, "moves"))
        say(player, "p%" PRIu64 " moves %d\n", player->running->token.value, player->running->num_moves);
    else if (step_event(player, &words, &event))
        feed(player, &event);
    else
        play_command(player, &words);
}

void script_play(const char *script)
{
    struct player *player = calloc(1, sizeof *player);
    assert_non_null(player);
    player->idle = true;
    player->epoch = 1;
    assert_int_equal(eplb_shape_init(&player->shape, NUM_LAYERS, 4, 2, 1, NULL), EPLB_OK);
    int32_t initial[NUM_LAYERS * NUM_SLOTS];
    for (size_t layer = 0; layer < NUM_LAYERS; layer++)
        memcpy(initial + layer * NUM_SLOTS, tables[0].ids, sizeof tables[0].ids);
    struct eplb_executor_core_params params = {
        .shape = player->shape,
        .initial = initial,
        .expert_bytes = 10,
        .limits = {.chunk_bytes = 8, .inflight_bytes = 16, .timeout_ns = 1000 * INT64_C(1000000)}};
    assert_int_equal(eplb_executor_core_create(&params, &player->core, NULL), EPLB_OK);
    for (const char *line = script; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "> ", 2) == 0)
            play_line(player, line + 2, length - 2);
        line += length + (line[length] == '\n');
    }
    assert_string_equal(player->text, script);
    eplb_executor_core_destroy(player->core);
    free(player);
}
