/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Limits and their refusals, the order of what is shared, and how a group is made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/threads.h"
#include "migrate/transfer.h"
#include "transport/mesh.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static struct eplb_threads_params params_of(const struct eplb_mesh_limits *limits)
{
    return (struct eplb_threads_params){.size = sizeof(struct eplb_threads_params),
                                        .num_ranks = limits->num_ranks,
                                        .max_ops = limits->max_ops,
                                        .transfer_ring_bytes = limits->transfer_ring_bytes,
                                        .collective_ring_bytes = limits->collective_ring_bytes};
}

/* ---- limits ---- */

static void limits_out_of_range_are_refused_with_a_sentence(void **state)
{
    (void)state;
    const struct {
        struct eplb_mesh_limits limits;
        const char *text;
    } cases[] = {
        {{0, 1, 256, 256}, "a group's num_ranks is 0; allowed is 1 to 65536"},
        {{65537, 1, 256, 256}, "a group's num_ranks is 65537; allowed is 1 to 65536"},
        {{2, 0, 256, 256}, "a group's max_ops is 0; allowed is 1 to 65536"},
        {{2, 65537, 256, 256}, "a group's max_ops is 65537; allowed is 1 to 65536"},
        {{2, 1, 128, 256},
         "a group's transfer_ring_bytes is 128; allowed are powers of two from 256 to 2147483648"},
        {{2, 1, 256, 768},
         "a group's collective_ring_bytes is 768; allowed are powers of two from 256 to 2147483648"},
        {{2, 1, UINT64_C(1) << 32, 256},
         "a group's transfer_ring_bytes is 4294967296; allowed are powers of two from 256 to 2147483648"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct eplb_error error;
        struct eplb_threads *threads = NULL;
        const struct eplb_threads_params params = params_of(&cases[i].limits);
        assert_int_equal(eplb_threads_create(&params, &threads, &error), EPLB_INVALID);
        assert_string_equal(error.text, cases[i].text);
        assert_null(threads);
    }
}

static void parameters_of_another_size_are_refused(void **state)
{
    (void)state;
    struct eplb_error error;
    struct eplb_threads *threads = NULL;
    struct eplb_threads_params params;
    eplb_threads_params_init(&params);
    params.num_ranks = 2;
    params.size = 8;
    assert_int_equal(eplb_threads_create(&params, &threads, &error), EPLB_INVALID);
    assert_string_equal(error.text, "eplb_threads_params.size is 8; this library's is 32");
    assert_null(threads);
}

static void a_group_that_no_memory_holds_is_refused(void **state)
{
    (void)state;
    const struct eplb_mesh_limits limits = {EPLB_MAX_RANKS, EPLB_MAX_OPS, EPLB_MAX_RING_BYTES,
                                            EPLB_MAX_RING_BYTES};
    const struct eplb_threads_params params = params_of(&limits);
    struct eplb_threads *threads = NULL;
    struct eplb_error error;
    assert_int_equal(eplb_threads_create(&params, &threads, &error), EPLB_NO_MEMORY);
    assert_string_equal(error.text,
                        "no memory for a group of 65536 ranks with 65536 operations each, and rings "
                        "of 2147483648 and 2147483648 bytes per pair");
    assert_null(threads);
}

static void the_default_limits_are_these(void **state)
{
    (void)state;
    struct eplb_threads_params params;
    eplb_threads_params_init(&params);
    assert_int_equal(params.size, sizeof params);
    assert_int_equal(params.num_ranks, 0);
    assert_int_equal(params.max_ops, 512);
    assert_int_equal(params.max_ops, 2 * EPLB_TRANSFER_MAX_OPS);
    assert_int_equal(params.transfer_ring_bytes, 131072);
    assert_int_equal(params.collective_ring_bytes, 16384);
}

/* ---- layout ---- */

static ptrdiff_t offset_of(const void *part, const unsigned char *start)
{
    return (const unsigned char *)part - start;
}

/* Three ranks, five operations each: where everything is that processes must agree on. */
static void what_is_shared_lies_here(void **state)
{
    (void)state;
    const struct eplb_mesh_limits limits = {3, 5, 1024, 256};
    const struct eplb_waker waker = {0};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_mesh_take(&arena, &limits, &waker);
    assert_int_equal(arena.used, 128 + 64 + 64 + 3 * 64 + 15 * 64 + 9 * (320 + 1024 + 256));
    unsigned char *start = eplb_arena_block(arena.used);
    assert_non_null(start);
    eplb_arena_init(&arena, start, arena.used);
    struct eplb_mesh mesh = eplb_mesh_take(&arena, &limits, &waker);
    assert_false(arena.overflow);
    assert_int_equal(offset_of(mesh.head, start), 0);
    assert_int_equal(offset_of(mesh.votes, start), 128);
    assert_int_equal(offset_of(mesh.deaths, start), 192);
    assert_int_equal(offset_of(mesh.members, start), 256);
    assert_int_equal(offset_of(eplb_mesh_want(&mesh, 0, 0), start), 448);
    assert_int_equal(offset_of(eplb_mesh_want(&mesh, 2, 4), start), 448 + 14 * 64);
    assert_int_equal(offset_of(eplb_mesh_link(&mesh, 0, 0), start), 1408);
    assert_int_equal(offset_of(eplb_mesh_link(&mesh, 2, 1), start), 1408 + 7 * 1600);
    assert_int_equal(offset_of(eplb_mesh_transfer_pipe(&mesh, 0, 1).ring, start), 1408 + 1600 + 320);
    assert_int_equal(offset_of(eplb_mesh_collective_pipe(&mesh, 0, 1).ring, start), 1408 + 1600 + 1344);
    eplb_arena_free(start);
}

/* ---- groups ---- */

static void views_say_who_they_are(void **state)
{
    (void)state;
    const struct eplb_threads_params params = params_of(&(struct eplb_mesh_limits){3, 5, 256, 256});
    struct eplb_threads *threads;
    assert_int_equal(eplb_threads_create(&params, &threads, NULL), EPLB_OK);
    for (int32_t rank = EPLB_NO_RANK; rank < 3; rank++) {
        const struct eplb_group *group = eplb_threads_group(threads, rank);
        assert_int_equal(group->size, sizeof *group);
        assert_int_equal(group->rank, rank);
        assert_int_equal(group->num_ranks, 3);
        assert_int_equal(group->max_ops, rank == EPLB_NO_RANK ? 0 : 5);
    }
    eplb_threads_destroy(threads);
    eplb_threads_destroy(NULL);
}

/* ---- bells ---- */

enum { MOST_BEDS = 130 };

struct beds {
    int slept;
    int woken[MOST_BEDS];
};

static void count_sleep(void *context, int32_t rank, const _Atomic uint32_t *bell, uint32_t heard,
                        int64_t deadline)
{
    struct beds *beds = context;
    beds->slept++;
    assert_int_equal(rank, 1);
    assert_int_equal(heard, atomic_load(bell));
    assert_int_equal(deadline, 77);
}

static void count_sleep_for(void *context, int32_t rank, const _Atomic uint32_t *bell, uint32_t heard,
                            int64_t deadline)
{
    struct beds *beds = context;
    (void)deadline;
    assert_int_equal(rank, 1);
    assert_int_equal(atomic_load(bell), heard);
    beds->slept++;
}

static void count_wake(void *context, int32_t rank, _Atomic uint32_t *bell)
{
    (void)bell;
    ((struct beds *)context)->woken[rank]++;
}

static bool see_it_ring(void *context, const _Atomic uint32_t *bell, uint32_t heard, int64_t deadline)
{
    (void)context, (void)bell, (void)heard;
    assert_int_equal(deadline, 77);
    return true;
}

static bool see_nothing(void *context, const _Atomic uint32_t *bell, uint32_t heard, int64_t deadline)
{
    return !see_it_ring(context, bell, heard, deadline);
}

/* A ring costs no call when nobody sleeps, and nobody sleeps when it has rung since. */
static void only_sleepers_are_woken(void **state)
{
    (void)state;
    struct beds beds = {0};
    const struct eplb_mesh_limits limits = {2, 1, 256, 256};
    const struct eplb_waker waker = {.context = &beds, .sleep = count_sleep, .wake = count_wake};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_mesh_take(&arena, &limits, &waker);
    void *block = eplb_arena_block(arena.used);
    eplb_arena_init(&arena, block, arena.used);
    struct eplb_mesh mesh = eplb_mesh_take(&arena, &limits, &waker);

    uint32_t heard = eplb_mesh_hear(&mesh, 1);
    eplb_mesh_ring(&mesh, 1);
    eplb_mesh_sleep(&mesh, 1, heard, 77);
    assert_int_equal(beds.slept, 0);
    heard = eplb_mesh_hear(&mesh, 1);
    eplb_mesh_ring(&mesh, 0);
    eplb_mesh_sleep(&mesh, 1, heard, 77);
    assert_int_equal(beds.slept, 1);
    assert_int_equal(beds.woken[0] + beds.woken[1], 0);

    atomic_store(&mesh.members[1].sleepers, 1);
    eplb_mesh_ring(&mesh, 1);
    eplb_mesh_ring_all(&mesh);
    assert_int_equal(beds.woken[0], 0);
    assert_int_equal(beds.woken[1], 2);

    /* Nor when a short look is enough. */
    mesh.waker.spin = see_it_ring;
    eplb_mesh_sleep(&mesh, 1, eplb_mesh_hear(&mesh, 1), 77);
    assert_int_equal(beds.slept, 1);
    assert_int_equal(atomic_load(&mesh.members[1].sleepers), 1);
    mesh.waker.spin = see_nothing;
    eplb_mesh_sleep(&mesh, 1, eplb_mesh_hear(&mesh, 1), 77);
    assert_int_equal(beds.slept, 2);
    eplb_arena_free(block);
}

/** What happens between the last look and the sleep. */
static struct {
    const struct eplb_mesh *mesh;
    int rings;
    int32_t buried;
} meanwhile;

static bool let_it_happen(void *context, const _Atomic uint32_t *bell, uint32_t heard, int64_t deadline)
{
    (void)context, (void)bell, (void)heard, (void)deadline;
    for (int i = 0; i < meanwhile.rings; i++)
        eplb_mesh_ring(meanwhile.mesh, 1);
    if (meanwhile.buried != EPLB_NO_RANK)
        eplb_mesh_bury(meanwhile.mesh, meanwhile.buried);
    return false;
}

/** Rings while it sleeps, and what was woken by each of them. */
struct night {
    const struct eplb_mesh *mesh;
    int slept, woken;
    int rings;
    bool all; /* the last ring is one for all */
    int woken_by[8];
};

static void ring_at_night(void *context, int32_t rank, const _Atomic uint32_t *bell, uint32_t heard,
                          int64_t deadline)
{
    struct night *night = context;
    assert_int_equal(rank, 1);
    assert_int_equal(atomic_load(bell), heard);
    assert_true(deadline == EPLB_NO_DEADLINE);
    night->slept++;
    for (int i = 0; i < night->rings; i++) {
        night->woken = 0;
        if (night->all && i == night->rings - 1)
            eplb_mesh_ring_all(night->mesh);
        else
            eplb_mesh_ring(night->mesh, 1);
        night->woken_by[i] = night->woken;
    }
}

static void wake_at_night(void *context, int32_t rank, _Atomic uint32_t *bell)
{
    struct night *night = context;
    (void)bell;
    night->woken += rank == 1;
}

/* Who waits for three rings is woken by the third, wherever the bell stands, and by what is for all. */
static void the_patient_are_woken_once(void **state)
{
    (void)state;
    struct night night = {.rings = 4};
    const struct eplb_mesh_limits limits = {4, 1, 256, 256};
    const struct eplb_waker waker = {.context = &night, .sleep = ring_at_night, .wake = wake_at_night};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_mesh_take(&arena, &limits, &waker);
    void *block = eplb_arena_block(arena.used);
    eplb_arena_init(&arena, block, arena.used);
    struct eplb_mesh mesh = eplb_mesh_take(&arena, &limits, &waker);
    night.mesh = &mesh;
    for (uint32_t bell = UINT32_MAX - 5; bell != 3; bell++) {
        atomic_store(&mesh.members[1].bell, bell);
        eplb_mesh_sleep_for(&mesh, 1, bell, 3);
        assert_int_equal(night.woken_by[0] + night.woken_by[1], 0);
        assert_int_equal(night.woken_by[2], 1);
    }
    assert_int_equal(night.slept, 9);
    /* Afterwards nobody sleeps. */
    night.woken = 0;
    eplb_mesh_ring_all(&mesh);
    assert_int_equal(night.woken, 0);
    night.rings = 1;
    night.all = true;
    eplb_mesh_sleep_for(&mesh, 1, eplb_mesh_hear(&mesh, 1), 3);
    assert_int_equal(night.woken_by[0], 1);
    eplb_arena_free(block);
}

/* What came before it was patient is seen: all rings, or some of them and a death. */
static void the_patient_miss_nothing(void **state)
{
    (void)state;
    struct beds beds = {0};
    const struct eplb_mesh_limits limits = {4, 1, 256, 256};
    const struct eplb_waker waker = {
        .context = &beds, .spin = let_it_happen, .sleep = count_sleep_for, .wake = count_wake};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_mesh_take(&arena, &limits, &waker);
    void *block = eplb_arena_block(arena.used);
    eplb_arena_init(&arena, block, arena.used);
    struct eplb_mesh mesh = eplb_mesh_take(&arena, &limits, &waker);
    meanwhile.mesh = &mesh;
    meanwhile.buried = EPLB_NO_RANK;
    const int slept[] = {1, 2, 3, 3, 3};
    for (meanwhile.rings = 0; meanwhile.rings < 5; meanwhile.rings++) {
        eplb_mesh_sleep_for(&mesh, 1, eplb_mesh_hear(&mesh, 1), 3);
        assert_int_equal(beds.slept, slept[meanwhile.rings]);
    }
    meanwhile.rings = 1;
    meanwhile.buried = 2;
    eplb_mesh_sleep_for(&mesh, 1, eplb_mesh_hear(&mesh, 1), 3);
    assert_int_equal(beds.slept, 3);
    eplb_arena_free(block);
}

/* ---- deaths ---- */

static void the_dead_are_marked_whatever_stood_there(void **state)
{
    (void)state;
    struct beds beds = {0};
    const struct eplb_mesh_limits limits = {130, 1, 256, 256};
    const struct eplb_waker waker = {.context = &beds, .sleep = count_sleep, .wake = count_wake};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_mesh_take(&arena, &limits, &waker);
    void *block = eplb_arena_block(arena.used);
    eplb_arena_init(&arena, block, arena.used);
    struct eplb_mesh mesh = eplb_mesh_take(&arena, &limits, &waker);
    atomic_store(&mesh.members[1].sleepers, 1);

    assert_int_equal(eplb_mesh_first_dead(&mesh), EPLB_NO_RANK);
    /* Of ranks that are none. */
    atomic_store(&mesh.deaths[2], UINT64_MAX << 2);
    assert_int_equal(eplb_mesh_first_dead(&mesh), EPLB_NO_RANK);
    eplb_mesh_bury(&mesh, 129);
    assert_int_equal(eplb_mesh_first_dead(&mesh), 129);
    eplb_mesh_bury(&mesh, 64);
    assert_int_equal(eplb_mesh_first_dead(&mesh), 64);
    for (int32_t rank = 0; rank < limits.num_ranks; rank++)
        assert_int_equal(eplb_mesh_is_dead(&mesh, rank), rank == 64 || rank == 129);
    assert_int_equal(beds.woken[1], 2);

    /* Marked before by somebody who told nobody. */
    atomic_store(&mesh.deaths[0], 4);
    eplb_mesh_bury(&mesh, 2);
    assert_int_equal(beds.woken[1], 3);
    assert_int_equal(eplb_mesh_first_dead(&mesh), 2);
    eplb_arena_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_out_of_range_are_refused_with_a_sentence),
        cmocka_unit_test(parameters_of_another_size_are_refused),
        cmocka_unit_test(a_group_that_no_memory_holds_is_refused),
        cmocka_unit_test(the_default_limits_are_these),
        cmocka_unit_test(what_is_shared_lies_here),
        cmocka_unit_test(views_say_who_they_are),
        cmocka_unit_test(only_sleepers_are_woken),
        cmocka_unit_test(the_patient_are_woken_once),
        cmocka_unit_test(the_patient_miss_nothing),
        cmocka_unit_test(the_dead_are_marked_whatever_stood_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
