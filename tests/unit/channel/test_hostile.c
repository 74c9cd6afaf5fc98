/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A peer that writes anything anywhere into the shared memory: an end refuses it or takes what makes sense,
 * touches no memory that is not its own, and goes on or says that it cannot. The sanitizer builds see the
 * rest: an end's last part is the copy whose length comes from the peer, and so is the memory's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/prng.h"
#include "channel/end.h"
#include "os/thread.h"
#include "traffic.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { BODY = 128, RACES = 100000, PID = 1 };

/* How what was damaged ended. */
enum ending { TAKEN, REFUSED, BROKEN, NOTHING, ENDINGS };

struct scene {
    struct eplb_channel_limits limits;
    unsigned char *memory;
    size_t bytes;
    struct eplb_channel *engine;
    struct eplb_channel *worker;
    struct traffic traffic;
    size_t endings[ENDINGS];
};

static void open_scene(struct scene *scene)
{
    *scene = (struct scene){.bytes = 0};
    traffic_init(&scene->traffic);
    scene->limits = (struct eplb_channel_limits){.shape = scene->traffic.shape,
                                                 .ep_rank = TRAFFIC_RANK,
                                                 .max_input_bytes = BODY,
                                                 .max_result_bytes = BODY,
                                                 .setup_bytes = BODY};
    static const unsigned char setup[BODY];
    scene->bytes = eplb_channel_map_bytes(&scene->limits);
    scene->memory = eplb_arena_block(scene->bytes);
    assert_non_null(scene->memory);
    assert_int_equal(eplb_channel_open_engine(scene->memory, &scene->limits, setup, 0, &scene->engine, NULL),
                     EPLB_OK);
    assert_int_equal(
        eplb_channel_open_worker(scene->memory, scene->bytes, PID, TRAFFIC_RANK, 0, &scene->worker, NULL),
        EPLB_OK);
}

static void close_scene(struct scene *scene)
{
    eplb_channel_destroy(scene->worker);
    eplb_channel_destroy(scene->engine);
    eplb_arena_free(scene->memory);
}

static void reset_end(struct eplb_channel *end, uint64_t count, uint64_t seq)
{
    end->begun = end->ended = count;
    end->last_seq = seq;
    end->wakes = 0;
    end->broken.status = EPLB_OK;
}

/* Both ends as after `count` forwards, with nothing under way. Returns the seq before the next. */
static uint64_t reset(struct scene *scene, struct eplb_prng *prng)
{
    uint64_t count = eplb_prng_below(prng, 4) == 0 ? UINT64_MAX - eplb_prng_below(prng, 3)
                                                   : eplb_prng_next(prng) >> eplb_prng_below(prng, 64);
    uint64_t seq = eplb_prng_below(prng, EPLB_MAX_TOKEN / 4);
    memset(scene->memory, 0, scene->bytes);
    struct eplb_channel_head *head = scene->engine->map.head;
    atomic_store(&head->submitted, count);
    atomic_store(&head->replied, count);
    reset_end(scene->engine, count, seq);
    reset_end(scene->worker, count, seq);
    return seq;
}

static bool one_in(struct eplb_prng *prng, uint64_t count)
{
    return eplb_prng_below(prng, count) == 0;
}

static uint64_t any_number(struct eplb_prng *prng)
{
    return eplb_prng_next(prng) >> eplb_prng_below(prng, 64);
}

/* Damage to one field, or to some bytes anywhere. */
static void damage(struct scene *scene, struct eplb_prng *prng, struct eplb_channel_place *places,
                   _Atomic uint64_t *counter, size_t record_bytes)
{
    struct eplb_channel_place *place = &places[eplb_prng_below(prng, EPLB_CHANNEL_DEPTH)];
    unsigned char *record = place->record;
    switch (eplb_prng_below(prng, 6)) {
    case 0:
        atomic_store(counter, any_number(prng));
        return;
    case 1:
        atomic_fetch_add(counter, eplb_prng_below(prng, 7) - 3);
        return;
    case 2:
        atomic_store(&place->slot->body_bytes, one_in(prng, 2) ? any_number(prng) : BODY + 1);
        return;
    case 3:
        for (size_t i = 0; i < record_bytes; i++)
            record[i] = (unsigned char)eplb_prng_next(prng);
        return;
    case 4:
        for (uint64_t i = eplb_prng_below(prng, 3) + 1; i > 0; i--)
            record[eplb_prng_below(prng, record_bytes)] ^= (unsigned char)(1U << eplb_prng_below(prng, 8));
        return;
    default:
        for (uint64_t i = eplb_prng_below(prng, 8); i > 0; i--)
            scene->memory[eplb_prng_below(prng, scene->bytes)] = (unsigned char)eplb_prng_next(prng);
    }
}

