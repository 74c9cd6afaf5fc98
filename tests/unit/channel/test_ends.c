/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Both ends over one block of plain memory. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "channel/end.h"
#include "eplb/clock.h"
#include "os/thread.h"
#include "traffic.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { PID = 4711, LONG_MS = 60000 };

static const char setup[] = "what the worker must know";

struct scene {
    struct eplb_channel_limits limits;
    struct eplb_channel_head *head; /* of the block that both share */
    struct eplb_channel *engine;
    struct eplb_channel *worker;
    struct traffic traffic;
    struct eplb_error error;
    struct eplb_channel_request request;
    struct eplb_channel_reply reply;
    int arrived;
};

static void open_scene(struct scene *scene, int64_t spin_ns)
{
    *scene = (struct scene){.arrived = -1};
    traffic_init(&scene->traffic);
    scene->limits = (struct eplb_channel_limits){.shape = scene->traffic.shape,
                                                 .ep_rank = TRAFFIC_RANK,
                                                 .max_input_bytes = TRAFFIC_BYTES,
                                                 .max_result_bytes = TRAFFIC_BYTES,
                                                 .setup_bytes = sizeof setup};
    size_t bytes = eplb_channel_map_bytes(&scene->limits);
    scene->head = eplb_arena_block(bytes);
    assert_non_null(scene->head);
    assert_int_equal(
        eplb_channel_open_engine(scene->head, &scene->limits, setup, spin_ns, &scene->engine, &scene->error),
        EPLB_OK);
    assert_int_equal(eplb_channel_open_worker(scene->head, bytes, PID, TRAFFIC_RANK, spin_ns, &scene->worker,
                                              &scene->error),
                     EPLB_OK);
}

static void close_scene(struct scene *scene)
{
    eplb_channel_destroy(scene->worker);
    eplb_channel_destroy(scene->engine);
    eplb_arena_free(scene->head);
}

static void submit(struct scene *scene, uint64_t seq)
{
    assert_int_equal(traffic_submit(&scene->traffic, scene->engine, seq, traffic_size(seq), &scene->error),
                     EPLB_OK);
}

static void receive(struct scene *scene, uint64_t seq)
{
    assert_int_equal(eplb_channel_receive(scene->worker, 0, &scene->request, &scene->arrived, &scene->error),
                     EPLB_OK);
    assert_int_equal(scene->arrived, 1);
    assert_true(traffic_request_is(&scene->traffic, &scene->request, seq, traffic_size(seq)));
}

static void reply(struct scene *scene, uint64_t seq)
{
    assert_int_equal(traffic_reply(&scene->traffic, scene->worker, seq, traffic_size(seq + 7), &scene->error),
                     EPLB_OK);
}

static void collect(struct scene *scene, uint64_t seq)
{
    assert_int_equal(eplb_channel_collect(scene->engine, 0, &scene->reply, &scene->arrived, &scene->error),
                     EPLB_OK);
    assert_int_equal(scene->arrived, 1);
    assert_true(traffic_reply_is(&scene->traffic, &scene->reply, seq, traffic_size(seq + 7)));
}

/* ---- forwards ---- */

static void forwards_come_back_with_everything(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    for (uint64_t seq = 1; seq <= 96; seq++) {
        submit(&scene, seq);
        receive(&scene, seq);
        reply(&scene, seq);
        assert_int_equal(eplb_channel_under_way(scene.engine), 1);
        collect(&scene, seq);
        assert_int_equal(eplb_channel_under_way(scene.engine), 0);
    }
    close_scene(&scene);
}

static void two_forwards_may_be_under_way(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    /* Numbers of forwards that were dropped are no gap for a channel: these go up by three. */
    submit(&scene, 3);
    receive(&scene, 3);
    for (uint64_t seq = 3; seq <= 180; seq += 3) {
        submit(&scene, seq + 3);
        assert_int_equal(eplb_channel_under_way(scene.engine), 2);
        if (seq % 9 == 0)
            receive(&scene, seq + 3);
        reply(&scene, seq);
        if (seq % 9 == 3)
            receive(&scene, seq + 3);
        collect(&scene, seq);
        assert_int_equal(eplb_channel_under_way(scene.engine), 1);
        if (seq % 9 == 6)
            receive(&scene, seq + 3);
    }
    close_scene(&scene);
}

