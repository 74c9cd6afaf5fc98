/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "contract/group_stage.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "eplb/clock.h"

int64_t stage_now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

void stage_open_apart(struct stage *stage, const struct contract_maker *maker,
                      const struct contract_request *request)
{
    assert_in_range(request->num_ranks, 1, MAX_STAGE_RANKS);
    *stage = (struct stage){.maker = maker, .num_ranks = request->num_ranks, .current = {1}};
    stage->made = maker->create(request);
    stage->engine = maker->view(stage->made, EPLB_NO_RANK);
}

void stage_open(struct stage *stage, const struct contract_maker *maker,
                const struct contract_request *request)
{
    stage_open_apart(stage, maker, request);
    for (int32_t rank = 0; rank < request->num_ranks; rank++) {
        stage->ranks[rank] = maker->view(stage->made, rank);
        for (size_t op = 0; op < MAX_STAGE_OPS; op++)
            stage->results[rank][op] = NOT_ENDED;
    }
}

void stage_close(struct stage *stage)
{
    stage->maker->destroy(stage->made);
}

void stage_send(struct stage *stage, int32_t from, int32_t to, struct eplb_message_tag tag, const void *data,
                size_t size, uint32_t op)
{
    const struct eplb_group *group = stage->ranks[from];
    /* A part's memory is only read by a send. */
    const struct eplb_part part = {.data = (void *)(uintptr_t)data, .size = size};
    assert_int_equal(group->post_send(group->self, to, &tag, &part, 1, (struct eplb_op){op}), EPLB_OK);
}

void stage_receive(struct stage *stage, int32_t at, int32_t from, struct eplb_message_tag tag, void *data,
                   size_t size, uint32_t op)
{
    const struct eplb_group *group = stage->ranks[at];
    const struct eplb_part part = {.data = data, .size = size};
    assert_int_equal(group->post_recv(group->self, from, &tag, &part, 1, (struct eplb_op){op}), EPLB_OK);
}

void stage_poll(struct stage *stage, int32_t rank)
{
    struct eplb_completion completions[8];
    const struct eplb_group *group = stage->ranks[rank];
    size_t count = group->poll(group->self, stage->current, completions, LENGTH(completions));
    assert_in_range(count, 0, LENGTH(completions));
    for (size_t i = 0; i < count; i++) {
        assert_in_range(completions[i].op.value, 0, MAX_STAGE_OPS - 1);
        assert_int_equal(stage->results[rank][completions[i].op.value], NOT_ENDED);
        stage->results[rank][completions[i].op.value] = (int)completions[i].result;
    }
}

void stage_pass(struct stage *stage, int passes)
{
    while (passes-- > 0)
        for (int32_t rank = 0; rank < stage->num_ranks; rank++)
            stage_poll(stage, rank);
}

int stage_until(struct stage *stage, int32_t rank, uint32_t op)
{
    int64_t deadline = stage_now() + PATIENCE_NS;
    while (stage_result(stage, rank, op) == NOT_ENDED) {
        stage_pass(stage, 1);
        assert_true(stage_now() < deadline);
    }
    return stage_result(stage, rank, op);
}

int stage_result(const struct stage *stage, int32_t rank, uint32_t op)
{
    return stage->results[rank][op];
}

void stage_forget(struct stage *stage, int32_t rank, uint32_t op)
{
    stage->results[rank][op] = NOT_ENDED;
}

struct eplb_message_tag stage_tag(uint64_t token, int32_t slot, int32_t chunk)
{
    return (struct eplb_message_tag){.token = {token}, .slot = slot, .chunk = chunk};
}

/* ---- contents ---- */

/* One 64-bit word of content for each eight bytes: cheap, and no two places or seeds agree. */
static uint64_t word_at(uint64_t seed, size_t index)
{
    uint64_t value = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + index * UINT64_C(0xd6e8feb86659fd93);
    return value ^ (value >> 29);
}