static void assert_endings(const struct scene *scene)
{
    print_message("taken %zu, refused %zu, broken %zu, nothing %zu\n", scene->endings[TAKEN],
                  scene->endings[REFUSED], scene->endings[BROKEN], scene->endings[NOTHING]);
}

/* ---- a worker ---- */

/* The engine collects three times; there are at most two replies. */
static void collect(struct scene *scene, uint64_t seq, int64_t deadline)
{
    for (int i = 0; i < 3; i++) {
        struct eplb_channel_reply reply = {.result_bytes = SIZE_MAX};
        struct eplb_error error;
        int arrived = -1;
        int32_t under_way = eplb_channel_under_way(scene->engine);
        uint64_t expected = seq + 3 - (uint64_t)under_way;
        enum eplb_status status = eplb_channel_collect(scene->engine, deadline, &reply, &arrived, &error);
        assert_true(status == EPLB_OK || status == EPLB_INVALID);
        assert_int_equal(eplb_channel_under_way(scene->engine), under_way - arrived);
        if (status == EPLB_OK && arrived) {
            assert_int_equal(reply.output.seq, expected);
            assert_int_equal(reply.output.ep_rank, TRAFFIC_RANK);
            assert_in_range(reply.result_bytes, 0, BODY);
        } else {
            assert_int_equal(reply.result_bytes, SIZE_MAX);
        }
        if (status != EPLB_OK)
            assert_true(strlen(error.text) > 20);
        scene->endings[status == EPLB_OK ? (arrived ? TAKEN : NOTHING) : arrived ? REFUSED : BROKEN]++;
    }
}

static void no_worker_harms_the_engine(void **state)
{
    (void)state;
    static struct scene scene;
    struct eplb_prng prng;
    open_scene(&scene);
    size_t record_bytes = eplb_worker_output_bytes(&scene.limits.shape);
    print_message("seeds 0 to %d\n", TRIES - 1);
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        eplb_prng_seed(&prng, seed);
        uint64_t seq = reset(&scene, &prng);
        for (uint64_t i = 1; i <= 2; i++)
            assert_int_equal(traffic_submit(&scene.traffic, scene.engine, seq + i, 16, NULL), EPLB_OK);
        for (uint64_t i = 1; i <= eplb_prng_below(&prng, 3); i++) {
            struct eplb_channel_request request;
            int arrived;
            assert_int_equal(eplb_channel_receive(scene.worker, 0, &request, &arrived, NULL), EPLB_OK);
            assert_int_equal(traffic_reply(&scene.traffic, scene.worker, seq + i, 16 * i, NULL), EPLB_OK);
        }
        damage(&scene, &prng, scene.engine->map.replies, &scene.engine->map.head->replied, record_bytes);
        collect(&scene, seq, one_in(&prng, 64) ? 1 : 0);
    }
    assert_endings(&scene);
    for (size_t i = 0; i < ENDINGS; i++)
        assert_in_range(scene.endings[i], TRIES / 10, 3 * TRIES);
    close_scene(&scene);
}

/* ---- an engine ---- */

static void receive(struct scene *scene, int64_t deadline)
{
    bool broken = false;
    for (int i = 0; i < 3; i++) {
        struct eplb_channel_request request = {.input_bytes = SIZE_MAX};
        struct eplb_error error;
        int arrived = -1;
        uint64_t last = scene->worker->last_seq;
        enum eplb_status status = eplb_channel_receive(scene->worker, deadline, &request, &arrived, &error);
        assert_true(status == (broken ? EPLB_INVALID : EPLB_OK) || status == EPLB_INVALID);
        broken = broken || status != EPLB_OK;
        if (arrived) {
            assert_int_equal(status, EPLB_OK);
            assert_true(request.command.seq > last);
            assert_in_range(request.input_bytes, 0, BODY);
            if (request.command.expert_ids != NULL)
                assert_int_equal(eplb_placement_check(&scene->limits.shape, request.command.expert_ids, NULL),
                                 EPLB_OK);
        } else {
            assert_int_equal(request.input_bytes, SIZE_MAX);
        }
        if (status != EPLB_OK)
            assert_true(strlen(error.text) > 20);
        scene->endings[arrived ? TAKEN : broken ? BROKEN : NOTHING]++;
    }
}