static void a_third_forward_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    submit(&scene, 1);
    submit(&scene, 2);
    assert_int_equal(traffic_submit(&scene.traffic, scene.engine, 3, 0, &scene.error), EPLB_REFUSED);
    assert_string_equal(scene.error.text,
                        "rank 2: forward 3 while 2 are under way; no more than that are allowed");
    receive(&scene, 1);
    receive(&scene, 2);
    assert_int_equal(eplb_channel_receive(scene.worker, 0, &scene.request, &scene.arrived, &scene.error),
                     EPLB_OK);
    assert_int_equal(scene.arrived, 0);
    reply(&scene, 1);
    /* The place is free when the engine has collected, not before. */
    assert_int_equal(traffic_submit(&scene.traffic, scene.engine, 3, 0, &scene.error), EPLB_REFUSED);
    collect(&scene, 1);
    submit(&scene, 3);
    reply(&scene, 2);
    collect(&scene, 2);
    receive(&scene, 3);
    reply(&scene, 3);
    collect(&scene, 3);
    close_scene(&scene);
}

static void a_forward_that_is_refused_leaves_nothing(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    submit(&scene, 5);
    assert_int_equal(traffic_submit(&scene.traffic, scene.engine, 5, 0, &scene.error), EPLB_INVALID);
    assert_string_equal(scene.error.text, "rank 2: forward 5 after forward 5; numbers must rise");
    static const unsigned char long_input[TRAFFIC_BYTES + 1];
    assert_int_equal(eplb_channel_submit(scene.engine, traffic_command(&scene.traffic, 6), long_input,
                                         sizeof long_input, &scene.error),
                     EPLB_INVALID);
    assert_string_equal(scene.error.text,
                        "rank 2: the input of forward 6 has 4097 bytes; allowed is 0 to 4096");
    assert_int_equal(eplb_channel_under_way(scene.engine), 1);
    receive(&scene, 5);
    assert_int_equal(eplb_channel_receive(scene.worker, 0, &scene.request, &scene.arrived, &scene.error),
                     EPLB_OK);
    assert_int_equal(scene.arrived, 0);
    submit(&scene, 6);
    receive(&scene, 6);
    close_scene(&scene);
}

static void a_reply_that_is_refused_leaves_nothing(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    assert_int_equal(traffic_reply(&scene.traffic, scene.worker, 1, 0, &scene.error), EPLB_REFUSED);
    assert_string_equal(scene.error.text, "rank 2: a reply to forward 1, but no forward is open");
    submit(&scene, 1);
    assert_int_equal(traffic_reply(&scene.traffic, scene.worker, 1, 0, &scene.error), EPLB_REFUSED);
    receive(&scene, 1);
    assert_int_equal(traffic_reply(&scene.traffic, scene.worker, 2, 0, &scene.error), EPLB_INVALID);
    assert_string_equal(scene.error.text, "rank 2: a reply to forward 2; the oldest open one is 1");
    struct eplb_worker_output output = *traffic_output(&scene.traffic, 1);
    output.ep_rank = 1;
    assert_int_equal(eplb_channel_reply(scene.worker, &output, NULL, 0, &scene.error), EPLB_INVALID);
    assert_string_equal(scene.error.text, "rank 2: a reply to forward 1 from rank 1");
    output.ep_rank = TRAFFIC_RANK;
    static const unsigned char long_result[TRAFFIC_BYTES + 1];
    assert_int_equal(eplb_channel_reply(scene.worker, &output, long_result, sizeof long_result, &scene.error),
                     EPLB_INVALID);
    assert_string_equal(scene.error.text,
                        "rank 2: the result of forward 1 has 4097 bytes; allowed is 0 to 4096");
    assert_int_equal(eplb_channel_collect(scene.engine, 0, &scene.reply, &scene.arrived, &scene.error),
                     EPLB_OK);
    assert_int_equal(scene.arrived, 0);
    reply(&scene, 1);
    collect(&scene, 1);
    close_scene(&scene);
}

/* ---- what the other side writes ---- */

