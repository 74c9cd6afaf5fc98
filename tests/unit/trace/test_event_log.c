/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Event logs as files: what is written is read, what is cut off ends there, what is damaged is named.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "os/file.h"
#include "recorded.h"
#include "support/shm_place.h"
#include "trace/event_codec.h"
#include "wire/bytes.h"

static struct shm_place place;

static int make_place(void **state)
{
    (void)state;
    shm_place_open(&place);
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    shm_place_close(&place);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[SHM_PLACE_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", place.path, name);
    unlink(path);
    return path;
}

static struct eplb_manager_core_params small_params(void)
{
    struct eplb_manager_core_params params = {.ops = eplb_policy_find("balanced").ops,
                                              .min_peak_load_improvement = 0.0625,
                                              .update_interval_ns = 11,
                                              .update_interval_forwards = 12,
                                              .prepare_timeout_ns = 13,
                                              .transfer_timeout_ns = 14,
                                              .overlap = 1,
                                              .first_token = 15,
                                              .first_seq = 16};
    struct eplb_error error;
    assert_int_equal(eplb_shape_init(&params.shape, 2, 4, 2, 1, &error), EPLB_OK);
    return params;
}

enum { SMALL_RANKS = 2, SMALL_LAYERS = 2, SMALL_SLOTS = 3, SMALL_TABLE = 6 };

static struct eplb_event_writer *writer_of(const char *path, const struct eplb_log_sink *log)
{
    struct eplb_event_writer *writer;
    struct eplb_error error;
    if (eplb_event_writer_create(path, log, &writer, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return writer;
}

static void close_writer(struct eplb_event_writer *writer)
{
    struct eplb_error error;
    if (eplb_event_writer_close(writer, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static struct eplb_event_log open_log(const char *path)
{
    struct eplb_event_log log;
    struct eplb_error error;
    if (eplb_event_log_open(path, &log, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return log;
}

static struct eplb_logged next_of(struct eplb_event_log *log)
{
    struct eplb_logged logged;
    struct eplb_error error;
    if (eplb_event_log_next(log, &logged, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return logged;
}

static void tell(const struct eplb_manager_observer *observer, struct eplb_manager_event event, int64_t now)
{
    observer->event(observer->context, &event, now);
}

static void answer(const struct eplb_manager_observer *observer, struct eplb_manager_action action)
{
    observer->action(observer->context, &action);
}

/* ---------------------------------------------------------------------------------- round trip */

static void the_header_comes_back(void **state)
{
    (void)state;
    static const int32_t initial[SMALL_LAYERS * SMALL_TABLE] = {0, 1, 2, 2, 3, 0, 1, 0, 3, 3, 2, 1};
    static const uint64_t generations[SMALL_LAYERS] = {7, UINT64_C(1) << 40};
    static const int32_t layer_ids[SMALL_LAYERS] = {3, 60};
    const char *path = path_of("header.events");
    for (int arrays = 0; arrays < 16; arrays++) {
        struct eplb_manager_core_params params = small_params();
        params.initial = arrays & 1 ? initial : NULL;
        params.generations = arrays & 2 ? generations : NULL;
        params.layer_ids = arrays & 4 ? layer_ids : NULL;
        params.max_moves = arrays & 8 ? 17 : 0;
        params.expert_bytes = arrays & 8 ? INT64_C(19) << 40 : 0;
        params.bytes_per_second = arrays & 8 ? 20.5 : 0;
        unlink(path);
        struct eplb_event_writer *writer = writer_of(path, NULL);
        eplb_event_writer_start(writer, &params);
        close_writer(writer);
        struct eplb_event_log log = open_log(path);
        const struct eplb_manager_core_params *read = &log.params;
        assert_memory_equal(&read->shape, &params.shape, sizeof params.shape);
        assert_ptr_equal(read->ops, params.ops);
        assert_string_equal(log.policy, "balanced");
        assert_true(read->min_peak_load_improvement == 0.0625);
        assert_int_equal(read->update_interval_ns, 11);
        assert_int_equal(read->update_interval_forwards, 12);
        assert_int_equal(read->prepare_timeout_ns, 13);
        assert_int_equal(read->transfer_timeout_ns, 14);
        assert_int_equal(read->overlap, 1);
        assert_int_equal(read->first_token, 15);
        assert_int_equal(read->first_seq, 16);
        assert_int_equal(read->initial != NULL, (arrays & 1) != 0);
        assert_int_equal(read->generations != NULL, (arrays & 2) != 0);
        assert_int_equal(read->layer_ids != NULL, (arrays & 4) != 0);
        assert_int_equal(read->settings.num_groups * read->settings.num_nodes, 1);
        assert_int_equal(read->max_moves, params.max_moves);
        assert_int_equal(read->expert_bytes, params.expert_bytes);
        assert_true(read->bytes_per_second == params.bytes_per_second);
        if (arrays & 1)
            assert_memory_equal(read->initial, initial, sizeof initial);
        if (arrays & 2)
            assert_memory_equal(read->generations, generations, sizeof generations);
        if (arrays & 4)
            assert_memory_equal(read->layer_ids, layer_ids, sizeof layer_ids);
        assert_int_equal(next_of(&log).kind, EPLB_LOGGED_NOTHING);
        assert_true(log.ended && !log.cut);
        eplb_event_log_close(&log);
    }
}

/* One output of each kind that there is, and all that a count may be. */
static const int64_t sums[][SMALL_LAYERS * SMALL_SLOTS] = {
    {0, 0, 0, 0, 0, 0},
    {1, 2, 3, 100, 100, 20000},
    {0, 5, 5, 0, 0, 7},
    {INT64_MAX, INT64_MAX, INT64_MAX, 0, 0, 1},
    {5, 4, 3, -1, INT64_MIN, INT64_MAX},
    {0, 0, EPLB_MAX_LOAD, 0, 0, 0},
};
enum { NUM_SUMS = sizeof sums / sizeof sums[0] };

static struct eplb_worker_output output_of(int32_t rank, uint64_t seq, const uint64_t *generations)
{
    return (struct eplb_worker_output){.size = sizeof(struct eplb_worker_output),
                                       .seq = seq,
                                       .ep_rank = rank,
                                       .num_layers = SMALL_LAYERS,
                                       .slots_per_rank = SMALL_SLOTS,
                                       .prefix = sums[(seq + (uint64_t)rank) % NUM_SUMS],
                                       .generations = generations};
}

static void vary(struct eplb_worker_output *output, uint64_t seq)
{
    struct eplb_worker_levels *levels = &output->levels;
    if (seq % 3 == 0) {
        levels->prepare_token.value = seq;
        levels->prepare_status = EPLB_PREPARE_FAILED;
        levels->prepare_reason = EPLB_REASON_STORAGE_CHANGED;
    }
    if (seq % 4 == 0) {
        levels->activation_token.value = EPLB_MAX_TOKEN - seq;
        levels->activation_outcome = EPLB_ACTIVATION_SWITCHED;
    }
    switch (seq % 8) {
    case 1:
        output->prefix = NULL;
        break;
    case 2:
        output->seq = UINT64_MAX;
        output->ep_rank = -1;
        break;
    case 3:
        output->slots_per_rank = 9;
        break;
    case 4:
        output->num_layers = INT32_MIN;
        break;
    case 5:
        output->generations = NULL;
        break;
    default:
        break;
    }
}

static void check_output(const struct eplb_worker_output *read, const struct eplb_worker_output *written)
{
    assert_int_equal(read->prefix == NULL, written->prefix == NULL);
    if (written->prefix == NULL)
        return;
    assert_int_equal(read->size, sizeof *read);
    assert_int_equal(read->seq, written->seq);
    assert_int_equal(read->ep_rank, written->ep_rank);
    assert_int_equal(read->num_layers, written->num_layers);
    assert_int_equal(read->slots_per_rank, written->slots_per_rank);
    assert_memory_equal(&read->levels, &written->levels, sizeof read->levels);
    assert_int_equal(read->generations == NULL, written->generations == NULL);
    if (written->num_layers != SMALL_LAYERS)
        return;
    if (written->generations != NULL)
        assert_memory_equal(read->generations, written->generations, SMALL_LAYERS * sizeof(uint64_t));
    if (written->slots_per_rank == SMALL_SLOTS)
        assert_memory_equal(read->prefix, written->prefix, sizeof sums[0]);
}

static void outputs_come_back(void **state)
{
    (void)state;
    enum { FORWARDS = 100 };
    const char *path = path_of("outputs.events");
    struct eplb_event_writer *writer = writer_of(path, NULL);
    const struct eplb_manager_observer *observer = eplb_event_writer_observer(writer);
    const struct eplb_manager_core_params params = small_params();
    static struct eplb_worker_output outputs[FORWARDS][SMALL_RANKS + 1];
    static uint64_t generations[FORWARDS][SMALL_LAYERS];
    eplb_event_writer_start(writer, &params);
    for (uint64_t seq = 1; seq < FORWARDS; seq++) {
        generations[seq][0] = seq / 7;
        generations[seq][1] = seq % 10 == 0 ? UINT64_MAX : 3;
        for (int32_t rank = 0; rank < SMALL_RANKS; rank++) {
            outputs[seq][rank] = output_of(rank, seq, generations[seq]);
            vary(&outputs[seq][rank], seq + 5 * (uint64_t)rank);
        }
        int32_t count = seq % 20 == 19 ? (int32_t)(seq % 4) : SMALL_RANKS;
        tell(observer,
             (struct eplb_manager_event){
                 .type = EPLB_MANAGER_OUTPUTS, .seq = seq, .outputs = outputs[seq], .num_outputs = count},
             (int64_t)(seq * seq) - 50);
    }
    close_writer(writer);
    struct eplb_event_log log = open_log(path);
    for (uint64_t seq = 1; seq < FORWARDS; seq++) {
        struct eplb_logged logged = next_of(&log);
        assert_int_equal(logged.kind, EPLB_LOGGED_EVENT);
        assert_int_equal(logged.number, seq);
        assert_int_equal(logged.now, (int64_t)(seq * seq) - 1);
        assert_int_equal(logged.event.type, EPLB_MANAGER_OUTPUTS);
        assert_int_equal(logged.event.seq, seq);
        assert_int_equal(logged.event.num_outputs, seq % 20 == 19 ? (int32_t)(seq % 4) : SMALL_RANKS);
        for (int32_t rank = 0; rank < SMALL_RANKS && rank < logged.event.num_outputs; rank++)
            check_output(&logged.event.outputs[rank], &outputs[seq][rank]);
    }
    assert_int_equal(next_of(&log).kind, EPLB_LOGGED_NOTHING);
    assert_true(log.ended);
    eplb_event_log_close(&log);
}

static void every_other_event_comes_back(void **state)
{
    (void)state;
    const char *path = path_of("events.events");
    struct eplb_event_writer *writer = writer_of(path, NULL);
    const struct eplb_manager_observer *observer = eplb_event_writer_observer(writer);
    const struct eplb_manager_core_params params = small_params();
    static const struct eplb_dp_batch batches[3] = {{0, 0}, {INT64_MAX, 1}, {3, INT64_MAX}};
    static const struct eplb_benefit benefits[SMALL_LAYERS] = {{10.5, 9.25, 0.125, 1, 1}, {3, 3, -0.0, 0, 0}};
    static const int32_t candidates[SMALL_LAYERS * SMALL_TABLE] = {0, 1, 2, 2, 3, 0, 1, 0, 3, 3, 2, 1};
    eplb_event_writer_start(writer, &params);
    tell(observer,
         (struct eplb_manager_event){
             .type = EPLB_MANAGER_SUBMIT, .seq = 16, .batches = batches, .num_batches = 3, .warmup = 1},
         1000);
    tell(observer, (struct eplb_manager_event){.type = EPLB_MANAGER_DROPPED, .seq = UINT64_MAX}, 1000);
    tell(observer, (struct eplb_manager_event){.type = EPLB_MANAGER_TICK}, 1500);
    tell(observer, (struct eplb_manager_event){.type = EPLB_MANAGER_RANK_DEAD, .rank = 1}, 2000);
    tell(observer,
         (struct eplb_manager_event){.type = EPLB_MANAGER_POLICY_DONE,
                                     .status = EPLB_REFUSED,
                                     .reason = "no wish to",
                                     .benefits = benefits,
                                     .candidates = candidates},
         3000);
    tell(observer, (struct eplb_manager_event){.type = EPLB_MANAGER_POLICY_DONE}, INT64_C(1) << 60);
    close_writer(writer);
    struct eplb_event_log log = open_log(path);
    struct eplb_logged logged = next_of(&log);
    assert_int_equal(logged.event.type, EPLB_MANAGER_SUBMIT);
    assert_int_equal(logged.now, 0);
    assert_int_equal(logged.event.seq, 16);
    assert_int_equal(logged.event.num_batches, 3);
    assert_int_equal(logged.event.warmup, 1);
    assert_memory_equal(logged.event.batches, batches, sizeof batches);
    logged = next_of(&log);
    assert_int_equal(logged.event.type, EPLB_MANAGER_DROPPED);
    assert_true(logged.event.seq == UINT64_MAX);
    logged = next_of(&log);
    assert_int_equal(logged.event.type, EPLB_MANAGER_RANK_DEAD);
    assert_int_equal(logged.event.rank, 1);
    assert_int_equal(logged.now, 1000);
    logged = next_of(&log);
    assert_int_equal(logged.event.type, EPLB_MANAGER_POLICY_DONE);
    assert_int_equal(logged.event.status, EPLB_REFUSED);
    assert_string_equal(logged.event.reason, "no wish to");
    assert_memory_equal(logged.event.benefits, benefits, sizeof benefits);
    for (int layer = 0; layer < SMALL_LAYERS; layer++)
        assert_true(logged.candidate_hashes[layer] ==
                    eplb_placement_hash(&params.shape, candidates + layer * SMALL_TABLE));
    logged = next_of(&log);
    assert_int_equal(logged.event.status, EPLB_OK);
    assert_string_equal(logged.event.reason, "");
    assert_null(logged.event.benefits);
    assert_int_equal(next_of(&log).kind, EPLB_LOGGED_NOTHING);
    eplb_event_log_close(&log);
}

static void every_action_comes_back(void **state)
{
    (void)state;
    const char *path = path_of("actions.events");
    struct eplb_event_writer *writer = writer_of(path, NULL);
    const struct eplb_manager_observer *observer = eplb_event_writer_observer(writer);
    const struct eplb_manager_core_params params = small_params();
    static const int32_t table[SMALL_TABLE] = {0, 1, 2, 2, 3, 0};
    struct eplb_error stop = {EPLB_INCONSISTENT, "they do not agree"};
    struct eplb_command command, empty;
    eplb_command_init(&empty, 20);
    eplb_command_init(&command, 21);
    command.prepare_layer_id = 1;
    command.prepare_token.value = 5;
    command.expert_ids = table;
    command.num_expert_ids = SMALL_TABLE;
    command.base_generation = 4;
    command.base_hash = 99;
    command.update_layer_id = 0;
    command.activation_token.value = 6;
    command.update_prepare_token.value = 3;
    eplb_event_writer_start(writer, &params);
    tell(observer, (struct eplb_manager_event){.type = EPLB_MANAGER_TICK}, 5);
    answer(observer, (struct eplb_manager_action){.type = EPLB_MANAGER_COMMAND, .command = &empty});
    answer(observer, (struct eplb_manager_action){.type = EPLB_MANAGER_COMMAND, .command = &command});
    answer(observer, (struct eplb_manager_action){.type = EPLB_MANAGER_OPEN_RECORD, .token = {6}});
    answer(observer, (struct eplb_manager_action){.type = EPLB_MANAGER_ABORT_RECORD, .token = {7}});
    answer(observer, (struct eplb_manager_action){.type = EPLB_MANAGER_RUN_POLICY});
    answer(observer, (struct eplb_manager_action){.type = EPLB_MANAGER_COMMITTED,
                                                  .layer = 1,
                                                  .generation = 12,
                                                  .wait_ns = 77,
                                                  .expert_ids = table});
    answer(observer,
           (struct eplb_manager_action){.type = EPLB_MANAGER_ABORTED, .layer = 0, .why = EPLB_ABORT_STALE});
    answer(observer, (struct eplb_manager_action){.type = EPLB_MANAGER_STOP, .error = &stop});
    close_writer(writer);
    struct eplb_event_log log = open_log(path);
    assert_int_equal(next_of(&log).event.type, EPLB_MANAGER_TICK);
    struct eplb_logged logged = next_of(&log);
    assert_int_equal(logged.kind, EPLB_LOGGED_ACTION);
    assert_int_equal(logged.action.command->seq, 20);
    assert_int_equal(logged.action.command->prepare_layer_id, EPLB_NO_LAYER);
    logged = next_of(&log);
    assert_int_equal(logged.action.command->seq, 21);
    assert_int_equal(logged.action.command->base_hash, 99);
    assert_memory_equal(logged.action.command->expert_ids, table, sizeof table);
    assert_int_equal(logged.action.command->update_prepare_token.value, 3);
    assert_int_equal(next_of(&log).action.token.value, 6);
    logged = next_of(&log);
    assert_int_equal(logged.action.type, EPLB_MANAGER_ABORT_RECORD);
    assert_int_equal(logged.action.token.value, 7);
    assert_int_equal(next_of(&log).action.type, EPLB_MANAGER_RUN_POLICY);
    logged = next_of(&log);
    assert_int_equal(logged.action.layer, 1);
    assert_int_equal(logged.action.generation, 12);
    assert_int_equal(logged.action.wait_ns, 77);
    assert_true(logged.table_hash == eplb_placement_hash(&params.shape, table));
    logged = next_of(&log);
    assert_int_equal(logged.action.layer, 0);
    assert_int_equal(logged.action.why, EPLB_ABORT_STALE);
    logged = next_of(&log);
    assert_int_equal(logged.action.error->status, EPLB_INCONSISTENT);
    assert_string_equal(logged.action.error->text, "they do not agree");
    assert_int_equal(next_of(&log).kind, EPLB_LOGGED_NOTHING);
    eplb_event_log_close(&log);
}

/* ------------------------------------------------------------------------- cut off and damaged */

/** Reads as far as it goes. EPLB_OK, or the sentence. */
static enum eplb_status read_all(const char *path, struct eplb_event_log *log, struct eplb_error *error)
{
    struct eplb_logged logged;
    enum eplb_status status = eplb_event_log_open(path, log, error);
    if (status != EPLB_OK)
        return status;
    do
        status = eplb_event_log_next(log, &logged, error);
    while (status == EPLB_OK && logged.kind != EPLB_LOGGED_NOTHING);
    return status;
}

/** The end of each record, the magic's included. */
static size_t find_ends(const char *bytes, size_t size, size_t *ends, size_t most)
{
    size_t count = 0;
    for (size_t at = EPLB_EVENT_MAGIC; at <= size && count < most;) {
        ends[count++] = at;
        if (at == size)
            break;
        at += EPLB_EVENT_FRAME + eplb_get_u32((const unsigned char *)bytes + at) + EPLB_EVENT_CHECK;
    }
    return count;
}

static void a_file_that_is_cut_off_is_read_to_its_last_whole_record(void **state)
{
    (void)state;
    const char *path = path_of("cut.events");
    static size_t ends[10000];
    struct recorded_counts counts;
    struct eplb_error error;
    char *bytes;
    size_t size;
    recorded_write(path, 4, 60, &counts);
    assert_int_equal(eplb_file_read(path, &bytes, &size, &error), EPLB_OK);
    size_t num_ends = find_ends(bytes, size, ends, sizeof ends / sizeof ends[0]);
    assert_true(num_ends > 100 && ends[num_ends - 1] == size);
    for (size_t length = size; length-- > 0;) {
        struct eplb_event_log log = {0};
        assert_int_equal(truncate(path, (off_t)length), 0);
        enum eplb_status status = read_all(path, &log, &error);
        if (length < ends[1]) {
            assert_int_equal(status, EPLB_INVALID);
            assert_non_null(strstr(error.text, "cut.events"));
            continue;
        }
        while (ends[num_ends - 1] > length)
            num_ends--;
        assert_int_equal(status, EPLB_OK);
        assert_int_equal(log.num_records, num_ends - 1);
        assert_true(log.cut && !log.ended);
        eplb_event_log_close(&log);
    }
    free(bytes);
}

static void replace(const char *path, const char *bytes, size_t size)
{
    struct eplb_error error;
    if (eplb_file_write_atomic(path, bytes, size, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void a_damaged_byte_is_named(void **state)
{
    (void)state;
    const char *path = path_of("damaged.events");
    static size_t ends[10000];
    struct recorded_counts counts;
    struct eplb_error error;
    char *bytes;
    size_t size;
    recorded_write(path, 5, 30, &counts);
    assert_int_equal(eplb_file_read(path, &bytes, &size, &error), EPLB_OK);
    size_t num_ends = find_ends(bytes, size, ends, sizeof ends / sizeof ends[0]);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(file >= 0);
    size_t record = 0;
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            struct eplb_event_log log = {0};
            char place_text[64];
            char flipped = (char)(bytes[at] ^ 1 << bit);
            assert_int_equal(pwrite(file, &flipped, 1, (off_t)at), 1);
            assert_int_equal(read_all(path, &log, &error), EPLB_INVALID);
            while (record + 1 < num_ends && ends[record] <= at)
                record++;
            if (at < EPLB_EVENT_MAGIC)
                snprintf(place_text, sizeof place_text, "it does not begin with eplb-events-1");
            else
                snprintf(place_text, sizeof place_text, "record %zu, at byte %zu: the file is damaged",
                         record - 1, ends[record - 1]);
            if (strstr(error.text, place_text) == NULL)
                fail_msg("byte %zu, bit %d: '%s' does not say '%s'", at, bit, error.text, place_text);
            eplb_event_log_close(&log);
            assert_int_equal(pwrite(file, &bytes[at], 1, (off_t)at), 1);
        }
    close(file);
    free(bytes);
}

/** Makes the checks of a file right again. */
static void seal(char *bytes, size_t size)
{
    unsigned char *at = (unsigned char *)bytes + EPLB_EVENT_MAGIC;
    uint64_t check = 0;
    while (at < (unsigned char *)bytes + size) {
        uint32_t length = eplb_get_u32(at);
        at += EPLB_EVENT_FRAME;
        check = eplb_event_check(check, at, length);
        at += length;
        eplb_put_u64(at, check);
        at += EPLB_EVENT_CHECK;
    }
}

/** A log that somebody made up: its checks are right, and nothing else need be. */
static void a_made_up_log_is_borne(void **state)
{
    (void)state;
    enum { SEEDS = 3000 };
    const char *path = path_of("hostile.events");
    static size_t ends[10000];
    struct recorded_counts counts;
    struct eplb_error error;
    struct eplb_prng prng;
    int refused = 0, differing = 0;
    char *bytes;
    size_t size;
    recorded_write(path, 6, 40, &counts);
    assert_int_equal(eplb_file_read(path, &bytes, &size, &error), EPLB_OK);
    char *changed = malloc(size);
    size_t num_ends = find_ends(bytes, size, ends, sizeof ends / sizeof ends[0]);
    assert_non_null(changed);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct eplb_event_log log = {0};
        struct eplb_event_replay replay = {0};
        eplb_prng_seed(&prng, seed);
        memcpy(changed, bytes, size);
        for (uint64_t changes = 1 + eplb_prng_below(&prng, 3); changes > 0; changes--) {
            size_t record = (size_t)eplb_prng_below(&prng, num_ends - 1);
            size_t first = ends[record] + EPLB_EVENT_FRAME;
            size_t at = first + (size_t)eplb_prng_below(&prng, ends[record + 1] - EPLB_EVENT_CHECK - first);
            changed[at] = (char)(eplb_prng_below(&prng, 2)
                                     ? eplb_prng_next(&prng)
                                     : (uint64_t)changed[at] ^ UINT64_C(1) << eplb_prng_below(&prng, 8));
        }
        seal(changed, size);
        replace(path, changed, size);
        enum eplb_status status = eplb_event_log_open(path, &log, &error);
        if (status == EPLB_OK)
            status = eplb_event_replay_run(&log, NULL, &replay, &error);
        if (status != EPLB_OK)
            assert_non_null(strstr(error.text, "hostile.events"));
        refused += status != EPLB_OK;
        differing += replay.differs;
        eplb_event_replay_free(&replay);
        eplb_event_log_close(&log);
    }
    print_message("of %d made-up logs %d were refused and %d differed\n", SEEDS, refused, differing);
    assert_true(refused > SEEDS / 10 && differing > SEEDS / 10);
    free(changed);
    free(bytes);
}

/** The manager's core takes the levels of its shell as they are; those of a log are looked at first. */
static void levels_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const char *path = path_of("levels.events");
    static const uint64_t generations[SMALL_LAYERS] = {0, 0};
    const struct eplb_manager_core_params params = small_params();
    struct eplb_worker_output output = output_of(0, 1, generations);
    struct eplb_event_log log = {0};
    struct eplb_error error;
    output.levels.activation_token.value = 5;
    output.levels.activation_outcome = (enum eplb_activation_outcome)7;
    struct eplb_event_writer *writer = writer_of(path, NULL);
    eplb_event_writer_start(writer, &params);
    tell(eplb_event_writer_observer(writer),
         (struct eplb_manager_event){
             .type = EPLB_MANAGER_OUTPUTS, .seq = 1, .outputs = &output, .num_outputs = 1},
         0);
    close_writer(writer);
    assert_int_equal(read_all(path, &log, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "record 1, at byte"));
    assert_non_null(strstr(error.text, "activation outcome 7; allowed is 0 to 2"));
    eplb_event_log_close(&log);
}

static void what_is_no_log_is_refused(void **state)
{
    (void)state;
    const char *path = path_of("other.events");
    struct eplb_event_log log = {0};
    struct eplb_error error;
    assert_int_equal(eplb_event_log_open(path, &log, &error), EPLB_INVALID);
    replace(path, "", 0);
    assert_int_equal(eplb_event_log_open(path, &log, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "is empty: its run has started no manager"));
    replace(path, "{\"format\": \"eplb-load-1\"}", 25);
    assert_int_equal(eplb_event_log_open(path, &log, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "is no recording of events"));
    assert_null(log.source);
}

static void bytes_behind_the_end_are_refused(void **state)
{
    (void)state;
    const char *path = path_of("behind.events");
    struct recorded_counts counts;
    struct eplb_event_log log = {0};
    struct eplb_error error;
    recorded_write(path, 7, 5, &counts);
    int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(file, "x", 1), 1);
    close(file);
    assert_int_equal(read_all(path, &log, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "there are bytes behind the end"));
    eplb_event_log_close(&log);
}

/* ----------------------------------------------------------------------------------- the writer */

static void a_file_is_not_replaced(void **state)
{
    (void)state;
    const char *path = path_of("there.events");
    struct eplb_event_writer *writer = NULL;
    struct eplb_error error;
    replace(path, "precious", 8);
    assert_int_equal(eplb_event_writer_create(path, NULL, &writer, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "there.events exists already"));
    assert_int_equal(eplb_event_writer_create("/nowhere/a.events", NULL, &writer, &error), EPLB_INVALID);
    assert_null(writer);
    assert_int_equal(eplb_event_writer_close(NULL, &error), EPLB_OK);
}

struct warnings {
    int count;
    char last[1024];
};

static void count_warning(void *context, const struct eplb_log_record *record)
{
    struct warnings *warnings = context;
    warnings->count++;
    eplb_log_format(record, warnings->last, sizeof warnings->last);
}

static void a_full_disk_ends_the_recording_and_not_the_run(void **state)
{
    (void)state;
    const char *path = path_of("full.events");
    struct warnings warnings = {0};
    const struct eplb_log_sink sink = {.size = sizeof sink, .context = &warnings, .write = count_warning};
    struct rlimit before, limit;
    struct eplb_error error;
    static struct recorded run;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    struct eplb_event_writer *writer = writer_of(path, &sink);
    recorded_start(&run, 8, writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    recorded_go(&run, 400);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    uint64_t next_seq = run.next_seq - run.params.first_seq;
    recorded_end(&run);
    assert_true(next_seq > 200);
    assert_int_equal(warnings.count, 1);
    assert_non_null(strstr(warnings.last, "full.events: the recording of events ends here, the run goes on"));
    assert_int_equal(eplb_event_writer_close(writer, &error), EPLB_IO);
    assert_int_equal(warnings.count, 1);
    static size_t ends[10000];
    char *bytes;
    size_t size;
    assert_int_equal(eplb_file_read(path, &bytes, &size, &error), EPLB_OK);
    assert_true(size > 9000 && size <= 10000);
    size_t num_ends = find_ends(bytes, size, ends, sizeof ends / sizeof ends[0]);
    assert_int_equal(ends[num_ends - 1], size);
    free(bytes);
    struct eplb_event_log log = {0};
    struct eplb_event_replay replay;
    assert_int_equal(eplb_event_log_open(path, &log, &error), EPLB_OK);
    assert_int_equal(eplb_event_replay_run(&log, NULL, &replay, &error), EPLB_OK);
    assert_false(replay.differs);
    assert_true(log.cut && replay.num_events > 50 && replay.last_seq < run.next_seq - 100);
    eplb_event_replay_free(&replay);
    eplb_event_log_close(&log);
}

static void a_second_manager_ends_the_recording(void **state)
{
    (void)state;
    const char *path = path_of("second.events");
    struct warnings warnings = {0};
    const struct eplb_log_sink sink = {.size = sizeof sink, .context = &warnings, .write = count_warning};
    const struct eplb_manager_core_params params = small_params();
    struct eplb_event_writer *writer = writer_of(path, &sink);
    struct eplb_error error;
    eplb_event_writer_start(writer, &params);
    eplb_event_writer_start(writer, &params);
    assert_int_equal(warnings.count, 1);
    assert_int_equal(eplb_event_writer_close(writer, &error), EPLB_USAGE);
    struct eplb_event_log log = {0};
    assert_int_equal(read_all(path, &log, &error), EPLB_OK);
    assert_true(log.cut && log.num_records == 1);
    eplb_event_log_close(&log);
}

/** 16 ranks with 58 layers of 17 slots, decoding: what a forward costs. */
static void outputs_are_small(void **state)
{
    (void)state;
    enum { RANKS = 16, LAYERS = 58, SLOTS = 17, FORWARDS = 50 };
    const char *path = path_of("size.events");
    static int64_t prefix[RANKS][LAYERS][SLOTS];
    static uint64_t generations[LAYERS];
    struct eplb_worker_output outputs[RANKS];
    struct eplb_manager_core_params params = small_params();
    struct eplb_error error;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1);
    assert_int_equal(eplb_shape_init(&params.shape, LAYERS, 256, RANKS, 1, &error), EPLB_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        for (int layer = 0; layer < LAYERS; layer++)
            for (int slot = 0; slot < SLOTS; slot++)
                prefix[rank][layer][slot] =
                    (slot == 0 ? 0 : prefix[rank][layer][slot - 1]) + (int64_t)eplb_prng_below(&prng, 60);
        outputs[rank] = (struct eplb_worker_output){.size = sizeof outputs[rank],
                                                    .ep_rank = rank,
                                                    .num_layers = LAYERS,
                                                    .slots_per_rank = SLOTS,
                                                    .prefix = prefix[rank][0],
                                                    .generations = generations};
    }
    struct eplb_event_writer *writer = writer_of(path, NULL);
    const struct eplb_manager_observer *observer = eplb_event_writer_observer(writer);
    eplb_event_writer_start(writer, &params);
    int64_t began = eplb_clock_system()->now(NULL);
    for (uint64_t seq = 1; seq <= FORWARDS; seq++) {
        for (int rank = 0; rank < RANKS; rank++)
            outputs[rank].seq = seq;
        tell(observer,
             (struct eplb_manager_event){
                 .type = EPLB_MANAGER_OUTPUTS, .seq = seq, .outputs = outputs, .num_outputs = RANKS},
             (int64_t)seq);
    }
    int64_t spent = eplb_clock_system()->now(NULL) - began;
    close_writer(writer);
    char *bytes;
    size_t size;
    assert_int_equal(eplb_file_read(path, &bytes, &size, &error), EPLB_OK);
    free(bytes);
    size_t wire = RANKS * eplb_worker_output_bytes(&params.shape);
    print_message("outputs of a forward: %zu bytes in the log, %zu on the wire, %" PRId64 " us to write\n",
                  size / FORWARDS, wire, spent / FORWARDS / 1000);
    assert_true(size / FORWARDS < wire / 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_comes_back),
        cmocka_unit_test(outputs_come_back),
        cmocka_unit_test(every_other_event_comes_back),
        cmocka_unit_test(every_action_comes_back),
        cmocka_unit_test(a_file_that_is_cut_off_is_read_to_its_last_whole_record),
        cmocka_unit_test(a_damaged_byte_is_named),
        cmocka_unit_test(a_made_up_log_is_borne),
        cmocka_unit_test(levels_that_cannot_be_are_refused),
        cmocka_unit_test(what_is_no_log_is_refused),
        cmocka_unit_test(bytes_behind_the_end_are_refused),
        cmocka_unit_test(a_file_is_not_replaced),
        cmocka_unit_test(a_full_disk_ends_the_recording_and_not_the_run),
        cmocka_unit_test(a_second_manager_ends_the_recording),
        cmocka_unit_test(outputs_are_small),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