static void no_engine_harms_the_worker(void **state)
{
    (void)state;
    static struct scene scene;
    struct eplb_prng prng;
    open_scene(&scene);
    size_t record_bytes = eplb_command_bytes(&scene.limits.shape);
    print_message("seeds 0 to %d\n", TRIES - 1);
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        eplb_prng_seed(&prng, seed);
        uint64_t seq = reset(&scene, &prng);
        for (uint64_t i = 1; i <= eplb_prng_below(&prng, 3); i++)
            assert_int_equal(traffic_submit(&scene.traffic, scene.engine, seq + i, 16 * i, NULL), EPLB_OK);
        damage(&scene, &prng, scene.engine->map.requests, &scene.engine->map.head->submitted, record_bytes);
        receive(&scene, one_in(&prng, 64) ? 1 : 0);
    }
    assert_endings(&scene);
    assert_int_equal(scene.endings[REFUSED], 0);
    for (size_t i = 0; i < ENDINGS; i++)
        if (i != REFUSED)
            assert_in_range(scene.endings[i], TRIES / 10, 3 * TRIES);
    close_scene(&scene);
}

/* ---- a maker ---- */

static void no_head_harms_who_attaches(void **state)
{
    (void)state;
    static struct scene scene;
    struct eplb_prng prng;
    size_t taken = 0;
    open_scene(&scene);
    print_message("seeds 0 to %d\n", TRIES - 1);
    struct eplb_channel_facts *facts = &scene.engine->map.head->facts;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        eplb_prng_seed(&prng, seed);
        eplb_channel_facts_write(facts, &scene.limits);
        atomic_store(&scene.engine->map.head->claim, one_in(&prng, 16));
        unsigned char *bytes = (unsigned char *)facts;
        for (uint64_t i = eplb_prng_below(&prng, 4); i > 0; i--) {
            uint64_t number = any_number(&prng);
            size_t size = one_in(&prng, 2) ? 1 : 4;
            memcpy(bytes + eplb_prng_below(&prng, sizeof *facts / 4) * 4, &number, size);
        }
        struct eplb_channel *worker = NULL;
        struct eplb_error error;
        enum eplb_status status =
            eplb_channel_open_worker(scene.memory, scene.bytes, PID, TRAFFIC_RANK, 0, &worker, &error);
        assert_int_equal(worker != NULL, status == EPLB_OK);
        if (status == EPLB_OK) {
            assert_in_range(eplb_channel_map_bytes(&worker->limits), 1, scene.bytes);
            taken++;
        } else {
            assert_true(status == EPLB_LAYOUT || status == EPLB_REFUSED);
            assert_true(strlen(error.text) > 20);
        }
        eplb_channel_destroy(worker);
    }
    print_message("taken %zu of %d\n", taken, TRIES);
    assert_in_range(taken, TRIES / 10, TRIES / 2);
    close_scene(&scene);
}

/* ---- while it is read ---- */

struct race {
    struct scene *scene;
    atomic_int over;
};

/* Sizes that change all the time, half of them allowed. */
static void change_sizes(void *argument)
{
    struct race *race = argument;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1);
    while (!atomic_load(&race->over))
        for (int i = 0; i < EPLB_CHANNEL_DEPTH; i++)
            atomic_store_explicit(&race->scene->engine->map.replies[i].slot->body_bytes,
                                  one_in(&prng, 2) ? BODY / 2 : BODY * 1000, memory_order_relaxed);
}

static void a_size_that_changes_while_it_is_read_harms_nobody(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    struct race race = {.scene = &scene};
    struct eplb_thread peer;
    assert_int_equal(eplb_thread_start(&peer, "peer", change_sizes, &race, NULL), EPLB_OK);
    for (uint64_t seq = 1; seq <= RACES; seq++) {
        struct eplb_channel_request request;
        int arrived;
        assert_int_equal(traffic_submit(&scene.traffic, scene.engine, seq, 0, NULL), EPLB_OK);
        assert_int_equal(eplb_channel_receive(scene.worker, 0, &request, &arrived, NULL), EPLB_OK);
        assert_int_equal(traffic_reply(&scene.traffic, scene.worker, seq, 0, NULL), EPLB_OK);
        struct eplb_channel_reply reply = {.result_bytes = 0};
        enum eplb_status status = eplb_channel_collect(scene.engine, 0, &reply, &arrived, NULL);
        assert_int_equal(arrived, 1);
        assert_true(status == EPLB_INVALID || reply.result_bytes <= BODY);
        scene.endings[status == EPLB_OK ? TAKEN : REFUSED]++;
    }
    atomic_store(&race.over, 1);
    eplb_thread_join(&peer);
    assert_endings(&scene);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_worker_harms_the_engine),
        cmocka_unit_test(no_engine_harms_the_worker),
        cmocka_unit_test(no_head_harms_who_attaches),
        cmocka_unit_test(a_size_that_changes_while_it_is_read_harms_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