static void a_reply_without_sense_costs_one_forward(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint64_t value;
        const char *text;
    } damages[] = {
        {0, 8, "reply of rank 2 to forward 7: its seq is 8"},
        {24, UINT64_C(3) << 32 | 1, "reply of rank 2 to forward 7: its ep_rank is 1"},
        {24, UINT64_C(3) << 32 | 4,
         "reply of rank 2 to forward 7: output of rank 4 for forward 7; allowed is "
         "rank 0 to 3"},
        {24, UINT64_C(2) << 32 | 2,
         "reply of rank 2 to forward 7: output of rank 2 for forward 7: counts of 2 layers with 3 slots "
         "each; this run has 3 layers with 3 slots"},
    };
    for (size_t i = 0; i < LENGTH(damages) + 1; i++) {
        struct scene scene;
        open_scene(&scene, 0);
        submit(&scene, 7);
        submit(&scene, 8);
        receive(&scene, 7);
        reply(&scene, 7);
        const struct eplb_channel_place *place = &scene.engine->map.replies[0];
        if (i < LENGTH(damages))
            memcpy(place->record + damages[i].offset, &damages[i].value, sizeof damages[i].value);
        else
            atomic_store(&place->slot->body_bytes, TRAFFIC_BYTES + 1);
        scene.reply.result_bytes = 77;
        assert_int_equal(eplb_channel_collect(scene.engine, 0, &scene.reply, &scene.arrived, &scene.error),
                         EPLB_INVALID);
        assert_string_equal(scene.error.text, i < LENGTH(damages)
                                                  ? damages[i].text
                                                  : "reply of rank 2 to forward 7: a result of 4097 bytes; "
                                                    "allowed is 0 to 4096");
        assert_int_equal(scene.arrived, 1);
        assert_int_equal(scene.reply.result_bytes, 77);
        assert_int_equal(eplb_channel_under_way(scene.engine), 1);
        receive(&scene, 8);
        reply(&scene, 8);
        collect(&scene, 8);
        close_scene(&scene);
    }
}

static void a_count_without_sense_ends_the_following(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 3, 4, UINT64_MAX};
    for (size_t i = 0; i < LENGTH(counts); i++) {
        struct scene scene;
        open_scene(&scene, 0);
        submit(&scene, 1);
        receive(&scene, 1);
        reply(&scene, 1);
        collect(&scene, 1);
        submit(&scene, 2);
        /* One was collected, two submitted: the count of replies is 1 or 2. */
        atomic_store(&scene.head->replied, counts[i]);
        char text[EPLB_ERROR_TEXT];
        snprintf(text, sizeof text,
                 "rank 2: the channel's count of replies is %llu; allowed is 1 to 2, so the worker cannot be "
                 "followed any more",
                 (unsigned long long)counts[i]);
        for (int again = 0; again < 3; again++) {
            int64_t begin = traffic_in_ms(0);
            assert_int_equal(
                eplb_channel_collect(scene.engine, INT64_MAX, &scene.reply, &scene.arrived, &scene.error),
                EPLB_INVALID);
            assert_true(traffic_in_ms(0) - begin < INT64_C(1000000000));
            assert_string_equal(scene.error.text, text);
            assert_int_equal(scene.arrived, 0);
            assert_int_equal(eplb_channel_under_way(scene.engine), 1);
            /* What it writes now is late. */
            atomic_store(&scene.head->replied, 2);
        }
        assert_int_equal(traffic_submit(&scene.traffic, scene.engine, 3, 0, &scene.error), EPLB_INVALID);
        assert_string_equal(scene.error.text, text);
        close_scene(&scene);
    }
}

/* Damage to the request of forward 2, beside forward 1, which is open. */
static void damage_request(struct scene *scene, int how)
{
    const struct eplb_channel_place *place = &scene->engine->map.requests[1];
    switch (how) {
    case 0:
        atomic_store(&scene->head->submitted, 3);
        return;
    case 1:
        atomic_store(&scene->head->submitted, 0);
        return;
    case 2:
        atomic_store(&place->slot->body_bytes, UINT64_MAX);
        return;
    case 3:
        memset(place->record + 68, 1, 1);
        return;
    default:
        memset(place->record, 1, 1);
    }
}

static void a_request_without_sense_ends_the_following(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "rank 2: the channel's count of forwards is 3; allowed is 1 to 2, so the engine cannot be followed "
        "any "
        "more",
        "rank 2: the channel's count of forwards is 0; allowed is 1 to 2, so the engine cannot be followed "
        "any "
        "more",
        "rank 2: the input of the forward after 1 has 18446744073709551615 bytes; allowed is 0 to 4096",
        "command of forward 2: byte 68 is 1; it is not used and must be 0",
        "rank 2: the seq after forward 1 is 1; it must rise",
    };
    for (size_t i = 0; i < LENGTH(texts); i++) {
        struct scene scene;
        open_scene(&scene, 0);
        submit(&scene, 1);
        receive(&scene, 1);
        submit(&scene, 2);
        damage_request(&scene, (int)i);
        for (int again = 0; again < 3; again++) {
            assert_int_equal(
                eplb_channel_receive(scene.worker, INT64_MAX, &scene.request, &scene.arrived, &scene.error),
                EPLB_INVALID);
            assert_string_equal(scene.error.text, texts[i]);
            assert_int_equal(scene.arrived, 0);
        }
        /* What was begun before can be ended. */
        reply(&scene, 1);
        collect(&scene, 1);
        close_scene(&scene);
    }
}

