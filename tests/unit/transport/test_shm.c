/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Making a group in shared memory, taking places in it, what is refused, and what is left behind. What its
 * operations do is in the contract suite. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "eplb/clock.h"
#include "eplb/shm.h"
#include "shm/segment.h"
#include "support/allocations.h"
#include "support/children.h"
#include "support/process.h"
#include "support/shm_place.h"
#include "transport/shm_layout.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { RANKS = 3, MAX_OPS = 5 };

static struct shm_place place;

static int set_up(void **state)
{
    (void)state;
    shm_place_open(&place);
    return 0;
}

/* Whatever a test made is gone by now. */
static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
    return 0;
}

static struct eplb_shm_params small_group(void)
{
    struct eplb_shm_params params;
    eplb_shm_params_init(&params);
    params.instance_name = "test";
    params.directory = place.path;
    params.num_ranks = RANKS;
    params.max_ops = MAX_OPS;
    params.transfer_ring_bytes = 512;
    params.collective_ring_bytes = 256;
    return params;
}

static struct eplb_shm *make_group(void)
{
    struct eplb_error error;
    struct eplb_shm *shm;
    const struct eplb_shm_params params = small_group();
    if (eplb_shm_create(&params, &shm, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return shm;
}

static struct eplb_shm_attach_params place_of(uint64_t generation, int32_t rank)
{
    struct eplb_shm_attach_params params;
    eplb_shm_attach_params_init(&params);
    params.instance_name = "test";
    params.directory = place.path;
    params.generation = generation;
    params.rank = rank;
    return params;
}

static struct eplb_shm *join_group(uint64_t generation, int32_t rank)
{
    struct eplb_error error;
    struct eplb_shm *shm;
    const struct eplb_shm_attach_params params = place_of(generation, rank);
    if (eplb_shm_attach(&params, &shm, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return shm;
}

/* The attach fails with the status and a sentence that begins so, and ends with the path. */
static void assert_refused(const struct eplb_shm_attach_params *params, enum eplb_status status,
                           const char *sentence)
{
    struct eplb_error error;
    struct eplb_shm *shm = NULL;
    char path[EPLB_SEGMENT_PATH];
    snprintf(path, sizeof path, "%s/eplb.%u.test.group", place.path, geteuid());
    assert_int_equal(eplb_shm_attach(params, &shm, &error), status);
    assert_null(shm);
    if (strncmp(error.text, sentence, strlen(sentence)) != 0)
        fail_msg("'%s' begins otherwise than '%s'", error.text, sentence);
    assert_true(strlen(error.text) > strlen(path));
    assert_string_equal(error.text + strlen(error.text) - strlen(path), path);
}

/* ---- parameters ---- */

static void the_default_parameters_are_these(void **state)
{
    (void)state;
    struct eplb_shm_params params;
    eplb_shm_params_init(&params);
    assert_int_equal(params.size, sizeof params);
    assert_string_equal(params.instance_name, "eplb");
    assert_string_equal(params.directory, "/dev/shm");
    assert_int_equal(params.num_ranks, 0);
    assert_int_equal(params.max_ops, 512);
    assert_int_equal(params.transfer_ring_bytes, 131072);
    assert_int_equal(params.collective_ring_bytes, 16384);
    assert_int_equal(params.spin_ns, -1);
    struct eplb_shm_attach_params attach;
    eplb_shm_attach_params_init(&attach);
    assert_int_equal(attach.size, sizeof attach);
    assert_string_equal(attach.instance_name, "eplb");
    assert_string_equal(attach.directory, "/dev/shm");
    assert_int_equal(attach.generation, 0);
    assert_int_equal(attach.rank, -1);
    assert_int_equal(attach.spin_ns, -1);
}

static void a_group_with_wrong_parameters_is_refused(void **state)
{
    (void)state;
    enum { CASES = 8 };
    struct eplb_shm_params params[CASES];
    for (size_t i = 0; i < CASES; i++)
        params[i] = small_group();
    params[0].size = 8;
    params[1].instance_name = NULL;
    params[2].instance_name = "a/b";
    params[3].num_ranks = 0;
    params[4].max_ops = 65537;
    params[5].transfer_ring_bytes = 300;
    params[6].collective_ring_bytes = 128;
    params[7].spin_ns = -2;
    static const char *const sentences[CASES] = {
        "eplb_shm_params.size is 8; this library's is 56",
        "eplb_shm_params.instance_name is NULL; a name is wanted",
        "--instance_name=a/b: an instance name has ",
        "a group's num_ranks is 0; allowed is 1 to 65536",
        "a group's max_ops is 65537; allowed is 1 to 65536",
        "a group's transfer_ring_bytes is 300; allowed are powers of two from 256 to 2147483648",
        "a group's collective_ring_bytes is 128; allowed are powers of two from 256 to 2147483648",
        "eplb_shm_params.spin_ns is -2; allowed are -1 (as it pays), 0 and more",
    };
    for (size_t i = 0; i < CASES; i++) {
        struct eplb_error error;
        struct eplb_shm *shm = NULL;
        assert_int_equal(eplb_shm_create(&params[i], &shm, &error), EPLB_INVALID);
        assert_null(shm);
        if (strncmp(error.text, sentences[i], strlen(sentences[i])) != 0)
            fail_msg("'%s' begins otherwise than '%s'", error.text, sentences[i]);
    }
}

static void a_group_that_no_memory_holds_is_refused(void **state)
{
    (void)state;
    struct eplb_error error;
    struct eplb_shm *shm = NULL;
    struct eplb_shm_params params = small_group();
    params.num_ranks = EPLB_MAX_RANKS;
    params.transfer_ring_bytes = params.collective_ring_bytes = EPLB_MAX_RING_BYTES;
    assert_int_equal(eplb_shm_create(&params, &shm, &error), EPLB_IO);
    assert_string_equal(error.text, "no shared memory holds a group of 65536 ranks with 5 operations each, "
                                    "and rings of 2147483648 and 2147483648 bytes per pair");
    /* Sixteen terabytes: a size that can be said, but is not there. */
    params.num_ranks = 64;
    assert_int_equal(eplb_shm_create(&params, &shm, &error), EPLB_IO);
    assert_non_null(strstr(error.text, "cannot be reserved"));
    assert_null(shm);
}

/* ---- places ---- */

static void views_say_who_they_are(void **state)
{
    (void)state;
    struct eplb_shm *maker = make_group();
    struct eplb_shm *ranks[RANKS];
    uint64_t generation = eplb_shm_generation(maker);
    assert_true(generation >= 1);
    assert_int_equal(eplb_shm_group(maker)->rank, EPLB_NO_RANK);
    assert_int_equal(eplb_shm_group(maker)->max_ops, 0);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        ranks[rank] = join_group(generation, rank);
        const struct eplb_group *group = eplb_shm_group(ranks[rank]);
        assert_int_equal(group->size, sizeof *group);
        assert_int_equal(group->rank, rank);
        assert_int_equal(group->num_ranks, RANKS);
        assert_int_equal(group->max_ops, MAX_OPS);
        assert_int_equal(eplb_shm_generation(ranks[rank]), generation);
    }
    /* They are views of one group. */
    const struct eplb_group *engine = eplb_shm_group(maker);
    const struct eplb_activation_token token = {1};
    engine->record_open(engine->self, token);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        const struct eplb_group *group = eplb_shm_group(ranks[rank]);
        assert_int_equal(engine->record_read(engine->self, token), EPLB_UNDECIDED);
        group->record_vote(group->self, token, 1);
    }
    assert_int_equal(engine->record_read(engine->self, token), EPLB_COMMIT);
    for (int32_t rank = 0; rank < RANKS; rank++)
        eplb_shm_destroy(ranks[rank]);
    eplb_shm_destroy(maker);
    eplb_shm_destroy(NULL);
}

static void an_attach_with_wrong_parameters_is_refused(void **state)
{
    (void)state;
    struct eplb_shm *maker = make_group();
    enum { CASES = 4 };
    struct eplb_shm_attach_params params[CASES];
    for (size_t i = 0; i < CASES; i++)
        params[i] = place_of(eplb_shm_generation(maker), 0);
    params[0].size = 8;
    params[1].instance_name = NULL;
    params[2].generation = 0;
    params[3].spin_ns = -2;
    static const char *const sentences[CASES] = {
        "eplb_shm_attach_params.size is 8; this library's is 48",
        "eplb_shm_attach_params.instance_name is NULL; a name is wanted",
        "eplb_shm_attach_params.generation is 0; it is what eplb_shm_generation gave to the maker",
        "eplb_shm_attach_params.spin_ns is -2; allowed are -1 (as it pays), 0 and more",
    };
    for (size_t i = 0; i < CASES; i++) {
        struct eplb_error error;
        struct eplb_shm *shm = NULL;
        assert_int_equal(eplb_shm_attach(&params[i], &shm, &error), EPLB_INVALID);
        assert_string_equal(error.text, sentences[i]);
        assert_null(shm);
    }
    eplb_shm_destroy(maker);
}

static void a_place_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct eplb_shm_attach_params params = place_of(1, 0);
    assert_refused(&params, EPLB_INVALID, "there is no such shared memory: ");
    struct eplb_shm *maker = make_group();
    uint64_t generation = eplb_shm_generation(maker);
    char sentence[128];
    for (int i = -1; i <= 1; i += 2) {
        params = place_of(generation + (uint64_t)i * 7, 0);
        snprintf(sentence, sizeof sentence,
                 "shared memory is of generation %llu, expected %llu: ", (unsigned long long)generation,
                 (unsigned long long)params.generation);
        assert_refused(&params, EPLB_INCONSISTENT, sentence);
    }
    params = place_of(generation, RANKS);
    assert_refused(&params, EPLB_INVALID, "there is no rank 3 in a group of 3 ranks: ");
    params = place_of(generation, EPLB_NO_RANK);
    assert_refused(&params, EPLB_INVALID, "there is no rank -1 in a group of 3 ranks: ");
    eplb_shm_destroy(maker);
}

/* For ever: whoever comes later would not know what is on its way. */
static void a_place_is_taken_once(void **state)
{
    (void)state;
    struct eplb_shm *maker = make_group();
    const struct eplb_shm_attach_params params = place_of(eplb_shm_generation(maker), 1);
    char sentence[128];
    snprintf(sentence, sizeof sentence,
             "rank 1 was taken by process %d; a place in a group is taken once: ", (int)getpid());
    struct eplb_shm *rank = join_group(params.generation, 1);
    assert_refused(&params, EPLB_REFUSED, sentence);
    eplb_shm_destroy(rank);
    assert_refused(&params, EPLB_REFUSED, sentence);
    rank = join_group(params.generation, 2);
    eplb_shm_destroy(rank);
    eplb_shm_destroy(maker);
}

/* ---- names ---- */

static void two_groups_of_one_name_do_not_live_together(void **state)
{
    (void)state;
    struct eplb_error error;
    struct eplb_shm *other = NULL;
    struct eplb_shm_params params = small_group();
    struct eplb_shm *maker = make_group();
    assert_int_equal(eplb_shm_create(&params, &other, &error), EPLB_IN_USE);
    assert_non_null(strstr(error.text, "--instance_name"));
    assert_null(other);
    /* Another name is another group. */
    params.instance_name = "other";
    assert_int_equal(eplb_shm_create(&params, &other, &error), EPLB_OK);
    assert_true(eplb_shm_generation(other) > eplb_shm_generation(maker));
    eplb_shm_destroy(maker);
    maker = make_group();
    assert_true(eplb_shm_generation(maker) > eplb_shm_generation(other));
    eplb_shm_destroy(maker);
    eplb_shm_destroy(other);
}

/* The child dies with the group in its hands. */
static void make_and_die(void *context, int32_t index)
{
    (void)index;
    struct eplb_shm *maker;
    const struct eplb_shm_params params = small_group();
    if (eplb_shm_create(&params, &maker, NULL) != EPLB_OK)
        child_fail("no group was made");
    *(uint64_t *)context = eplb_shm_generation(maker);
    (void)raise(SIGKILL);
}

static void a_dead_maker_leaves_a_name_that_is_free(void **state)
{
    (void)state;
    struct child child;
    const struct eplb_clock *clock = eplb_clock_system();
    uint64_t *generation =
        mmap(NULL, sizeof *generation, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(generation != MAP_FAILED);
    child_start(&child, make_and_die, generation, 0);
    assert_int_equal(children_next(&child, 1, clock->now(clock->context) + INT64_C(60000000000)), 0);
    assert_int_equal(child.status, SIGKILL);
    assert_true(*generation >= 1);
    assert_int_equal(shm_place_count(&place), 1);

    char sentence[128];
    const struct eplb_shm_attach_params params = place_of(*generation, 0);
    snprintf(sentence, sizeof sentence,
             "process %d, which made this shared memory, has ended: ", (int)child.pid);
    assert_refused(&params, EPLB_REFUSED, sentence);
    struct eplb_shm *maker = make_group();
    assert_true(eplb_shm_generation(maker) > *generation);
    snprintf(sentence, sizeof sentence, "shared memory is of generation %llu, expected %llu: ",
             (unsigned long long)eplb_shm_generation(maker), (unsigned long long)*generation);
    assert_refused(&params, EPLB_INCONSISTENT, sentence);
    eplb_shm_destroy(maker);
    munmap(generation, sizeof *generation);
}

/* ---- what is found there ---- */

static struct eplb_segment *open_payload(uint64_t generation, struct eplb_shm_head **head)
{
    struct eplb_segment *segment;
    const struct eplb_segment_name name = {.directory = place.path, .instance = "test", .part = "group"};
    assert_int_equal(eplb_segment_open(&name, EPLB_SEGMENT_GROUP, generation, 0, &segment, NULL), EPLB_OK);
    *head = eplb_segment_payload(segment);
    return segment;
}

static void a_head_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct eplb_shm *maker = make_group();
    uint64_t generation = eplb_shm_generation(maker);
    const struct eplb_shm_attach_params params = place_of(generation, 0);
    struct eplb_shm_head *head;
    struct eplb_segment *segment = open_payload(generation, &head);
    const uint64_t bytes = atomic_load(&head->bytes);
    const struct {
        int32_t num_ranks;
        int32_t max_ops;
        uint64_t transfer;
        uint64_t collective;
        uint64_t bytes;
        const char *sentence;
    } cases[] = {
        {0, MAX_OPS, 512, 256, bytes, "a group's num_ranks is 0; "},
        {INT32_MIN, MAX_OPS, 512, 256, bytes, "a group's num_ranks is -2147483648; "},
        {RANKS, -1, 512, 256, bytes, "a group's max_ops is -1; "},
        {RANKS, MAX_OPS, 511, 256, bytes, "a group's transfer_ring_bytes is 511; "},
        {RANKS, MAX_OPS, UINT64_MAX, 256, bytes, "a group's transfer_ring_bytes is 18446744073709551615; "},
        {RANKS, MAX_OPS, 512, 0, bytes, "a group's collective_ring_bytes is 0; "},
        /* Each alone would be allowed, but is not what the segment was made for. */
        {RANKS + 1, MAX_OPS, 512, 256, bytes, "its 4 ranks take "},
        {RANKS, EPLB_MAX_OPS, 512, 256, bytes, "its 3 ranks take "},
        {RANKS, MAX_OPS, 1024, 256, bytes, "its 3 ranks take "},
        {RANKS, MAX_OPS, 512, 256, bytes + 1, "its 3 ranks take "},
        {65536, 65536, UINT64_C(1) << 31, UINT64_C(1) << 31, bytes, "its 65536 ranks take "},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char sentence[128];
        atomic_store(&head->num_ranks, cases[i].num_ranks);
        atomic_store(&head->max_ops, cases[i].max_ops);
        atomic_store(&head->transfer_ring_bytes, cases[i].transfer);
        atomic_store(&head->collective_ring_bytes, cases[i].collective);
        atomic_store(&head->bytes, cases[i].bytes);
        snprintf(sentence, sizeof sentence, "the head of a group is damaged: %s", cases[i].sentence);
        assert_refused(&params, EPLB_LAYOUT, sentence);
    }
    eplb_segment_close(segment);
    eplb_shm_destroy(maker);
}

static void another_kind_of_segment_is_refused(void **state)
{
    (void)state;
    struct eplb_segment *segment;
    const struct eplb_segment_name name = {.directory = place.path, .instance = "test", .part = "group"};
    assert_int_equal(eplb_segment_build(&name, EPLB_SEGMENT_CHANNEL, 1, &segment, NULL), EPLB_OK);
    assert_int_equal(eplb_segment_publish(segment, 0, NULL), EPLB_OK);
    const struct eplb_shm_attach_params params = place_of(eplb_segment_generation(segment), 0);
    assert_refused(&params, EPLB_LAYOUT, "eplb.");
    eplb_segment_close(segment);
}

static void the_head_lies_before_claims_and_mesh(void **state)
{
    (void)state;
    struct eplb_shm *maker = make_group();
    struct eplb_shm *rank = join_group(eplb_shm_generation(maker), 2);
    struct eplb_shm_head *head;
    struct eplb_segment *segment = open_payload(eplb_shm_generation(maker), &head);
    const uint64_t wants = RANKS * MAX_OPS * 64;
    const uint64_t mesh_bytes = 128 + 64 + 64 + RANKS * 64 + wants + RANKS * RANKS * (320 + 768);
    assert_int_equal(atomic_load(&head->num_ranks), RANKS);
    assert_int_equal(atomic_load(&head->max_ops), MAX_OPS);
    assert_int_equal(atomic_load(&head->transfer_ring_bytes), 512);
    assert_int_equal(atomic_load(&head->collective_ring_bytes), 256);
    assert_int_equal(atomic_load(&head->bytes), 128 + mesh_bytes);
    assert_int_equal(eplb_segment_payload_bytes(segment), (128 + mesh_bytes + 4095) / 4096 * 4096);
    const struct eplb_shm_claim *claims = (const void *)((const unsigned char *)head + 64);
    assert_int_equal(atomic_load(&claims[0].pid), 0);
    assert_int_equal(atomic_load(&claims[1].pid), 0);
    assert_int_equal(atomic_load(&claims[2].pid), getpid());
    const struct eplb_mesh_head *mesh = (const void *)((const unsigned char *)head + 128);
    const struct eplb_group *engine = eplb_shm_group(maker);
    engine->record_open(engine->self, (struct eplb_activation_token){77});
    assert_int_equal(atomic_load(&mesh->decision), 77 * 4);
    eplb_segment_close(segment);
    eplb_shm_destroy(rank);
    eplb_shm_destroy(maker);
}

/* ---- what is left behind ---- */

static size_t mappings(void)
{
    size_t lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    for (int c = getc(file); c != EOF; c = getc(file))
        lines += c == '\n';
    fclose(file);
    return lines;
}

static void make_and_unmake(void)
{
    struct eplb_shm *maker = make_group();
    struct eplb_shm *rank = join_group(eplb_shm_generation(maker), 0);
    eplb_shm_destroy(rank);
    eplb_shm_destroy(maker);
}

static void nothing_is_left_behind(void **state)
{
    (void)state;
    enum { TIMES = 1000, WARM_UP = 20, SLACK = 50 };
    for (int i = 0; i < WARM_UP; i++)
        make_and_unmake();
    size_t files = process_files();
    size_t maps = mappings();
    for (int i = 0; i < TIMES; i++)
        make_and_unmake();
    assert_int_equal(process_files(), files);
    /* Allocators may have taken some more. */
    assert_in_range(mappings(), 1, maps + SLACK);
    assert_int_equal(shm_place_count(&place), 0);
}

static void an_allocation_that_fails_leaves_nothing(void **state)
{
    (void)state;
    const struct eplb_shm_params params = small_group();
    struct eplb_error error;
    size_t files = process_files();
    size_t failures = 0;
    struct eplb_shm *maker = NULL;
    for (size_t failing = 1; maker == NULL; failing++) {
        allocations_reset(failing);
        enum eplb_status status = eplb_shm_create(&params, &maker, &error);
        allocations_reset(0);
        assert_true(status == EPLB_OK || status == EPLB_NO_MEMORY);
        failures += status == EPLB_NO_MEMORY;
        assert_int_equal(shm_place_count(&place), status == EPLB_OK);
    }
    /* A segment's hold, and a view. */
    assert_in_range(failures, 2, 10);
    const struct eplb_shm_attach_params attach = place_of(eplb_shm_generation(maker), 0);
    struct eplb_shm *rank = NULL;
    failures = 0;
    for (size_t failing = 1; rank == NULL; failing++) {
        allocations_reset(failing);
        enum eplb_status status = eplb_shm_attach(&attach, &rank, &error);
        allocations_reset(0);
        /* The place is still there for the next try. */
        assert_true(status == EPLB_OK || status == EPLB_NO_MEMORY);
        failures += status == EPLB_NO_MEMORY;
    }
    assert_in_range(failures, 2, 10);
    eplb_shm_destroy(rank);
    eplb_shm_destroy(maker);
    assert_int_equal(process_files(), files);
}

#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_parameters_are_these),
        IN_A_PLACE(a_group_with_wrong_parameters_is_refused),
        IN_A_PLACE(a_group_that_no_memory_holds_is_refused),
        IN_A_PLACE(views_say_who_they_are),
        IN_A_PLACE(an_attach_with_wrong_parameters_is_refused),
        IN_A_PLACE(a_place_that_is_not_there_is_refused),
        IN_A_PLACE(a_place_is_taken_once),
        IN_A_PLACE(two_groups_of_one_name_do_not_live_together),
        IN_A_PLACE(a_dead_maker_leaves_a_name_that_is_free),
        IN_A_PLACE(a_head_that_cannot_be_is_refused),
        IN_A_PLACE(another_kind_of_segment_is_refused),
        IN_A_PLACE(the_head_lies_before_claims_and_mesh),
        IN_A_PLACE(nothing_is_left_behind),
        IN_A_PLACE(an_allocation_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
