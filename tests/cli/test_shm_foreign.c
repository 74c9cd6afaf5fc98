/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb shm` over what is of another layout, damaged, or held: it is said, and left.
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
#include <unistd.h>

#include "cli/place.h"
#include "shm/layout.h"
#include "shm/lock.h"

enum { PAYLOAD = 2 * EPLB_SEGMENT_ALIGN };

/* ---- of another layout ---- */

/** A segment whose owner is dead, as bytes. */
struct image {
    struct eplb_segment_header header;
    unsigned char payload[PAYLOAD];
};

static void make_image(struct image *image)
{
    memset(image, 0x5a, sizeof *image);
    image->header = (struct eplb_segment_header){.magic = EPLB_SEGMENT_MAGIC,
                                                 .version = EPLB_SEGMENT_VERSION,
                                                 .kind = EPLB_SEGMENT_GROUP,
                                                 .payload_bytes = PAYLOAD,
                                                 .generation = 9,
                                                 .owner_pid = 1};
}

/** What is wrong with it, how many bytes of it there are, and what is said of that. */
struct damage {
    const char *name;
    size_t offset; /* of what is changed */
    uint64_t value;
    size_t value_bytes;
    size_t file_bytes;
    const char *found;
};

#define AT(member) offsetof(struct eplb_segment_header, member)
#define ALL (EPLB_SEGMENT_ALIGN + PAYLOAD)
#define OTHERS ": an eplb of another version made it"

static const struct damage damages[] = {
    {"empty", 0, 0, 0, 0, "is empty, expected a segment of layout version 2"},
    {"short", 0, 0, 0, 100, "has 100 bytes, expected at least the 4096 of a header"},
    {"magic", AT(magic), UINT64_C(0x1122334455667788), 8, ALL,
     "has magic 1122334455667788, expected 004d4853424c5045"},
    {"older", AT(version), 1, 4, ALL, "is of layout version 1, expected 2" OTHERS},
    {"newer", AT(version), 3, 4, ALL, "is of layout version 3, expected 2" OTHERS},
    {"kind", AT(kind), 7, 4, ALL, "has a payload of kind 7, expected 1 or 2"},
    {"truncated", 0, 0, 0, ALL - EPLB_SEGMENT_ALIGN,
     "has a payload of 8192 bytes by its header, expected 4096 by its size"},
    {"longer", AT(payload_bytes), PAYLOAD - EPLB_SEGMENT_ALIGN, 8, ALL,
     "has a payload of 4096 bytes by its header, expected 8192 by its size"},
    {"generation", AT(generation), 0, 8, ALL, "has generation 0, expected 1 or more"},
};

enum { NUM_DAMAGES = sizeof damages / sizeof damages[0] };

static void check_sentences(const struct place *place, const struct damage *damage)
{
    char sentence[MAX_TEXT];
    struct command_run done;
    snprintf(sentence, sizeof sentence, "eplb: eplb.%u.%s %s; once nothing uses it: rm %s\n", geteuid(),
             damage->name, damage->found, place_path(place, damage->name).text);
    place_run(&done, place, WORDS("inspect", damage->name));
    assert_string_equal(done.errors, sentence);
    assert_int_equal(done.exit_code, 6);
    expect_line(done.output, "state foreign");
    command_free(&done);
    place_run(&done, place, WORDS("inspect", damage->name, "--json"));
    assert_string_equal(done.errors, sentence);
    assert_int_equal(done.exit_code, 6);
    json_t *root = json_loads(done.output, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_text_of(root, "state"), "foreign");
    assert_int_equal(json_object_get(root, "header") != NULL, damage->file_bytes > 0);
    json_decref(root);
    command_free(&done);
}

/** A damaged file as it was before anybody looked at it. */
struct original {
    struct stat info;
    char *bytes;
};

static void check_unchanged(const struct place *place, const struct damage *damage,
                            const struct original *original)
{
    struct stat info;
    struct path path = place_path(place, damage->name);
    char *bytes = command_read_file(path.text);
    assert_int_equal(stat(path.text, &info), 0);
    assert_int_equal(info.st_size, damage->file_bytes);
    assert_int_equal(info.st_ino, original->info.st_ino);
    assert_int_equal(info.st_mode, original->info.st_mode);
    assert_int_equal(info.st_mtim.tv_sec, original->info.st_mtim.tv_sec);
    assert_int_equal(info.st_mtim.tv_nsec, original->info.st_mtim.tv_nsec);
    assert_memory_equal(bytes, original->bytes, damage->file_bytes);
    free(bytes);
}

static void what_is_foreign_is_shown_and_left(void **state)
{
    (void)state;
    struct place place;
    static struct image image;
    struct original originals[NUM_DAMAGES];
    struct command_run done;
    place_begin(&place);
    for (size_t i = 0; i < NUM_DAMAGES; i++) {
        const struct damage *damage = &damages[i];
        struct path path = place_path(&place, damage->name);
        make_image(&image);
        memcpy((char *)&image + damage->offset, &damage->value, damage->value_bytes);
        place_write(&place, damage->name, &image, damage->file_bytes);
        assert_int_equal(stat(path.text, &originals[i].info), 0);
        originals[i].bytes = command_read_file(path.text);
    }
    for (size_t i = 0; i < NUM_DAMAGES; i++)
        check_sentences(&place, &damages[i]);
    place_run(&done, &place, WORDS("clean"));
    assert_int_equal(done.exit_code, 0);
    assert_string_equal(done.output, "");
    for (size_t i = 0; i < NUM_DAMAGES; i++) {
        assert_non_null(strstr(done.errors, damages[i].found));
        check_unchanged(&place, &damages[i], &originals[i]);
        free(originals[i].bytes);
    }
    command_free(&done);
    place_end(&place);
}

/** The header is in order, the payload is not: the segment is dead, and what it holds cannot be told. */
static void a_payload_that_makes_no_sense(void **state)
{
    (void)state;
    static const struct {
        enum eplb_segment_kind kind;
        const char *found;
    } cases[] = {
        {EPLB_SEGMENT_GROUP, "group is damaged: a group's num_ranks is 1515870810; allowed is 1 to 65536"},
        {EPLB_SEGMENT_CHANNEL, "channel is damaged: a channel's depth is 1515870810; this library's is 2"},
    };
    struct place place;
    static struct image image;
    place_begin(&place);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct command_run done;
        char sentence[MAX_TEXT];
        make_image(&image);
        image.header.kind = cases[i].kind;
        place_write(&place, "blue.group", &image, sizeof image);
        place_run(&done, &place, WORDS("inspect", "blue.group"));
        snprintf(sentence, sizeof sentence, "eplb: the head of a %s; once nothing uses it: rm %s\n",
                 cases[i].found, place_path(&place, "blue.group").text);
        assert_string_equal(done.errors, sentence);
        assert_int_equal(done.exit_code, 6);
        expect_line(done.output, "state dead");
        command_free(&done);
    }
    place_end(&place);
}

/* ---- the generation lock ---- */

static void a_holder_that_does_not_let_go_is_named(void **state)
{
    (void)state;
    struct place place;
    struct eplb_shm_lock lock;
    char errors[MAX_TEXT];
    place_begin(&place);
    (void)place_leave_dead(&place, "blue");
    assert_int_equal(eplb_shm_lock_take(place.directory, &lock, NULL), EPLB_OK);
    /* Looking waits for nobody. */
    json_t *root = place_json(&place, WORDS("inspect", "blue.group", "--json"));
    assert_string_equal(json_text_of(root, "state"), "dead");
    json_decref(root);
    snprintf(
        errors, sizeof errors,
        "eplb: process %d has not let go of the lock of shared memory for 5000 ms (is it stopped?): %s\n",
        getpid(), place_path(&place, "lock").text);
    place_expect(&place, WORDS("clean"), 5, "", errors);
    eplb_shm_lock_release(&lock);
    assert_true(place_has(&place, "blue.group"));
    place_end(&place);
}

static void a_foreign_lock_file_is_left(void **state)
{
    (void)state;
    struct place place;
    char errors[MAX_TEXT];
    struct command_run done;
    place_begin(&place);
    (void)place_leave_dead(&place, "blue");
    place_write(&place, "lock", "locked", 6);
    struct path path = place_path(&place, "lock");
    snprintf(errors, sizeof errors,
             "eplb: eplb.%u.lock has 6 bytes, expected 64; once nothing uses it: rm %s\n", geteuid(),
             path.text);
    place_expect(&place, WORDS("clean"), 6, "", errors);
    place_run(&done, &place, WORDS("inspect", "blue.group"));
    assert_int_equal(done.exit_code, 0);
    expect_line(done.output, "file_bytes 6");
    command_free(&done);
    const char *const words[][4] = {{"inspect", "lock", NULL}, {"inspect", "lock", "--json", NULL}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        place_run(&done, &place, words[i]);
        assert_int_equal(done.exit_code, 6);
        assert_string_equal(done.errors, errors);
        assert_non_null(strstr(done.output, "file_bytes"));
        command_free(&done);
    }
    char *content = command_read_file(path.text);
    assert_string_equal(content, "locked");
    free(content);
    place_end(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_foreign_is_shown_and_left),
        cmocka_unit_test(a_payload_that_makes_no_sense),
        cmocka_unit_test(a_holder_that_does_not_let_go_is_named),
        cmocka_unit_test(a_foreign_lock_file_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