/* ---- taking an end ---- */

static void the_worker_learns_sizes_and_setup(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    size_t size;
    assert_memory_equal(eplb_channel_shape(scene.worker), &scene.traffic.shape, sizeof scene.traffic.shape);
    assert_string_equal(eplb_channel_setup(scene.worker, &size), setup);
    assert_int_equal(size, sizeof setup);
    /* It is the end's own copy, on both sides. */
    memset(scene.engine->map.setup, 0, sizeof setup);
    assert_string_equal(eplb_channel_setup(scene.worker, &size), setup);
    assert_string_equal(eplb_channel_setup(scene.engine, &size), setup);
    close_scene(&scene);
}

static void an_end_is_taken_once(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    struct eplb_channel *second = NULL;
    assert_int_equal(eplb_channel_open_worker(scene.head, eplb_channel_map_bytes(&scene.limits), PID + 1,
                                              TRAFFIC_RANK, 0, &second, &scene.error),
                     EPLB_REFUSED);
    assert_string_equal(scene.error.text,
                        "the channel of rank 2 was taken before, by process 4711; a worker takes it once");
    assert_null(second);
    close_scene(&scene);
}

static void a_head_without_sense_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t offset; /* of a word of 4 or 8 bytes */
        size_t bytes;
        uint64_t value;
        const char *text;
    } damages[] = {
        {0, 4, 0, "num_layers is 0; allowed is 1 to 65536"},
        {4, 4, 9,
         "num_experts 9 is not divisible by ep_size 4: every rank must own the same number of experts"},
        {8, 4, 0, "ep_size is 0; allowed is 1 to 65536"},
        {12, 4, UINT32_MAX,
         "redundant_experts_num is -1; it counts extra slots per rank and must be 0 or more"},
        {16, 4, 4, "a channel's ep_rank is 4; allowed is 0 to 3"},
        {16, 4, 1, "a channel for rank 2 says that it is for rank 1"},
        {20, 4, 3, "a channel's depth is 3; this library's is 2"},
        {24, 8, UINT64_MAX,
         "a channel's max_input_bytes is 18446744073709551615; allowed is 0 to 1099511627776"},
        {32, 8, (UINT64_C(1) << 40) + 1,
         "a channel's max_result_bytes is 1099511627777; allowed is 0 to 1099511627776"},
        {40, 8, UINT64_C(1) << 40, "a channel of 19072 bytes; what its head says would need 1099511646784"},
        {0, 4, 2, "it is small enough"},
    };
    for (size_t i = 0; i < LENGTH(damages); i++) {
        struct scene scene;
        open_scene(&scene, 0);
        atomic_store(&scene.head->claim, 0);
        memcpy((unsigned char *)scene.head + damages[i].offset, &damages[i].value, damages[i].bytes);
        struct eplb_channel *second = NULL;
        size_t bytes = eplb_channel_map_bytes(&scene.limits);
        enum eplb_status status =
            eplb_channel_open_worker(scene.head, bytes, PID + 1, TRAFFIC_RANK, 0, &second, &scene.error);
        /* The last one asks for less than there is, by less than a segment may be rounded up. */
        bool small = i == LENGTH(damages) - 1;
        assert_int_equal(status, small ? EPLB_OK : EPLB_LAYOUT);
        if (!small)
            assert_non_null(strstr(scene.error.text, damages[i].text));
        assert_int_equal(second != NULL, small);
        assert_int_equal(atomic_load(&scene.head->claim), small ? PID + 1 : 0);
        eplb_channel_destroy(second);
        close_scene(&scene);
    }
}

static void memory_of_another_size_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    atomic_store(&scene.head->claim, 0);
    size_t needed = eplb_channel_map_bytes(&scene.limits);
    const size_t wrong[] = {0, 447, 448, needed - 1, needed + 4096, SIZE_MAX};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        struct eplb_channel *second = NULL;
        assert_int_equal(
            eplb_channel_open_worker(scene.head, wrong[i], PID, TRAFFIC_RANK, 0, &second, &scene.error),
            EPLB_LAYOUT);
        assert_null(second);
    }
    close_scene(&scene);
}

