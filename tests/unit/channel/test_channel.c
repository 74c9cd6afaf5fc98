/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Channels over segments: making, taking, dying. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "eplb/clock.h"
#include "os/bell.h"
#include "os/process.h"
#include "shm/layout.h"
#include "support/allocations.h"
#include "support/children.h"
#include "support/process.h"
#include "support/shm_place.h"
#include "traffic.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* A change of these is a change of the interface that hosts were compiled against. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct eplb_channel_params) == 104,
               "struct eplb_channel_params");
_Static_assert(sizeof(void *) != 8 || sizeof(struct eplb_channel_attach_params) == 48,
               "struct eplb_channel_attach_params");
_Static_assert(sizeof(void *) != 8 || sizeof(struct eplb_channel_reply) == 104, "struct eplb_channel_reply");
_Static_assert(sizeof(void *) != 8 || sizeof(struct eplb_channel_request) == 368,
               "struct eplb_channel_request");

enum { LONG_MS = 60000, PATH = 512 };

static const char setup[] = "what the worker must know";

struct scene {
    struct shm_place place;
    struct traffic traffic;
    struct eplb_error error;
    struct eplb_channel_params params;
    struct eplb_channel_attach_params attach;
    struct eplb_channel *engine;
    struct eplb_channel *worker;
};

static void open_scene(struct scene *scene)
{
    *scene = (struct scene){.engine = NULL};
    shm_place_open(&scene->place);
    traffic_init(&scene->traffic);
    eplb_channel_params_init(&scene->params);
    scene->params.instance_name = "test";
    scene->params.directory = scene->place.path;
    scene->params.shape = scene->traffic.shape;
    scene->params.ep_rank = TRAFFIC_RANK;
    scene->params.max_input_bytes = TRAFFIC_BYTES;
    scene->params.max_result_bytes = TRAFFIC_BYTES;
    scene->params.setup = setup;
    scene->params.setup_bytes = sizeof setup;
    eplb_channel_attach_params_init(&scene->attach);
    scene->attach.instance_name = "test";
    scene->attach.directory = scene->place.path;
    scene->attach.ep_rank = TRAFFIC_RANK;
}

static void close_scene(struct scene *scene)
{
    eplb_channel_destroy(scene->worker);
    eplb_channel_destroy(scene->engine);
    assert_int_equal(shm_place_count(&scene->place), 0);
    shm_place_close(&scene->place);
}

static void create(struct scene *scene)
{
    enum eplb_status status = eplb_channel_create(&scene->params, &scene->engine, &scene->error);
    if (status != EPLB_OK)
        fail_msg("%s", scene->error.text);
    scene->attach.generation = eplb_channel_generation(scene->engine);
}

static void attach(struct scene *scene)
{
    enum eplb_status status = eplb_channel_attach(&scene->attach, &scene->worker, &scene->error);
    if (status != EPLB_OK)
        fail_msg("%s", scene->error.text);
}

static void segment_path(const struct scene *scene, char path[PATH])
{
    snprintf(path, PATH, "%s/eplb.%u.test.rank2", scene->place.path, (unsigned)getuid());
}

static void pass_forward(struct scene *scene, uint64_t seq)
{
    struct eplb_channel_request request;
    struct eplb_channel_reply reply;
    int arrived;
    size_t size = traffic_size(seq);
    assert_int_equal(traffic_submit(&scene->traffic, scene->engine, seq, size, NULL), EPLB_OK);
    assert_int_equal(eplb_channel_receive(scene->worker, INT64_MAX, &request, &arrived, NULL), EPLB_OK);
    assert_int_equal(arrived, 1);
    assert_true(traffic_request_is(&scene->traffic, &request, seq, size));
    assert_int_equal(traffic_reply(&scene->traffic, scene->worker, seq, size, NULL), EPLB_OK);
    assert_int_equal(eplb_channel_collect(scene->engine, INT64_MAX, &reply, &arrived, NULL), EPLB_OK);
    assert_int_equal(arrived, 1);
    assert_true(traffic_reply_is(&scene->traffic, &reply, seq, size));
}

/* ---- making and taking ---- */

