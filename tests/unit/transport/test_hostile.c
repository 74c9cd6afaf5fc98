/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A peer that writes anything anywhere into the shared memory: a rank may fail, but touches no memory that
 * is not its own, and ends. The sanitizer builds see the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "transport/member.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { RANKS = 2, MAX_OPS = 8, BYTES = 3000, GUARD = 64, TRIES = 5000, SCRIBBLES = 200 };

static void sleep_not(void *context, int32_t rank, const _Atomic uint32_t *bell, uint32_t heard,
                      int64_t deadline)
{
    (void)context, (void)rank, (void)bell, (void)heard, (void)deadline;
}

static void wake_nobody(void *context, int32_t rank, _Atomic uint32_t *bell)
{
    (void)context, (void)rank, (void)bell;
}

/* A shared block, and rank 0, which works on it; nobody but the scribbler is rank 1. */
struct scene {
    unsigned char *shared;
    size_t shared_bytes;
    void *private_block;
    struct eplb_mesh mesh;
    const struct eplb_group *group;
    uint64_t next[MAX_OPS]; /* offset of the next fragment for a receive */
    unsigned char memory[MAX_OPS][GUARD + BYTES + GUARD];
};

static void open_scene(struct scene *scene)
{
    static const struct eplb_mesh_limits limits = {RANKS, MAX_OPS, 1024, 256};
    const struct eplb_waker waker = {.sleep = sleep_not, .wake = wake_nobody};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_mesh_take(&arena, &limits, &waker);
    scene->shared_bytes = arena.used;
    scene->shared = eplb_arena_block(arena.used);
    eplb_arena_init(&arena, scene->shared, arena.used);
    scene->mesh = eplb_mesh_take(&arena, &limits, &waker);

    eplb_arena_init(&arena, NULL, 0);
    eplb_member_take(&arena, &limits, 0);
    scene->private_block = eplb_arena_block(arena.used);
    eplb_arena_init(&arena, scene->private_block, arena.used);
    struct eplb_member *member = eplb_member_take(&arena, &limits, 0);
    eplb_member_init(member, &scene->mesh, 0);
    scene->group = eplb_member_group(member);
    memset(scene->memory, 0xee, sizeof scene->memory);
    memset(scene->next, 0, sizeof scene->next);
}

static void close_scene(struct scene *scene)
{
    for (size_t op = 0; op < MAX_OPS; op++)
        for (size_t i = 0; i < GUARD; i++) {
            assert_int_equal(scene->memory[op][i], 0xee);
            assert_int_equal(scene->memory[op][GUARD + BYTES + i], 0xee);
        }
    eplb_arena_free(scene->private_block);
    eplb_arena_free(scene->shared);
}

/* Half of the operations receive, half send. */
static void post_all(struct scene *scene)
{
    const struct eplb_group *group = scene->group;
    for (uint32_t op = 0; op < MAX_OPS; op++) {
        const struct eplb_message_tag tag = {.token = {1}, .slot = (int32_t)op};
        const struct eplb_part part = {scene->memory[op] + GUARD, BYTES};
        enum eplb_status status =
            op % 2 == 0 ? group->post_recv(group->self, 1, &tag, &part, 1, (struct eplb_op){op})
                        : group->post_send(group->self, 1, &tag, &part, 1, (struct eplb_op){op});
        assert_int_equal(status, EPLB_OK);
    }
}

static bool one_in(struct eplb_prng *prng, uint64_t count)
{
    return eplb_prng_below(prng, count) == 0;
}

/* A want for one of the sends, right in most respects, and room for what answers it. */
static void want_something(struct scene *scene, struct eplb_prng *prng)
{
    uint32_t op = (uint32_t)eplb_prng_below(prng, MAX_OPS);
    struct eplb_mesh_want *want = eplb_mesh_want(&scene->mesh, 1, (int32_t)op);
    struct eplb_mesh_link *link = eplb_mesh_link(&scene->mesh, 0, 1);
    atomic_store(&want->token, 1);
    atomic_store(&want->slot, op);
    atomic_store(&want->size, one_in(prng, 16) ? eplb_prng_next(prng) : BYTES);
    atomic_store(&want->ticket, one_in(prng, 16) ? eplb_prng_next(prng) : op);
    atomic_store(&scene->mesh.members[1].num_wants, UINT32_MAX);
    atomic_fetch_add(&link->announced, 1);
    atomic_store(&link->transfer.read, atomic_load(&link->transfer.written));
}