/* ---- waiting ---- */

static void a_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    static const int64_t ms[] = {0, 1, 150};
    struct scene scene;
    for (size_t i = 0; i < 2 * LENGTH(ms); i++) {
        open_scene(&scene, i < LENGTH(ms) ? 0 : 20000);
        int64_t deadline = traffic_in_ms(ms[i % LENGTH(ms)]);
        assert_int_equal(
            eplb_channel_collect(scene.engine, deadline, &scene.reply, &scene.arrived, &scene.error),
            EPLB_OK);
        assert_int_equal(scene.arrived, 0);
        assert_true(traffic_in_ms(0) >= deadline);
        deadline = traffic_in_ms(ms[i % LENGTH(ms)]);
        assert_int_equal(
            eplb_channel_receive(scene.worker, deadline, &scene.request, &scene.arrived, &scene.error),
            EPLB_OK);
        assert_int_equal(scene.arrived, 0);
        assert_true(traffic_in_ms(0) >= deadline);
        assert_true(traffic_in_ms(0) < deadline + INT64_C(10000000000));
        close_scene(&scene);
    }
}

static void a_wake_ends_one_wait_of_each_side(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    for (int side = 0; side < 2; side++) {
        eplb_channel_wake(side == 0 ? scene.engine : scene.worker);
        eplb_channel_wake(side == 0 ? scene.engine : scene.worker);
        /* A call that does not wait leaves the wake to one that does. */
        for (int wait = 0; wait < 2; wait++) {
            int64_t deadline = wait == 0 ? 0 : INT64_MAX;
            assert_int_equal(
                eplb_channel_collect(scene.engine, deadline, &scene.reply, &scene.arrived, &scene.error),
                EPLB_OK);
            assert_int_equal(scene.arrived, 0);
            assert_int_equal(
                eplb_channel_receive(scene.worker, deadline, &scene.request, &scene.arrived, &scene.error),
                EPLB_OK);
            assert_int_equal(scene.arrived, 0);
        }
        int64_t deadline = traffic_in_ms(5);
        assert_int_equal(
            eplb_channel_collect(scene.engine, deadline, &scene.reply, &scene.arrived, &scene.error),
            EPLB_OK);
        assert_true(traffic_in_ms(0) >= deadline);
        deadline = traffic_in_ms(5);
        assert_int_equal(
            eplb_channel_receive(scene.worker, deadline, &scene.request, &scene.arrived, &scene.error),
            EPLB_OK);
        assert_true(traffic_in_ms(0) >= deadline);
    }
    /* What has arrived comes before a wake. */
    submit(&scene, 1);
    eplb_channel_wake(scene.engine);
    receive(&scene, 1);
    close_scene(&scene);
}

/* Counts a reply once the engine sleeps, and tells it nothing. */
static void count_silently(void *argument)
{
    struct scene *scene = argument;
    const struct eplb_bell *bell = &scene->head->seats[EPLB_CHANNEL_ENGINE].bell;
    int64_t deadline = traffic_in_ms(LONG_MS);
    while (atomic_load(&bell->sleepers) == 0 && traffic_in_ms(0) < deadline)
        (void)sched_yield();
    atomic_store(&scene->head->replied, 1);
}

static void a_peer_that_does_not_ring_is_seen_all_the_same(void **state)
{
    (void)state;
    struct scene scene;
    struct eplb_thread peer;
    open_scene(&scene, 0);
    submit(&scene, 1);
    receive(&scene, 1);
    reply(&scene, 1);
    atomic_store(&scene.head->replied, 0);
    assert_int_equal(eplb_thread_start(&peer, "peer", count_silently, &scene, &scene.error), EPLB_OK);
    int64_t begin = traffic_in_ms(0);
    assert_int_equal(
        eplb_channel_collect(scene.engine, INT64_MAX, &scene.reply, &scene.arrived, &scene.error), EPLB_OK);
    assert_int_equal(scene.arrived, 1);
    assert_true(traffic_in_ms(0) - begin < INT64_C(20000000000));
    eplb_thread_join(&peer);
    close_scene(&scene);
}

static void beats_are_counted(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 0);
    assert_int_equal(eplb_channel_beats(scene.engine), 0);
    for (int i = 0; i < 3; i++)
        eplb_channel_beat(scene.worker);
    assert_int_equal(eplb_channel_beats(scene.engine), 3);
    assert_int_equal(eplb_channel_beats(scene.worker), 3);
    close_scene(&scene);
}