static void a_channel_is_one_segment(void **state)
{
    (void)state;
    struct scene scene;
    struct stat file;
    char path[PATH];
    open_scene(&scene);
    segment_path(&scene, path);
    create(&scene);
    assert_int_equal(shm_place_count(&scene.place), 1);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    /* A page of header and 17792 bytes of channel. */
    assert_int_equal(file.st_size, 6 * EPLB_SEGMENT_ALIGN);
    attach(&scene);
    size_t size;
    assert_int_equal(eplb_channel_generation(scene.engine), eplb_channel_generation(scene.worker));
    assert_memory_equal(eplb_channel_shape(scene.worker), &scene.traffic.shape, sizeof scene.traffic.shape);
    assert_string_equal(eplb_channel_setup(scene.worker, &size), setup);
    assert_int_equal(size, sizeof setup);
    assert_int_equal(eplb_channel_engine_lives(scene.engine), 1);
    assert_int_equal(eplb_channel_engine_lives(scene.worker), 1);
    for (uint64_t seq = 1; seq <= 100; seq++)
        pass_forward(&scene, seq);
    eplb_channel_destroy(scene.engine);
    scene.engine = NULL;
    assert_int_equal(shm_place_count(&scene.place), 0);
    assert_int_equal(eplb_channel_engine_lives(scene.worker), 0);
    close_scene(&scene);
}

static void a_channel_may_carry_commands_alone(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    scene.params.setup = NULL;
    scene.params.setup_bytes = scene.params.max_input_bytes = scene.params.max_result_bytes = 0;
    create(&scene);
    attach(&scene);
    size_t size = 1;
    (void)eplb_channel_setup(scene.worker, &size);
    assert_int_equal(size, 0);
    struct eplb_channel_request request;
    struct eplb_channel_reply reply;
    int arrived;
    assert_int_equal(eplb_channel_submit(scene.engine, traffic_command(&scene.traffic, 1), NULL, 0, NULL),
                     EPLB_OK);
    assert_int_equal(eplb_channel_receive(scene.worker, 0, &request, &arrived, NULL), EPLB_OK);
    assert_true(arrived && traffic_request_is(&scene.traffic, &request, 1, 0));
    assert_int_equal(eplb_channel_reply(scene.worker, traffic_output(&scene.traffic, 1), NULL, 0, NULL),
                     EPLB_OK);
    assert_int_equal(eplb_channel_collect(scene.engine, 0, &reply, &arrived, NULL), EPLB_OK);
    assert_true(arrived && traffic_reply_is(&scene.traffic, &reply, 1, 0));
    close_scene(&scene);
}

static void channels_of_a_run_share_its_generation(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    create(&scene);
    struct eplb_channel *other = NULL;
    scene.params.ep_rank = 3;
    scene.params.generation = scene.attach.generation;
    assert_int_equal(eplb_channel_create(&scene.params, &other, &scene.error), EPLB_OK);
    assert_int_equal(eplb_channel_generation(other), scene.attach.generation);
    assert_int_equal(shm_place_count(&scene.place), 2);
    eplb_channel_destroy(other);
    close_scene(&scene);
}

/* Changes one parameter. */
static void spoil(struct eplb_channel_params *params, size_t how)
{
    switch (how) {
    case 0:
        params->size--;
        return;
    case 1:
        params->shape.num_slots--;
        return;
    case 2:
        memset(&params->shape, 0, sizeof params->shape);
        return;
    case 3:
        params->ep_rank = -1;
        return;
    case 4:
        params->ep_rank = TRAFFIC_RANKS;
        return;
    case 5:
        params->max_input_bytes = SIZE_MAX;
        return;
    case 6:
        params->setup = NULL;
        return;
    case 7:
        params->instance_name = NULL;
        return;
    default:
        params->spin_ns = -2;
    }
}

static void wrong_parameters_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "eplb_channel_params.size is 103; this library's is 104",
        "a channel's shape has 11 slots, 3 per rank; a shape of these sizes has 12, 3 per rank",
        "num_layers is 0; allowed is 1 to 65536",
        "a channel's ep_rank is -1; allowed is 0 to 3",
        "a channel's ep_rank is 4; allowed is 0 to 3",
        "a channel's max_input_bytes is 18446744073709551615; allowed is 0 to 1099511627776",
        "a channel's setup is NULL, and its setup_bytes 26; then only 0 is allowed",
        "eplb_channel_params.instance_name is NULL; a name is wanted",
        "a channel's spin_ns is -2; allowed is -1 (what suits) or more",
    };
    struct scene scene;
    open_scene(&scene);
    for (size_t i = 0; i < LENGTH(texts); i++) {
        struct eplb_channel_params params = scene.params;
        spoil(&params, i);
        assert_int_equal(eplb_channel_create(&params, &scene.engine, &scene.error), EPLB_INVALID);
        assert_string_equal(scene.error.text, texts[i]);
        assert_null(scene.engine);
    }
    scene.params.instance_name = "no/name";
    assert_int_equal(eplb_channel_create(&scene.params, &scene.engine, &scene.error), EPLB_INVALID);
    close_scene(&scene);
}

