/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "protocol/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 32, LINE_BYTES = 256 };

/** A line's words, taken from the front. */
struct words {
    char text[LINE_BYTES];
    const char *list[MAX_WORDS];
    int32_t count;
    int32_t next;
};

static const char *split(const char *line, struct words *words)
{
    size_t length = strlen(line);
    if (length >= sizeof words->text)
        return "the line is too long";
    memcpy(words->text, line, length + 1);
    words->count = words->next = 0;
    for (char *at = words->text; *(at += strspn(at, " ,")) != '\0';) {
        if (words->count == MAX_WORDS)
            return "the line has too many words";
        words->list[words->count++] = at;
        at += strcspn(at, " ,");
        if (*at != '\0')
            *at++ = '\0';
    }
    return NULL;
}

/** Takes the next word when it is this one. */
static bool take(struct words *words, const char *word)
{
    if (words->next == words->count || strcmp(words->list[words->next], word) != 0)
        return false;
    words->next++;
    return true;
}

static const char *take_any(struct words *words)
{
    return words->next < words->count ? words->list[words->next++] : "";
}

static bool at_end(const struct words *words)
{
    return words->next == words->count;
}

/** Takes the next word when it is a number from 0 to last. */
static bool take_number(struct words *words, int64_t last, int64_t *number)
{
    char *end;
    if (at_end(words))
        return false;
    long long value = strtoll(words->list[words->next], &end, 10);
    if (end == words->list[words->next] || *end != '\0' || value < 0 || value > last)
        return false;
    *number = value;
    words->next++;
    return true;
}

static bool take_rank(struct words *words, int32_t *rank)
{
    int64_t number;
    bool taken = take_number(words, NUM_RANKS - 1, &number);
    if (taken)
        *rank = (int32_t)number;
    return taken;
}

static bool take_time(struct words *words, int64_t *time)
{
    char *end;
    const char *text = take_any(words);
    double value = strtod(text, &end);
    bool milliseconds = strcmp(end, "ms") == 0;
    if (end == text || value < 0 || (!milliseconds && strcmp(end, "s") != 0))
        return false;
    *time = (int64_t)(value * (milliseconds ? 1e6 : 1e9) + 0.5);
    return true;
}

/* --------------------------------------------------------------------------------------- world */

static bool has_begun(const struct world *world)
{
    return world->engine.manager != NULL;
}

static const char *set(struct world *world, struct words *words)
{
    static const char wrong[] = "a setting is layers, overlap, chunks, interval, prepare_timeout or "
                                "transfer_timeout with a value in range";
    struct settings *settings = &world->settings;
    int64_t number = 0;
    bool valid = true;
    if (has_begun(world))
        return "the world is set before anything happens";
    while (valid && !at_end(words)) {
        if (take(words, "layers")) {
            valid = take_number(words, MAX_LAYERS, &number) && number > 0;
            settings->layers = (int32_t)number;
        } else if (take(words, "overlap")) {
            valid = take_number(words, 1, &number);
            settings->overlap = (int32_t)number;
        } else if (take(words, "adaptive")) {
            settings->adaptive = true;
        } else if (take(words, "chunks")) {
            valid = take_number(words, MAX_CHUNKS, &number) && number > 0;
            settings->chunks = (int32_t)number;
        } else if (take(words, "interval")) {
            valid = take_time(words, &settings->interval);
        } else if (take(words, "prepare_timeout")) {
            valid = take_time(words, &settings->prepare_timeout) && settings->prepare_timeout > 0;
        } else {
            valid = take(words, "transfer_timeout") && take_time(words, &settings->transfer_timeout) &&
                    settings->transfer_timeout > 0;
        }
    }
    return valid ? NULL : wrong;
}

static void begin(struct world *world)
{
    struct eplb_error error;
    if (eplb_shape_init(&world->shape, world->settings.layers, NUM_EXPERTS, NUM_RANKS, 1, &error) !=
            EPLB_OK ||
        eplb_command_bytes(&world->shape) > RECORD_BYTES ||
        eplb_worker_output_bytes(&world->shape) > RECORD_BYTES) {
        fprintf(stderr, "the shape of the stories does not fit\n");
        exit(2);
    }
    engine_init(world);
    for (int32_t rank = 0; rank < NUM_RANKS; rank++)
        rank_init(world, rank);
}

struct world *script_open(void)
{
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL)
        exit(2);
    world->settings = (struct settings){.layers = 1,
                                        .chunks = 1,
                                        .interval = INT64_C(1000) * 1000000000,
                                        .prepare_timeout = INT64_C(30) * 1000000000,
                                        .transfer_timeout = INT64_C(10) * 1000000000};
    return world;
}

void script_close(struct world *world)
{
    if (has_begun(world))
        engine_destroy(world);
    for (int32_t rank = 0; rank < NUM_RANKS; rank++)
        eplb_executor_core_destroy(world->ranks[rank].core);
    free(world);
}

/* -------------------------------------------------------------------------------------- network */

static const struct message_name any_message = {-1, -1, -1, -1, 0};