/* ---- two threads, and two more that beat and wake ---- */

enum { FORWARDS = 20000 };

struct crowd {
    struct scene *scene;
    atomic_int over;
    uint64_t wrong;       /* what the worker found wrong */
    uint64_t interrupted; /* waits that a wake has ended, of both */
};

static void work(void *argument)
{
    struct crowd *crowd = argument;
    struct traffic traffic;
    traffic_init(&traffic);
    struct eplb_channel *worker = crowd->scene->worker;
    for (uint64_t seq = 1; seq <= FORWARDS;) {
        struct eplb_channel_request request;
        int arrived;
        if (eplb_channel_receive(worker, traffic_in_ms(LONG_MS), &request, &arrived, NULL) != EPLB_OK) {
            crowd->wrong++;
            return;
        }
        if (!arrived)
            continue;
        crowd->wrong += !traffic_request_is(&traffic, &request, seq, traffic_size(seq));
        crowd->wrong += traffic_reply(&traffic, worker, seq, traffic_size(seq + 7), NULL) != EPLB_OK;
        seq++;
    }
}

static void disturb(void *argument)
{
    struct crowd *crowd = argument;
    while (!atomic_load(&crowd->over)) {
        eplb_channel_beat(crowd->scene->worker);
        eplb_channel_wake(eplb_channel_beats(crowd->scene->engine) % 2 == 0 ? crowd->scene->engine
                                                                            : crowd->scene->worker);
        /* A wait for nothing, so that the others get on. */
        struct eplb_bell bell = {0};
        eplb_bell_sleep(&bell, eplb_bell_hear(&bell), 0, traffic_in_ms(1));
    }
}

static void threads_share_a_channel(void **state)
{
    (void)state;
    static const int64_t spins[] = {0, 2000};
    for (size_t i = 0; i < LENGTH(spins); i++) {
        struct scene scene;
        open_scene(&scene, spins[i]);
        struct crowd crowd = {.scene = &scene};
        struct eplb_thread worker;
        struct eplb_thread disturber;
        assert_int_equal(eplb_thread_start(&worker, "worker", work, &crowd, &scene.error), EPLB_OK);
        assert_int_equal(eplb_thread_start(&disturber, "disturber", disturb, &crowd, &scene.error), EPLB_OK);
        uint64_t submitted = 0;
        for (uint64_t seq = 1; seq <= FORWARDS;) {
            while (submitted < FORWARDS && eplb_channel_under_way(scene.engine) < EPLB_CHANNEL_DEPTH)
                submit(&scene, ++submitted);
            assert_int_equal(eplb_channel_collect(scene.engine, traffic_in_ms(LONG_MS), &scene.reply,
                                                  &scene.arrived, &scene.error),
                             EPLB_OK);
            crowd.interrupted += !scene.arrived;
            if (!scene.arrived)
                continue;
            assert_true(traffic_reply_is(&scene.traffic, &scene.reply, seq, traffic_size(seq + 7)));
            seq++;
        }
        atomic_store(&crowd.over, 1);
        eplb_thread_join(&worker);
        eplb_thread_join(&disturber);
        assert_int_equal(crowd.wrong, 0);
        print_message("%d forwards, %llu waits of the engine were woken\n", FORWARDS,
                      (unsigned long long)crowd.interrupted);
        close_scene(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forwards_come_back_with_everything),
        cmocka_unit_test(two_forwards_may_be_under_way),
        cmocka_unit_test(a_third_forward_is_refused),
        cmocka_unit_test(a_forward_that_is_refused_leaves_nothing),
        cmocka_unit_test(a_reply_that_is_refused_leaves_nothing),
        cmocka_unit_test(a_reply_without_sense_costs_one_forward),
        cmocka_unit_test(a_count_without_sense_ends_the_following),
        cmocka_unit_test(a_request_without_sense_ends_the_following),
        cmocka_unit_test(the_worker_learns_sizes_and_setup),
        cmocka_unit_test(an_end_is_taken_once),
        cmocka_unit_test(a_head_without_sense_is_refused),
        cmocka_unit_test(memory_of_another_size_is_refused),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(a_wake_ends_one_wait_of_each_side),
        cmocka_unit_test(a_peer_that_does_not_ring_is_seen_all_the_same),
        cmocka_unit_test(beats_are_counted),
        cmocka_unit_test(threads_share_a_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