static void what_cannot_be_reserved_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    scene.params.max_input_bytes = (size_t)1 << 40;
    assert_int_equal(eplb_channel_create(&scene.params, &scene.engine, &scene.error), EPLB_IO);
    close_scene(&scene);
}

static void a_living_engine_keeps_its_name(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    create(&scene);
    attach(&scene);
    struct eplb_channel *second = NULL;
    assert_int_equal(eplb_channel_create(&scene.params, &second, &scene.error), EPLB_IN_USE);
    assert_null(second);
    pass_forward(&scene, 1);
    close_scene(&scene);
}

static void refuse_attach(struct scene *scene, enum eplb_status expected, const char *part)
{
    struct eplb_channel *worker = NULL;
    assert_int_equal(eplb_channel_attach(&scene->attach, &worker, &scene->error), expected);
    if (strstr(scene->error.text, part) == NULL)
        fail_msg("\"%s\" has no \"%s\"", scene->error.text, part);
    assert_null(worker);
}

static void a_worker_that_does_not_belong_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    char text[PATH];
    open_scene(&scene);
    scene.attach.generation = 1;
    refuse_attach(&scene, EPLB_INVALID, "there is no such shared memory");
    create(&scene);
    const struct eplb_channel_attach_params right = scene.attach;
    scene.attach.generation++;
    refuse_attach(&scene, EPLB_INCONSISTENT, "generation");
    scene.attach.generation = 0;
    refuse_attach(&scene, EPLB_INVALID, "a channel's generation is 0; it is that of its maker, 1 or more");
    scene.attach = right;
    scene.attach.ep_rank = 1;
    refuse_attach(&scene, EPLB_INVALID, "rank1");
    scene.attach.ep_rank = -1;
    refuse_attach(&scene, EPLB_INVALID, "a channel's ep_rank is -1; allowed is 0 to 65535");
    scene.attach = right;
    scene.attach.instance_name = "other";
    refuse_attach(&scene, EPLB_INVALID, "other");
    scene.attach.instance_name = NULL;
    refuse_attach(&scene, EPLB_INVALID, "eplb_channel_attach_params.instance_name is NULL; a name is wanted");
    scene.attach = right;
    scene.attach.spin_ns = -2;
    refuse_attach(&scene, EPLB_INVALID, "a channel's spin_ns is -2; allowed is -1 (what suits) or more");
    scene.attach = right;
    scene.attach.size++;
    refuse_attach(&scene, EPLB_INVALID, "eplb_channel_attach_params.size is 49; this library's is 48");
    scene.attach = right;
    attach(&scene);
    snprintf(text, sizeof text,
             "the channel of rank 2 was taken before, by process %d; a worker takes it once", (int)getpid());
    refuse_attach(&scene, EPLB_REFUSED, text);
    pass_forward(&scene, 1);
    close_scene(&scene);
}

static void a_head_without_sense_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    char path[PATH];
    open_scene(&scene);
    create(&scene);
    segment_path(&scene, path);
    int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    const uint64_t right = sizeof setup;
    const uint64_t wrong[] = {UINT64_MAX, EPLB_SEGMENT_ALIGN};
    static const char *const texts[] = {
        "a channel's setup_bytes is 18446744073709551615; allowed is 0 to 1099511627776",
        "a channel of 20480 bytes; what its head says would need 23104"};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        assert_int_equal(pwrite(file, &wrong[i], 8, EPLB_SEGMENT_ALIGN + 40), 8);
        refuse_attach(&scene, EPLB_LAYOUT, texts[i]);
        refuse_attach(&scene, EPLB_LAYOUT, "the head of a channel is damaged: ");
        refuse_attach(&scene, EPLB_LAYOUT, "; once nothing uses it: rm /");
    }
    assert_int_equal(pwrite(file, &right, 8, EPLB_SEGMENT_ALIGN + 40), 8);
    attach(&scene);
    close(file);
    pass_forward(&scene, 1);
    close_scene(&scene);
}

/* ---- waiting ---- */