static const char *take_message(struct words *words, struct message_name *name)
{
    int64_t number;
    int from, to, end = 0;
    *name = any_message;
    if (take(words, "all"))
        return NULL;
    const char *pair = take_any(words);
    if (sscanf(pair, "%d->%d%n", &from, &to, &end) != 2 || pair[end] != '\0' || from < 0 ||
        from >= NUM_RANKS || to < 0 || to >= NUM_RANKS)
        return "messages are named all, or by two ranks, as 0->1";
    name->from = from;
    name->to = to;
    if (take(words, "slot") && take_number(words, NUM_SLOTS - 1, &number))
        name->slot = (int32_t)number;
    if (take(words, "chunk") && take_number(words, MAX_CHUNKS - 1, &number))
        name->chunk = (int32_t)number;
    if (take(words, "of") && take_number(words, INT32_MAX, &number))
        name->attempt = (uint64_t)number;
    return NULL;
}

/** Until nothing moves any more: what arrives may make room for more. */
static bool deliver(struct world *world, const struct message_name *name)
{
    bool any = false;
    for (;;) {
        bool left = network_leave(world, name);
        bool arrived = network_arrive(world, name);
        if (!left && !arrived)
            return any;
        any = true;
    }
}

static const char *move_messages(struct world *world, struct words *words)
{
    struct message_name name;
    const char *how = take_any(words);
    const char *wrong = take_message(words, &name);
    if (wrong != NULL)
        return wrong;
    bool any = strcmp(how, "send") == 0     ? network_leave(world, &name)
               : strcmp(how, "arrive") == 0 ? network_arrive(world, &name)
                                            : deliver(world, &name);
    if (!any && name.from >= 0)
        trace_say(&world->trace, "network: there is no such message");
    return NULL;
}

/* ---------------------------------------------------------------------------------------- ranks */

static bool can(const struct world *world, int32_t rank, const char *verb)
{
    if (strcmp(verb, "start") == 0)
        return rank_can_start(world, rank);
    if (strcmp(verb, "finish") == 0)
        return rank_can_finish(world, rank);
    if (strcmp(verb, "poll") == 0)
        return rank_can_poll(world, rank);
    if (strcmp(verb, "prepare") == 0 || strcmp(verb, "begin") == 0)
        return rank_can_prepare(world, rank);
    return true;
}

static const char *do_verb(struct world *world, int32_t rank, const char *verb, bool fails)
{
    bool prepares = strcmp(verb, "prepare") == 0;
    if (strcmp(verb, "start") == 0)
        rank_start(world, rank, !fails);
    else if (strcmp(verb, "finish") == 0)
        rank_finish(world, rank);
    else if (strcmp(verb, "abort") == 0)
        rank_abort(world, rank);
    else if (strcmp(verb, "poll") == 0)
        rank_poll(world, rank);
    else if (strcmp(verb, "die") == 0)
        rank_die(world, rank);
    else if (!prepares && strcmp(verb, "begin") != 0 && strcmp(verb, "end") != 0)
        return "a rank does start, finish, abort, poll, prepare, begin, end or die";
    if (prepares || strcmp(verb, "begin") == 0)
        rank_begin_prepare(world, rank);
    if (prepares || strcmp(verb, "end") == 0)
        rank_end_prepare(world, rank, !fails);
    return NULL;
}

static const char *do_ranks(struct world *world, struct words *words)
{
    bool named[NUM_RANKS] = {false};
    bool all = take(words, "all");
    int32_t rank;
    if (!all && !take(words, "rank"))
        take(words, "ranks");
    while (!all && take_rank(words, &rank))
        named[rank] = true;
    const char *verb = take_any(words);
    take(words, "materialise");
    bool fails = take(words, "fails");
    const char *wrong = NULL;
    for (rank = 0; wrong == NULL && rank < NUM_RANKS; rank++) {
        if (named[rank] && world->ranks[rank].dead)
            trace_rank(&world->trace, rank, "dead");
        else if (named[rank] || (all && !world->ranks[rank].dead && can(world, rank, verb)))
            wrong = do_verb(world, rank, verb, fails);
    }
    return wrong;
}

/* --------------------------------------------------------------------------------------- engine */

static const char *submit(struct world *world, struct words *words)
{
    int64_t generation = 0;
    bool warmup = take(words, "warmup");
    const char *batches = take_any(words);
    if (strlen(batches) != NUM_RANKS || strspn(batches, "dpm-") != NUM_RANKS)
        return "a forward has a letter per DP rank: d, p, m or -";
    if (take(words, "from") && !(take(words, "generation") && take_number(words, 1000, &generation)))
        return "it goes on: from generation N";
    engine_submit(world, batches, warmup, (uint64_t)generation);
    return NULL;
}

static const char *output(struct world *world, struct words *words)
{
    bool lacking[NUM_RANKS] = {false};
    int32_t rank;
    if (take(words, "lacking"))
        while (take_rank(words, &rank))
            lacking[rank] = true;
    engine_output(world, lacking);
    return NULL;
}

static const char *policy(struct world *world, struct words *words)
{
    bool fails = take(words, "fails");
    if (!fails && !take(words, "done"))
        return "a policy run is done or fails";
    engine_policy(world, fails);
    return NULL;
}