void stage_fill(void *data, size_t size, uint64_t seed)
{
    unsigned char *bytes = data;
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t word = word_at(seed, at);
        memcpy(bytes + at, &word, size - at < sizeof word ? size - at : sizeof word);
    }
}

bool stage_is(const void *data, size_t size, uint64_t seed)
{
    const unsigned char *bytes = data;
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t word = word_at(seed, at);
        if (memcmp(bytes + at, &word, size - at < sizeof word ? size - at : sizeof word) != 0)
            return false;
    }
    return true;
}

void stage_cut(struct eplb_prng *prng, void *data, size_t size, struct eplb_part *parts, size_t count)
{
    unsigned char *bytes = data;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = i + 1 == count ? size - at : (size_t)eplb_prng_below(prng, size - at + 1);
        if (i + 1 < count && eplb_prng_below(prng, 4) == 0)
            length = 0;
        parts[i] = (struct eplb_part){.data = bytes + at, .size = length};
        at += length;
    }
}

void *stage_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

void stage_release(void *memory, size_t size)
{
    assert_int_equal(munmap(memory, size), 0);
}

/* ---- ranks at once ---- */

struct run {
    const struct stage *stage;
    void (*body)(struct stage_rank *rank);
    struct stage_rank *ranks; /* shared */
};

static void run_rank(void *context, int32_t rank)
{
    const struct run *run = context;
    run->ranks[rank].group = run->stage->maker->view(run->stage->made, rank);
    run->body(&run->ranks[rank]);
}

void stage_run(struct stage *stage, void (*body)(struct stage_rank *rank), uint64_t seed, void *shared)
{
    size_t bytes = (size_t)stage->num_ranks * sizeof(struct stage_rank);
    struct run run = {.stage = stage, .body = body, .ranks = stage_memory(bytes)};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int32_t rank = 0; rank < stage->num_ranks; rank++) {
        assert_null(stage->ranks[rank]);
        run.ranks[rank].shared = shared;
        eplb_prng_seed(&run.ranks[rank].prng, seed * MAX_STAGE_RANKS + (uint64_t)rank);
    }
    stage->maker->run_ranks(stage->made, stage->num_ranks, run_rank, &run);
    int failed = 0;
    for (int32_t rank = 0; rank < stage->num_ranks; rank++) {
        if (run.ranks[rank].failure[0] != '\0')
            print_error("rank %d: %s\n", (int)rank, run.ranks[rank].failure);
        failed += run.ranks[rank].failure[0] != '\0';
    }
    stage_release(run.ranks, bytes);
    assert_int_equal(failed, 0);
}

void stage_fail(struct stage_rank *rank, const char *file, int line, const char *what)
{
    snprintf(rank->failure, sizeof rank->failure, "%s:%d: %s", file, line, what);
    rank->group->member_dead(rank->group->self, rank->group->rank);
}

void stage_dawdle(struct eplb_prng *prng, uint64_t most)
{
    for (uint64_t turns = eplb_prng_below(prng, most + 1); turns > 0; turns--)
        sched_yield();
}

bool stage_finish(struct stage_rank *rank, struct eplb_activation_token current, int *results, size_t count)
{
    const struct eplb_group *group = rank->group;
    int64_t deadline = stage_now() + PATIENCE_NS;
    size_t ended = 0;
    for (size_t op = 0; op < count; op++)
        results[op] = NOT_ENDED;
    while (ended < count && stage_now() < deadline) {
        struct eplb_completion completions[16];
        size_t got = group->poll(group->self, current, completions, LENGTH(completions));
        for (size_t i = 0; i < got; i++) {
            if (completions[i].op.value >= count || results[completions[i].op.value] != NOT_ENDED)
                return false;
            results[completions[i].op.value] = (int)completions[i].result;
        }
        ended += got;
        if (ended < count && got == 0)
            group->wait(group->self, deadline);
    }
    return ended == count;
}