/* However long the spin, a wait ends at its deadline; and it spins once. */
static void a_spin_is_no_longer_than_the_wait(void **state)
{
    (void)state;
    enum { MS = 1000000 };
    struct scene scene;
    struct eplb_channel_request request;
    const struct eplb_clock *clock = eplb_clock_system();
    int arrived = 1;
    open_scene(&scene);
    create(&scene);
    scene.attach.spin_ns = INT64_MAX;
    attach(&scene);
    int64_t begin = clock->now(clock->context);
    assert_int_equal(eplb_channel_receive(scene.worker, begin + 10 * MS, &request, &arrived, NULL), EPLB_OK);
    assert_int_equal(arrived, 0);
    assert_true(clock->now(clock->context) - begin < 1000 * MS);
    close_scene(&scene);

    open_scene(&scene);
    scene.params.spin_ns = 150 * MS;
    create(&scene);
    struct eplb_channel_reply reply;
    begin = eplb_thread_cpu_time();
    int64_t deadline = clock->now(clock->context) + 800 * MS;
    assert_int_equal(eplb_channel_collect(scene.engine, deadline, &reply, &arrived, NULL), EPLB_OK);
    assert_int_equal(arrived, 0);
    assert_true(eplb_thread_cpu_time() - begin < 400 * MS);
    close_scene(&scene);
}

static struct eplb_channel *to_wake;

static void wake_in_handler(int number)
{
    (void)number;
    eplb_channel_wake(to_wake);
}

static void a_handler_may_wake(void **state)
{
    (void)state;
    struct scene scene;
    struct eplb_channel_request request;
    int arrived = 1;
    open_scene(&scene);
    create(&scene);
    attach(&scene);
    to_wake = scene.engine;
    const struct sigaction action = {.sa_handler = wake_in_handler};
    struct sigaction before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(eplb_channel_receive(scene.worker, INT64_MAX, &request, &arrived, NULL), EPLB_OK);
    assert_int_equal(arrived, 0);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    close_scene(&scene);
}

/* ---- deaths ---- */

/* Between a test and its children. */
struct board {
    struct scene *scene;
    atomic_uint_least64_t generation; /* of the child's channel; 0 until it is made */
    struct eplb_bell bell;            /* rung then */
};

static struct board *make_board(struct scene *scene)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    board->scene = scene;
    return board;
}

/* Makes a channel, submits two forwards, and waits for its death. */
static void be_engine(void *context, int32_t index)
{
    (void)index;
    struct board *board = context;
    struct scene *scene = board->scene;
    struct eplb_channel *engine;
    if (eplb_channel_create(&scene->params, &engine, &scene->error) != EPLB_OK)
        child_fail(scene->error.text);
    if (traffic_submit(&scene->traffic, engine, 1, 100, &scene->error) != EPLB_OK ||
        traffic_submit(&scene->traffic, engine, 2, 100, &scene->error) != EPLB_OK)
        child_fail(scene->error.text);
    atomic_store(&board->generation, eplb_channel_generation(engine));
    eplb_bell_ring(&board->bell);
    struct eplb_channel_reply reply;
    int arrived;
    (void)eplb_channel_collect(engine, traffic_in_ms(LONG_MS), &reply, &arrived, NULL);
    child_fail("nobody has killed this child");
}

/* Waits for a child that says its generation. */
static void await_generation(struct board *board, uint64_t before)
{
    int64_t deadline = traffic_in_ms(LONG_MS);
    for (;;) {
        uint32_t heard = eplb_bell_hear(&board->bell);
        if (atomic_load(&board->generation) != before)
            return;
        assert_true(traffic_in_ms(0) < deadline);
        eplb_bell_sleep(&board->bell, heard, 0, deadline);
    }
}

static void kill_child(struct child *child)
{
    child_kill(child);
    assert_int_equal(children_next(child, 1, traffic_in_ms(LONG_MS)), 0);
}

static void the_end_of_the_engine_is_seen(void **state)
{
    (void)state;
    struct scene scene;
    struct child child;
    open_scene(&scene);
    struct board *board = make_board(&scene);
    child_start(&child, be_engine, board, 0);
    await_generation(board, 0);
    scene.attach.generation = atomic_load(&board->generation);
    attach(&scene);
    assert_int_equal(eplb_channel_engine_lives(scene.worker), 1);
    kill_child(&child);
    assert_int_equal(eplb_channel_engine_lives(scene.worker), 0);
    /* What it had submitted is still there, and whole. */
    struct eplb_channel_request request;
    int arrived;
    assert_int_equal(eplb_channel_receive(scene.worker, 0, &request, &arrived, &scene.error), EPLB_OK);
    assert_int_equal(arrived, 1);
    assert_true(traffic_request_is(&scene.traffic, &request, 1, 100));
    refuse_attach(&scene, EPLB_REFUSED, "has ended");
    create(&scene);
    munmap(board, sizeof *board);
    close_scene(&scene);
}