static const char *manager(struct world *world, struct words *words)
{
    if (!take(words, "restarts"))
        return "a manager restarts";
    engine_restart(world);
    return NULL;
}

static const char *advance(struct world *world, struct words *words)
{
    int64_t time;
    if (!take_time(words, &time))
        return "time is written 30s, 1.5s or 500ms";
    world->now += time;
    engine_tick(world);
    return NULL;
}

static const char *drop(struct world *world, struct words *words)
{
    int64_t seq;
    if (!take_number(words, (int64_t)world->engine.last_seq, &seq) || seq == 0)
        return "drop names a forward that was submitted";
    engine_drop(world, (uint64_t)seq);
    return NULL;
}

static const char *dead(struct world *world, struct words *words)
{
    int32_t rank;
    if (!take_rank(words, &rank) || !world->ranks[rank].dead)
        return "dead names a rank that has died";
    engine_dead(world, rank);
    return NULL;
}

static bool take_layer(const struct world *world, struct words *words, int32_t *layer)
{
    int64_t number;
    bool taken = take(words, "layer") && take_number(words, world->shape.num_layers - 1, &number);
    if (taken)
        *layer = (int32_t)number;
    return taken;
}

static const char *hot(struct world *world, struct words *words)
{
    int32_t layer;
    int64_t expert;
    if (!take_layer(world, words, &layer) || !take(words, "expert") ||
        !take_number(words, NUM_EXPERTS - 1, &expert))
        return "it goes on: layer L expert E";
    world->hot[layer] = (int32_t)expert;
    return NULL;
}

static const char *solved(struct world *world, struct words *words)
{
    int32_t layer;
    int64_t expert, percent, generation;
    const char *wrong = "it goes on: layer L expert E P, from 1 to 99 percent, and perhaps of generation N";
    if (!take_layer(world, words, &layer) || !take(words, "expert") ||
        !take_number(words, NUM_EXPERTS - 1, &expert) || !take_number(words, 99, &percent) || percent < 1)
        return wrong;
    generation = (int64_t)eplb_manager_core_generation(world->engine.manager, layer);
    if (take(words, "of") && !(take(words, "generation") && take_number(words, 1000, &generation)))
        return wrong;
    engine_solved(world, layer, (int32_t)expert, (int32_t)percent, (uint64_t)generation);
    return NULL;
}

static const char *window(struct world *world, struct words *words)
{
    int32_t layer;
    if (!take_layer(world, words, &layer))
        return "it goes on: layer L";
    engine_show_window(world, layer);
    return NULL;
}

static const char *state(struct world *world, struct words *words)
{
    (void)words;
    engine_show_state(world);
    return NULL;
}

static const char *plans(struct world *world, struct words *words)
{
    (void)words;
    for (int32_t rank = 0; rank < NUM_RANKS; rank++)
        if (!world->ranks[rank].dead)
            rank_show_plans(world, rank);
    return NULL;
}

/* ---------------------------------------------------------------------------------------- lines */

static const char *forward(struct world *world, struct words *words);

static const struct {
    const char *word;
    const char *(*act)(struct world *world, struct words *words);
    bool keeps_word; /* act wants to see it */
} sentences[] = {
    {"submit", submit, false},
    {"drop", drop, false},
    {"output", output, false},
    {"solved", solved, false},
    {"policy", policy, false},
    {"manager", manager, false},
    {"dead", dead, false},
    {"advance", advance, false},
    {"hot", hot, false},
    {"window", window, false},
    {"state", state, false},
    {"plans", plans, false},
    {"forward", forward, false},
    {"rank", do_ranks, true},
    {"ranks", do_ranks, true},
    {"all", do_ranks, true},
    {"deliver", move_messages, true},
    {"send", move_messages, true},
    {"arrive", move_messages, true},
};

static const char *act(struct world *world, struct words *words)
{
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        if (!take(words, sentences[i].word))
            continue;
        if (sentences[i].keeps_word)
            words->next--;
        const char *wrong = sentences[i].act(world, words);
        return wrong == NULL && !at_end(words) ? "there are words left at the end" : wrong;
    }
    return "no line begins like this";
}

/** A forward in which everybody does at once what there is to do. */
static const char *forward(struct world *world, struct words *words)
{
    static const char *const lines[] = {"all start", "all prepare", "deliver all", "all finish",
                                        "all poll",  "all poll",    "output"};
    const char *wrong = submit(world, words);
    for (size_t i = 0; wrong == NULL && i < sizeof lines / sizeof *lines; i++) {
        struct words line;
        wrong = split(lines[i], &line);
        if (wrong == NULL)
            wrong = act(world, &line);
    }
    return wrong;
}

const char *script_do(struct world *world, const char *line)
{
    struct words words;
    const char *wrong = split(line, &words);
    if (wrong != NULL || words.count == 0)
        return wrong;
    if (take(&words, "world"))
        return set(world, &words);
    if (!has_begun(world))
        begin(world);
    world->trace.muted = take(&words, "given");
    wrong = act(world, &words);
    world->trace.muted = false;
    return wrong;
}