/* A fragment for one of the receives: mostly the next one, with the ticket that it has. */
static void send_something(struct scene *scene, struct eplb_prng *prng)
{
    enum { FRAGMENT = 448 };
    uint32_t op = (uint32_t)eplb_prng_below(prng, MAX_OPS);
    struct eplb_mesh_link *link = eplb_mesh_link(&scene->mesh, 1, 0);
    struct eplb_pipe_end pipe = eplb_mesh_transfer_pipe(&scene->mesh, 1, 0);
    uint64_t read = atomic_load(&link->transfer.read);
    uint64_t offset = one_in(prng, 16) ? eplb_prng_below(prng, BYTES) : scene->next[op];
    uint64_t left = BYTES - offset;
    struct eplb_fragment fragment = {.message = op / 2 + 1,
                                     .token = 1 + one_in(prng, 16),
                                     .size = one_in(prng, 64) ? BYTES + 1 : BYTES,
                                     .offset = offset,
                                     .want = one_in(prng, 16) ? (uint32_t)eplb_prng_next(prng) : op,
                                     .length = (uint32_t)(left < FRAGMENT ? left : FRAGMENT)};
    memcpy(pipe.ring + read % pipe.capacity, &fragment, sizeof fragment);
    atomic_store(&link->transfer.written, read + FRAGMENT + sizeof fragment);
    if (one_in(prng, 256))
        atomic_store(&link->transfer.written, eplb_prng_next(prng));
    else if (fragment.offset == scene->next[op])
        scene->next[op] = (offset + fragment.length) % BYTES;
}

/* Some words of the shared memory, anywhere. */
static void write_anything(struct scene *scene, struct eplb_prng *prng)
{
    for (uint64_t words = eplb_prng_below(prng, 4); words > 0; words--) {
        size_t at = (size_t)eplb_prng_below(prng, scene->shared_bytes / 8) * 8;
        uint64_t value = eplb_prng_next(prng) >> eplb_prng_below(prng, 64);
        memcpy(scene->shared + at, &value, sizeof value);
    }
}

/* Polls while the peer does its worst, gives up at the end, and counts how the operations ended. */
static void endure(struct scene *scene, struct eplb_prng *prng, size_t *ended)
{
    struct eplb_completion completions[MAX_OPS];
    const struct eplb_group *group = scene->group;
    const struct eplb_activation_token token = {1};
    for (int i = 0; i <= SCRIBBLES; i++) {
        if (one_in(prng, 32))
            write_anything(scene, prng);
        else if (one_in(prng, 2))
            want_something(scene, prng);
        else
            send_something(scene, prng);
        for (uint32_t op = 0; op < MAX_OPS && i == SCRIBBLES; op++)
            group->cancel(group->self, (struct eplb_op){op});
        size_t count = group->poll(group->self, token, completions, MAX_OPS);
        for (size_t j = 0; j < count; j++)
            ended[completions[j].result]++;
    }
}

static void scribbles_harm_nobody_else(void **state)
{
    (void)state;
    static struct scene scene;
    struct eplb_prng prng;
    size_t ended[3] = {0};
    print_message("seeds 0 to %d\n", TRIES - 1);
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        eplb_prng_seed(&prng, seed);
        open_scene(&scene);
        post_all(&scene);
        endure(&scene, &prng, ended);
        close_scene(&scene);
        assert_int_equal(ended[0] + ended[1] + ended[2], (seed + 1) * MAX_OPS);
    }
    /* All ways to end must have been common, or the test says little. */
    for (size_t result = 0; result < LENGTH(ended); result++)
        assert_in_range(ended[result], TRIES * MAX_OPS / 50, TRIES * MAX_OPS);
}

/* An exchange with a peer whose pipe holds nonsense ends with a sentence. */
static void an_exchange_with_nonsense_is_refused(void **state)
{
    (void)state;
    static struct scene scene;
    static const uint64_t written[] = {1, 64, 10000};
    for (size_t i = 0; i < LENGTH(written); i++) {
        struct eplb_error error;
        open_scene(&scene);
        struct eplb_part parts[RANKS] = {{scene.memory[0] + GUARD, 0}, {scene.memory[1] + GUARD, BYTES}};
        /* Of 64 bytes there is a header of zeros, for a round that never was. */
        atomic_store(&eplb_mesh_link(&scene.mesh, 1, 0)->collective.written, written[i]);
        assert_int_equal(scene.group->all_to_all(scene.group->self, parts, parts, &error), EPLB_INCONSISTENT);
        assert_string_equal(error.text,
                            "rank 0: what rank 1 wrote for exchange 1 makes no sense; the two ranks do "
                            "not run the same collectives");
        close_scene(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scribbles_harm_nobody_else),
        cmocka_unit_test(an_exchange_with_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