/* B77: what the last run has left under the name is never the first that a worker reads. */
static void a_channel_made_again_is_empty(void **state)
{
    (void)state;
    struct scene scene;
    struct child child;
    open_scene(&scene);
    struct board *board = make_board(&scene);
    uint64_t generation = 0;
    for (int run = 0; run < 6; run++) {
        if (run % 2 == 0) {
            /* One that was killed with forwards under way; its segment is left. */
            child_start(&child, be_engine, board, 0);
            await_generation(board, generation);
            kill_child(&child);
            assert_true(atomic_load(&board->generation) > generation);
            generation = atomic_load(&board->generation);
        }
        create(&scene);
        assert_true(scene.attach.generation > generation);
        generation = scene.attach.generation;
        atomic_store(&board->generation, generation);
        attach(&scene);
        struct eplb_channel_request request;
        int arrived = -1;
        assert_int_equal(eplb_channel_receive(scene.worker, 0, &request, &arrived, &scene.error), EPLB_OK);
        assert_int_equal(arrived, 0);
        assert_int_equal(eplb_channel_beats(scene.engine), 0);
        pass_forward(&scene, 9);
        eplb_channel_beat(scene.worker);
        assert_int_equal(traffic_submit(&scene.traffic, scene.engine, 10, 0, NULL), EPLB_OK);
        eplb_channel_destroy(scene.worker);
        eplb_channel_destroy(scene.engine);
        scene.worker = scene.engine = NULL;
    }
    munmap(board, sizeof *board);
    close_scene(&scene);
}

/* ---- memory ---- */

static size_t count_create(struct scene *scene, size_t failing, enum eplb_status *status)
{
    allocations_reset(failing);
    *status = eplb_channel_create(&scene->params, &scene->engine, &scene->error);
    size_t counted = allocations_counted();
    allocations_reset(0);
    return counted;
}

static size_t count_attach(struct scene *scene, size_t failing, enum eplb_status *status)
{
    allocations_reset(failing);
    *status = eplb_channel_attach(&scene->attach, &scene->worker, &scene->error);
    size_t counted = allocations_counted();
    allocations_reset(0);
    return counted;
}

static void a_lack_of_memory_leaves_nothing(void **state)
{
    (void)state;
    struct scene scene;
    enum eplb_status status;
    open_scene(&scene);
    create(&scene);
    eplb_channel_destroy(scene.engine);
    scene.engine = NULL;
    size_t files = process_files();
    size_t all = count_create(&scene, 0, &status);
    assert_int_equal(status, EPLB_OK);
    eplb_channel_destroy(scene.engine);
    scene.engine = NULL;
    assert_true(all >= 2);
    for (size_t failing = 1; failing <= all; failing++) {
        count_create(&scene, failing, &status);
        assert_int_equal(status, EPLB_NO_MEMORY);
        assert_true(strlen(scene.error.text) > 10);
        assert_null(scene.engine);
        assert_int_equal(shm_place_count(&scene.place), 0);
        assert_int_equal(process_files(), files);
    }
    create(&scene);
    files = process_files();
    for (size_t failing = 1; failing <= 2; failing++) {
        count_attach(&scene, failing, &status);
        assert_int_equal(status, EPLB_NO_MEMORY);
        assert_null(scene.worker);
        assert_int_equal(process_files(), files);
    }
    /* None of these attempts has taken the end. */
    all = count_attach(&scene, 0, &status);
    assert_int_equal(status, EPLB_OK);
    assert_int_equal(all, 2);
    close_scene(&scene);
}

static void forwards_allocate_nothing(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    create(&scene);
    attach(&scene);
    allocations_reset(0);
    for (uint64_t seq = 1; seq <= 200; seq++)
        pass_forward(&scene, seq);
    eplb_channel_beat(scene.worker);
    eplb_channel_wake(scene.engine);
    assert_int_equal(eplb_channel_engine_lives(scene.worker), 1);
    assert_int_equal(allocations_counted(), 0);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_is_one_segment),
        cmocka_unit_test(a_channel_may_carry_commands_alone),
        cmocka_unit_test(channels_of_a_run_share_its_generation),
        cmocka_unit_test(wrong_parameters_are_refused),
        cmocka_unit_test(what_cannot_be_reserved_is_refused),
        cmocka_unit_test(a_living_engine_keeps_its_name),
        cmocka_unit_test(a_worker_that_does_not_belong_is_refused),
        cmocka_unit_test(a_head_without_sense_is_refused),
        cmocka_unit_test(a_spin_is_no_longer_than_the_wait),
        cmocka_unit_test(a_handler_may_wake),
        cmocka_unit_test(the_end_of_the_engine_is_seen),
        cmocka_unit_test(a_channel_made_again_is_empty),
        cmocka_unit_test(a_lack_of_memory_leaves_nothing),
        cmocka_unit_test(forwards_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
