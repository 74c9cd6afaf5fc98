/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb shm` over segments that the library has made: living ones and dead ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/place.h"
#include "eplb/channel.h"
#include "support/unprivileged.h"

static struct eplb_shm *join_group(const struct place *place, const char *instance, uint64_t generation,
                                   int32_t rank)
{
    struct eplb_shm_attach_params params;
    struct eplb_shm *shm;
    struct eplb_error error;
    eplb_shm_attach_params_init(&params);
    params.instance_name = instance;
    params.directory = place->directory;
    params.generation = generation;
    params.rank = rank;
    if (eplb_shm_attach(&params, &shm, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return shm;
}

static struct eplb_channel *make_channel(const struct place *place, const char *instance, int32_t rank)
{
    struct eplb_channel_params params;
    struct eplb_channel *channel;
    struct eplb_error error;
    eplb_channel_params_init(&params);
    params.instance_name = instance;
    params.directory = place->directory;
    assert_int_equal(eplb_shape_init(&params.shape, 2, 12, 4, 1, NULL), EPLB_OK);
    params.ep_rank = rank;
    params.max_input_bytes = 100;
    params.max_result_bytes = 50;
    params.setup = "abc";
    params.setup_bytes = 3;
    if (eplb_channel_create(&params, &channel, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return channel;
}

static struct eplb_channel *join_channel(const struct place *place, const char *instance, int32_t rank)
{
    struct eplb_channel_attach_params params;
    struct eplb_channel *channel;
    struct eplb_error error;
    eplb_channel_attach_params_init(&params);
    params.instance_name = instance;
    params.directory = place->directory;
    params.generation = 1;
    params.ep_rank = rank;
    if (eplb_channel_attach(&params, &channel, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return channel;
}

/* ---- nothing ---- */

static void nothing_there(void **state)
{
    (void)state;
    struct place place;
    char text[MAX_TEXT];
    char list[MAX_TEXT];
    place_begin(&place);
    snprintf(text, sizeof text, "eplb: no segment of this user in %s\n", place.directory);
    place_expect(&place, WORDS("ls"), 0, "", text);
    snprintf(list, sizeof list,
             "{\n\"format\": \"eplb-shm-list-1\",\n\"directory\": \"%s\",\n\"segments\": []\n}\n",
             place.directory);
    place_expect(&place, WORDS("ls", "--json"), 0, list, text);
    snprintf(text, sizeof text, "eplb: no segment of this user and instance blue in %s\n", place.directory);
    place_expect(&place, WORDS("ls", "--instance_name=blue"), 0, "", text);
    snprintf(text, sizeof text, "eplb: no dead segment of this user in %s\n", place.directory);
    place_expect(&place, WORDS("clean"), 0, "", text);
    snprintf(text, sizeof text, "eplb: there is no segment 'demo.group' in %s (see eplb shm ls)\n",
             place.directory);
    place_expect(&place, WORDS("inspect", "demo.group"), 2, "", text);
    /* Nothing was made by looking, not even the lock's file. */
    assert_int_equal(rmdir(place.directory), 0);
    snprintf(text, sizeof text,
             "eplb: the directory of shared memory cannot be read: No such file or directory: %s\n",
             place.directory);
    place_expect(&place, WORDS("ls"), 1, "", text);
    place_expect(&place, WORDS("clean"), 1, "", text);
}

static void a_directory_that_may_not_be_read(void **state)
{
    (void)state;
    struct place place;
    char text[MAX_TEXT];
    place_begin(&place);
    assert_int_equal(chmod(place.directory, 0), 0);
    unprivileged_begin();
    snprintf(text, sizeof text,
             "eplb: the directory of shared memory cannot be read: Permission denied: %s\n", place.directory);
    place_expect(&place, WORDS("ls"), 1, "", text);
    place_expect(&place, WORDS("clean"), 1, "", text);
    unprivileged_end();
    assert_int_equal(chmod(place.directory, 0700), 0);
    place_end(&place);
}

/* ---- ls and clean ---- */

#define HEADINGS "instance part kind state generation bytes owner name\n"
#define STRANGE \
    "eplb.%u.strange has 1 bytes, expected at least the 4096 of a header; once nothing uses it: rm %s\n"

static void ls_names_everything(void **state)
{
    (void)state;
    struct place place;
    char expected[MAX_TEXT];
    char errors[MAX_TEXT];
    unsigned uid = geteuid();
    place_begin(&place);
    struct eplb_shm *group = place_make_group(&place, "blue");
    struct eplb_channel *channel = make_channel(&place, "blue", 2);
    pid_t maker = place_leave_dead(&place, "green");
    place_write(&place, "strange", "x", 1);
    snprintf(expected, sizeof expected,
             HEADINGS "blue group group live 1 %lld %d (alive) eplb.%u.blue.group\n"
                      "blue rank2 channel live 2 %lld %d (alive) eplb.%u.blue.rank2\n"
                      "green group group dead 3 %lld %d (gone) eplb.%u.green.group\n"
                      "- - - foreign - 1 - eplb.%u.strange\n",
             place_size_of(&place, "blue.group"), getpid(), uid, place_size_of(&place, "blue.rank2"),
             getpid(), uid, place_size_of(&place, "green.group"), maker, uid, uid);
    snprintf(errors, sizeof errors, "eplb: " STRANGE, uid, place_path(&place, "strange").text);
    place_expect(&place, WORDS("ls"), 0, expected, errors);
    snprintf(expected, sizeof expected,
             HEADINGS "green group group dead 3 %lld %d (gone) eplb.%u.green.group\n",
             place_size_of(&place, "green.group"), maker, uid);
    place_expect(&place, WORDS("ls", "--instance_name=green"), 0, expected, "");
    eplb_channel_destroy(channel);
    eplb_shm_destroy(group);
    place_end(&place);
}

static void clean_removes_the_dead_alone(void **state)
{
    (void)state;
    struct place place;
    char expected[MAX_TEXT];
    char errors[MAX_TEXT];
    place_begin(&place);
    struct eplb_shm *group = place_make_group(&place, "blue");
    (void)place_leave_dead(&place, "green");
    (void)place_leave_dead(&place, "red");
    place_write(&place, "strange", "x", 1);
    snprintf(expected, sizeof expected, "%s\n", place_path(&place, "red.group").text);
    place_expect(&place, WORDS("clean", "--instance_name=red"), 0, expected,
                 "eplb: removed 1 dead segment\n");
    assert_false(place_has(&place, "red.group"));
    assert_true(place_has(&place, "green.group"));
    snprintf(expected, sizeof expected, "%s\n", place_path(&place, "green.group").text);
    snprintf(errors, sizeof errors,
             "eplb: left: %s is live, process %d (alive) owns it\neplb: left: " STRANGE
             "eplb: removed 1 dead segment\n",
             place_path(&place, "blue.group").text, getpid(), geteuid(), place_path(&place, "strange").text);
    place_expect(&place, WORDS("clean"), 0, expected, errors);
    assert_false(place_has(&place, "green.group"));
    assert_true(place_has(&place, "strange"));
    /* The living one can still be joined. */
    struct eplb_shm *joined = join_group(&place, "blue", 1, 0);
    eplb_shm_destroy(joined);
    eplb_shm_destroy(group);
    assert_false(place_has(&place, "blue.group"));
    place_end(&place);
}

/* To one file they come in the order in which they were said. */
static void clean_tells_in_order(void **state)
{
    (void)state;
    struct place place;
    char expected[MAX_TEXT];
    char file[] = "clean_tells_in_order.txt";
    place_begin(&place);
    (void)place_leave_dead(&place, "blue");
    place_write(&place, "strange", "x", 1);
    FILE *both = fopen(file, "w");
    assert_non_null(both);
    const char *const arguments[] = {"shm", "clean", place.flag, NULL};
    int status;
    pid_t child = command_start(arguments, fileno(both), fileno(both), -1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fclose(both);
    snprintf(expected, sizeof expected, "%s\neplb: left: " STRANGE "eplb: removed 1 dead segment\n",
             place_path(&place, "blue.group").text, geteuid(), place_path(&place, "strange").text);
    char *told = command_read_file(file);
    assert_string_equal(told, expected);
    free(told);
    assert_int_equal(unlink(file), 0);
    place_end(&place);
}

static void the_list_as_json(void **state)
{
    (void)state;
    struct place place;
    place_begin(&place);
    struct eplb_channel *channel = make_channel(&place, "blue", 1);
    place_write(&place, "strange.\xff", "", 0);
    json_t *root = place_json(&place, WORDS("ls", "--json"));
    json_t *segments = json_object_get(root, "segments");
    assert_int_equal(json_array_size(segments), 2);
    json_t *expected =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:i, s:i, s:s}", "path",
                  place_path(&place, "blue.rank1").text, "instance", "blue", "part", "rank1", "state", "live",
                  "file_bytes", (json_int_t)place_size_of(&place, "blue.rank1"), "kind", "channel",
                  "generation", 1, "owner_pid", getpid(), "owner_seen", "alive");
    assert_true(json_equal(json_array_get(segments, 0), expected));
    const json_t *foreign = json_array_get(segments, 1);
    assert_string_equal(json_text_of(foreign, "state"), "foreign");
    assert_string_equal(json_text_of(foreign, "path"), place_path(&place, "strange.?").text);
    assert_non_null(strstr(json_text_of(foreign, "why"), " is empty, expected a segment"));
    assert_null(json_object_get(foreign, "kind"));
    json_decref(expected);
    json_decref(root);
    eplb_channel_destroy(channel);
    place_end(&place);
}

/* ---- inspect ---- */

static void check_ranks(const json_t *root)
{
    const json_t *ranks = json_object_get(root, "ranks");
    assert_int_equal(json_array_size(ranks), NUM_RANKS);
    for (size_t rank = 0; rank < NUM_RANKS; rank++) {
        const json_t *one = json_array_get(ranks, rank);
        assert_int_equal(json_number_of(one, "claimed_by"), rank == 1 ? getpid() : 0);
        assert_string_equal(json_text_of(one, "dead"), rank == 2 ? "yes" : "no");
        assert_string_equal(json_text_of(one, "voted_yes"), rank == 1 ? "yes" : "no");
        assert_int_equal(json_number_of(one, "sleepers"), 0);
    }
}

static void check_group_header(const json_t *root, const struct place *place)
{
    const json_t *header = json_object_get(root, "header");
    assert_string_equal(json_text_of(root, "path"), place_path(place, "blue.group").text);
    assert_string_equal(json_text_of(root, "state"), "live");
    assert_string_equal(json_text_of(root, "kind"), "group");
    assert_string_equal(json_text_of(root, "owner_lock"), "held");
    assert_string_equal(json_text_of(root, "owner_process"), "alive");
    assert_string_equal(json_text_of(header, "magic"), "0x004d4853424c5045");
    assert_int_equal(json_number_of(header, "version"), 2);
    assert_int_equal(json_number_of(header, "kind"), 1);
    assert_int_equal(json_number_of(header, "payload_bytes"), place_size_of(place, "blue.group") - 4096);
    assert_int_equal(json_number_of(header, "generation"), 1);
    assert_int_equal(json_number_of(header, "owner_pid"), getpid());
    const json_t *lock = json_object_get(root, "generation_lock");
    assert_string_equal(json_text_of(lock, "path"), place_path(place, "lock").text);
    assert_int_equal(json_number_of(lock, "version"), 2);
    assert_int_equal(json_number_of(lock, "generation"), 1);
    assert_int_equal(json_number_of(lock, "holder_pid"), 0);
}

static void a_group_is_inspected(void **state)
{
    (void)state;
    struct place place;
    place_begin(&place);
    struct eplb_shm *group = place_make_group(&place, "blue");
    struct eplb_shm *joined = join_group(&place, "blue", 1, 1);
    const struct eplb_group *engine = eplb_shm_group(group);
    const struct eplb_group *rank = eplb_shm_group(joined);
    struct eplb_activation_token token = {(UINT64_C(1) << 32) + 7};
    engine->record_open(engine->self, token);
    rank->record_vote(rank->self, token, 1);
    engine->member_dead(engine->self, 2);
    json_t *root = place_json(&place, WORDS("inspect", "blue.group", "--json"));
    check_group_header(root, &place);
    check_ranks(root);
    const json_t *payload = json_object_get(root, "group");
    assert_int_equal(json_number_of(payload, "num_ranks"), NUM_RANKS);
    assert_int_equal(json_number_of(payload, "max_ops"), 4);
    assert_int_equal(json_number_of(payload, "transfer_ring_bytes"), 256);
    assert_int_equal(json_number_of(payload, "collective_ring_bytes"), 512);
    assert_int_equal(json_number_of(payload, "decision_token"), token.value);
    assert_string_equal(json_text_of(payload, "decision"), "undecided");
    assert_int_equal(json_number_of(payload, "deaths"), 1);
    json_decref(root);
    engine->record_abort(engine->self, token);
    root = place_json(&place, WORDS("inspect", "blue.group", "--json"));
    assert_string_equal(json_text_of(json_object_get(root, "group"), "decision"), "abort");
    json_decref(root);
    eplb_shm_destroy(joined);
    eplb_shm_destroy(group);
    place_end(&place);
}

static void check_channel(const json_t *root)
{
    const json_t *channel = json_object_get(root, "channel");
    assert_int_equal(json_number_of(channel, "num_layers"), 2);
    assert_int_equal(json_number_of(channel, "num_experts"), 12);
    assert_int_equal(json_number_of(channel, "ep_size"), 4);
    assert_int_equal(json_number_of(channel, "redundant_experts_num"), 1);
    assert_int_equal(json_number_of(channel, "ep_rank"), 3);
    assert_int_equal(json_number_of(channel, "depth"), 2);
    assert_int_equal(json_number_of(channel, "max_input_bytes"), 100);
    assert_int_equal(json_number_of(channel, "max_result_bytes"), 50);
    assert_int_equal(json_number_of(channel, "setup_bytes"), 3);
    assert_int_equal(json_number_of(channel, "claimed_by"), getpid());
    assert_int_equal(json_number_of(channel, "beats"), 1);
    assert_int_equal(json_number_of(channel, "submitted"), 2);
    assert_int_equal(json_number_of(channel, "replied"), 0);
    assert_int_equal(json_number_of(json_object_get(root, "worker_seat"), "bell"), 2);
    assert_int_equal(json_number_of(json_object_get(root, "engine_seat"), "bell"), 0);
}

/** Two forwards under way, one beat. */
static void keep_busy(struct eplb_channel *engine, struct eplb_channel *worker)
{
    struct eplb_command command;
    for (uint64_t seq = 5; seq <= 6; seq++) {
        eplb_command_init(&command, seq);
        assert_int_equal(eplb_channel_submit(engine, &command, "in", 2, NULL), EPLB_OK);
    }
    eplb_channel_beat(worker);
}

static void a_channel_is_inspected_and_not_disturbed(void **state)
{
    (void)state;
    struct place place;
    place_begin(&place);
    struct eplb_channel *engine = make_channel(&place, "blue", 3);
    struct eplb_channel *worker = join_channel(&place, "blue", 3);
    struct path path = place_path(&place, "blue.rank3");
    keep_busy(engine, worker);
    char *before = command_read_file(path.text);
    json_t *root = place_json(&place, WORDS("inspect", "--json", path.text));
    char *after = command_read_file(path.text);
    check_channel(root);
    json_decref(root);
    assert_memory_equal(before, after, (size_t)place_size_of(&place, "blue.rank3"));
    free(before);
    free(after);
    struct eplb_channel_request request;
    int arrived = 0;
    assert_int_equal(eplb_channel_receive(worker, 0, &request, &arrived, NULL), EPLB_OK);
    assert_int_equal(arrived, 1);
    assert_int_equal(request.command.seq, 5);
    eplb_channel_destroy(worker);
    eplb_channel_destroy(engine);
    place_end(&place);
}

static void lines_have_offsets(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "state dead",
        "header, at 0",
        "group, the payload, at 4096",
        "owner_lock free",
        "owner_process gone",
        "0 magic 0x004d4853424c5045",
        "8 version 2",
        "12 kind 1",
        "24 generation 1",
        "0 num_ranks 3",
        "4 max_ops 4",
        "16 collective_ring_bytes 512",
        "128 decision none",
        "192 barrier_arrivals 0",
        "384 [0] claimed_by 0, dead no, voted_yes no, bell 0, sleepers 0, wants 0",
        "512 [2] claimed_by 0, dead no, voted_yes no, bell 0, sleepers 0, wants 0",
    };
    struct place place;
    char line[MAX_TEXT];
    struct command_run done;
    place_begin(&place);
    pid_t maker = place_leave_dead(&place, "blue");
    place_run(&done, &place, WORDS("inspect", "blue.group"));
    assert_int_equal(done.exit_code, 0);
    assert_string_equal(done.errors, "");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect_line(done.output, lines[i]);
    snprintf(line, sizeof line, "32 owner_pid %d", maker);
    expect_line(done.output, line);
    command_free(&done);
    place_end(&place);
}

static void segments_are_named_in_three_ways(void **state)
{
    (void)state;
    struct place place;
    place_begin(&place);
    (void)place_leave_dead(&place, "blue");
    struct path path = place_path(&place, "blue.group");
    const char *const operands[] = {path.text, strrchr(path.text, '/') + 1, "blue.group"};
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++) {
        json_t *root = place_json(&place, WORDS("inspect", "--json", operands[i]));
        assert_string_equal(json_text_of(root, "path"), path.text);
        json_decref(root);
    }
    json_t *root = place_json(&place, WORDS("inspect", "--json", "lock"));
    assert_int_equal(json_number_of(json_object_get(root, "generation_lock"), "generation"), 1);
    json_decref(root);
    place_end(&place);
}

static void names_that_are_not_clear_are_refused(void **state)
{
    (void)state;
    struct place place;
    char errors[MAX_TEXT];
    place_begin(&place);
    (void)place_leave_dead(&place, "blue");
    struct path path = place_path(&place, "blue.group");
    const char *name = strrchr(path.text, '/') + 1;
    struct path twice = place_path(&place, name);
    place_write(&place, name, "", 0);
    snprintf(errors, sizeof errors, "eplb: '%s' may be %s or %s; write one of these paths\n", name, path.text,
             twice.text);
    place_expect(&place, WORDS("inspect", name), 2, "", errors);
    struct path gone = place_path(&place, "green.group");
    snprintf(errors, sizeof errors, "eplb: there is no segment %s\n", gone.text);
    place_expect(&place, WORDS("inspect", gone.text), 2, "", errors);
    /* Of what is no segment's nothing is said, least of all how to remove it. */
    snprintf(errors, sizeof errors,
             "eplb: /etc/passwd is no name of this user's shared memory; those begin with eplb.%u.\n",
             geteuid());
    place_expect(&place, WORDS("inspect", "/etc/passwd"), 2, "", errors);
    place_end(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(a_directory_that_may_not_be_read),
        cmocka_unit_test(ls_names_everything),
        cmocka_unit_test(clean_removes_the_dead_alone),
        cmocka_unit_test(clean_tells_in_order),
        cmocka_unit_test(the_list_as_json),
        cmocka_unit_test(a_group_is_inspected),
        cmocka_unit_test(a_channel_is_inspected_and_not_disturbed),
        cmocka_unit_test(lines_have_offsets),
        cmocka_unit_test(segments_are_named_in_three_ways),
        cmocka_unit_test(names_that_are_not_clear_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
