/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/file.h"
#include "trace/ids_file.h"

enum { LAYERS = 3, TOP_K = 2, EXPERTS = 300, TOKEN_IDS = LAYERS * TOP_K, TOKENS = 20000 };

static char folder[64];
static const int32_t layer_ids[LAYERS] = {1, 4, 9};

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/eplb-test-ids-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

/* Number of names in the folder; with remove they go. */
static int names(int remove)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (remove)
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    }
    closedir(dir);
    return count;
}

static int empty_folder(void **state)
{
    (void)state;
    names(1);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static struct eplb_ids_writer *create(int32_t num_experts, bool is_prefill)
{
    struct eplb_ids_writer *writer = NULL;
    struct eplb_error error = {0};
    struct eplb_ids_writer_params params = {.prefix = in_folder("r"),
                                            .num_layers = LAYERS,
                                            .top_k = TOP_K,
                                            .num_experts = num_experts,
                                            .layer_ids = layer_ids,
                                            .is_prefill = is_prefill};
    if (eplb_ids_writer_create(&params, &writer, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return writer;
}

/* Two different experts for every row, by the number of the row. */
static int32_t *make_tokens(int32_t num_experts, int64_t count)
{
    int32_t *tokens = malloc((size_t)count * TOKEN_IDS * sizeof *tokens);
    assert_non_null(tokens);
    for (int64_t row = 0; row < count * LAYERS; row++) {
        tokens[2 * row] = (int32_t)(row * 7 % num_experts);
        tokens[2 * row + 1] = (tokens[2 * row] + 1 + (int32_t)(row % (num_experts - 1))) % num_experts;
    }
    return tokens;
}

static void append(struct eplb_ids_writer *writer, const int32_t *tokens, int64_t first, int64_t count)
{
    struct eplb_error error = {0};
    if (eplb_ids_writer_append(writer, tokens + first * TOKEN_IDS, count, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void check(const char *name, const int32_t *tokens, int64_t count)
{
    struct eplb_ids ids = {0};
    struct eplb_error error = {0};
    if (eplb_ids_read(in_folder(name), &ids, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    assert_int_equal(ids.num_steps, count);
    assert_int_equal(ids.num_sequences, 1);
    assert_int_equal(ids.num_layers, LAYERS);
    assert_int_equal(ids.top_k, TOP_K);
    assert_memory_equal(ids.layer_ids, layer_ids, sizeof layer_ids);
    assert_int_equal(ids.num_phases, 1);
    assert_string_equal(ids.phases[0].name, EPLB_IDS_WHOLE);
    for (int64_t i = 0; i < count * TOKEN_IDS; i++)
        assert_int_equal(ids.experts[i], tokens[i]);
    eplb_ids_free(&ids);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const int32_t sizes[] = {256, 257};
    static const char *const files[] = {"r.ids.u8", "r.ids.u16"};
    for (int i = 0; i < 2; i++) {
        struct eplb_error error = {0};
        int32_t *tokens = make_tokens(sizes[i], TOKENS);
        struct eplb_ids_writer *writer = create(sizes[i], i == 1);
        append(writer, tokens, 0, 1);
        append(writer, tokens, 1, 0);
        append(writer, tokens, 1, TOKENS - 1); /* several buffers */
        check(files[i], tokens, TOKENS);
        assert_int_equal(eplb_ids_writer_close(writer, &error), EPLB_OK);
        check(files[i], tokens, TOKENS);
        struct eplb_ids ids = {0};
        assert_int_equal(eplb_ids_read(in_folder(files[i]), &ids, &error), EPLB_OK);
        assert_int_equal(ids.num_experts, sizes[i]);
        assert_true(ids.is_prefill == (i == 1));
        eplb_ids_free(&ids);
        free(tokens);
        assert_int_equal(names(1), 2);
    }
}

static void the_sidecar_says_when_it_is_open(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    char *text;
    size_t size;
    int32_t *tokens = make_tokens(EXPERTS, 2);
    struct eplb_ids_writer *writer = create(EXPERTS, false);
    assert_int_equal(eplb_file_read(in_folder("r.json"), &text, &size, &error), EPLB_OK);
    assert_string_equal(text, "{\n"
                              "  \"format\": \"eplb-ids-1\",\n"
                              "  \"axes\": [\"token\", \"layer\", \"k\"],\n"
                              "  \"shape\": [-1, 3, 2],\n"
                              "  \"layer_ids\": [1, 4, 9],\n"
                              "  \"dtype\": \"uint16\",\n"
                              "  \"num_experts\": 300,\n"
                              "  \"top_k\": 2,\n"
                              "  \"kind\": \"decode\"\n"
                              "}\n");
    free(text);
    append(writer, tokens, 0, 2);
    assert_int_equal(eplb_ids_writer_close(writer, &error), EPLB_OK);
    assert_int_equal(eplb_file_read(in_folder("r.json"), &text, &size, &error), EPLB_OK);
    assert_non_null(strstr(text, "\"shape\": [2, 3, 2]"));
    assert_non_null(strstr(text, "\"phases\": [{\"name\": \"all\", \"first\": 0, \"end\": 2}]"));
    free(text);
    free(tokens);
}

/* Six tokens as steps of three sequences; as steps of four they stay tokens. */
static void tokens_become_steps_of_sequences(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    int32_t *tokens = make_tokens(EXPERTS, 6);
    for (int32_t sequences = 3; sequences <= 4; sequences++) {
        struct eplb_ids ids = {0};
        struct eplb_ids_writer *writer = create(EXPERTS, false);
        append(writer, tokens, 0, 6);
        eplb_ids_writer_set_sequences(writer, sequences);
        assert_int_equal(eplb_ids_writer_close(writer, &error), EPLB_OK);
        if (eplb_ids_read(in_folder("r.ids.u16"), &ids, &error) != EPLB_OK)
            fail_msg("%s", error.text);
        assert_true(ids.has_sequences == (sequences == 3));
        assert_int_equal(ids.num_steps, sequences == 3 ? 2 : 6);
        assert_int_equal(ids.num_sequences, sequences == 3 ? 3 : 1);
        assert_int_equal(ids.phases[0].end, ids.num_steps);
        for (size_t i = 0; i < 6 * TOKEN_IDS; i++)
            assert_int_equal(ids.experts[i], tokens[i]);
        eplb_ids_free(&ids);
        assert_int_equal(names(1), 2);
    }
    free(tokens);
}

static void nothing_is_written_over(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    struct eplb_ids_writer *other = NULL;
    int32_t *tokens = make_tokens(EXPERTS, 1);
    struct eplb_ids_writer *writer = create(EXPERTS, false);
    append(writer, tokens, 0, 1);
    /* One of another type has another file of ids, but the same sidecar. */
    for (int32_t experts = 200; experts <= 300; experts += 100) {
        struct eplb_ids_writer_params params = {
            .prefix = in_folder("r"), .num_layers = 1, .top_k = 1, .num_experts = experts};
        assert_int_equal(eplb_ids_writer_create(&params, &other, &error), EPLB_INVALID);
        assert_non_null(strstr(error.text, "/r.json is there already; a recording replaces nothing"));
        assert_null(other);
        assert_int_equal(names(0), 2);
    }
    check("r.ids.u16", tokens, 1);
    assert_int_equal(eplb_ids_writer_close(writer, &error), EPLB_OK);
    /* Ids whose sidecar was lost are kept as well. */
    unlink(in_folder("r.json"));
    struct eplb_ids_writer_params params = {
        .prefix = in_folder("r"), .num_layers = 1, .top_k = 1, .num_experts = 300};
    assert_int_equal(eplb_ids_writer_create(&params, &other, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "/r.ids.u16 is there already"));
    assert_int_equal(names(0), 1);
    free(tokens);
}

static void refuses_name(const char *prefix, const char *sentence)
{
    struct eplb_ids_writer *writer = NULL;
    struct eplb_error error = {0};
    struct eplb_ids_writer_params params = {.prefix = prefix, .num_layers = 1, .top_k = 1, .num_experts = 2};
    assert_int_equal(eplb_ids_writer_create(&params, &writer, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_null(writer);
}

static void names_are_checked(void **state)
{
    (void)state;
    refuses_name("", "a recording has a name: that of its files without .ids.u8 and .json");
    refuses_name("a.ids.u8", "a.ids.u8: the name of a recording is given without .ids.u8 or .ids.u16");
    refuses_name("/nowhere/at/all", "cannot create /nowhere/at/all.json: No such file or directory");
}

static void a_wrong_id_is_refused_with_its_tokens(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    int32_t *tokens = make_tokens(EXPERTS, TOKENS);
    struct eplb_ids_writer *writer = create(EXPERTS, false);
    append(writer, tokens, 0, 5);
    int32_t right = tokens[(TOKENS - 1) * TOKEN_IDS + 3];
    static const int32_t wrong[] = {-1, EXPERTS, 65536, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char sentence[EPLB_ERROR_TEXT];
        snprintf(sentence, sizeof sentence,
                 "%s: token 19999, layer 4, k 1 is expert %d; ids are from 0 to 299: none was written",
                 in_folder("r.ids.u16"), wrong[i]);
        tokens[(TOKENS - 1) * TOKEN_IDS + 3] = wrong[i];
        assert_int_equal(eplb_ids_writer_append(writer, tokens + 5 * TOKEN_IDS, TOKENS - 5, &error),
                         EPLB_INVALID);
        assert_string_equal(error.text, sentence);
    }
    check("r.ids.u16", tokens, 5);
    tokens[(TOKENS - 1) * TOKEN_IDS + 3] = right;
    append(writer, tokens, 5, TOKENS - 5);
    assert_int_equal(eplb_ids_writer_close(writer, &error), EPLB_OK);
    check("r.ids.u16", tokens, TOKENS);
    free(tokens);
}

/* A file that may not grow is what a full disk looks like. */
static void a_full_disk_leaves_whole_tokens(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    struct rlimit before;
    struct rlimit limit;
    int32_t *tokens = make_tokens(EXPERTS, TOKENS);
    struct eplb_ids_writer *writer = create(EXPERTS, false);
    append(writer, tokens, 0, 10);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 10 * TOKEN_IDS * 2 + 70000; /* more than a buffer, and no whole token */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum eplb_status status = eplb_ids_writer_append(writer, tokens + 10 * TOKEN_IDS, TOKENS - 10, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, EPLB_IO);
    assert_non_null(strstr(error.text, "/r.ids.u16: File too large"));
    check("r.ids.u16", tokens, 10);
    append(writer, tokens, 10, TOKENS - 10);
    assert_int_equal(eplb_ids_writer_close(writer, &error), EPLB_OK);
    check("r.ids.u16", tokens, TOKENS);
    free(tokens);
}

static void a_killed_writer_leaves_what_it_wrote(void **state)
{
    (void)state;
    int told[2];
    char byte;
    int32_t *tokens = make_tokens(EXPERTS, 100);
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        append(create(EXPERTS, false), tokens, 0, 100);
        _exit(write(told[1], "x", 1) == 1 ? raise(SIGKILL) : 1);
    }
    assert_true(child > 0);
    assert_int_equal(read(told[0], &byte, 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    check("r.ids.u16", tokens, 100);
    /* The kernel may have taken half of the last write. */
    assert_int_equal(truncate(in_folder("r.ids.u16"), 99 * TOKEN_IDS * 2 + 5), 0);
    check("r.ids.u16", tokens, 99);
    close(told[0]);
    close(told[1]);
    free(tokens);
}

/* Closed without a token: there is nothing to read, and a sentence says so. */
static void an_empty_recording_is_refused(void **state)
{
    (void)state;
    struct eplb_ids ids = {0};
    struct eplb_error error = {0};
    struct eplb_ids_writer *writer = create(EXPERTS, false);
    assert_int_equal(eplb_ids_read(in_folder("r.ids.u16"), &ids, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "r.ids.u16 has 0 whole tokens of 12 bytes"));
    assert_int_equal(eplb_ids_writer_close(writer, &error), EPLB_OK);
    assert_int_equal(eplb_ids_read(in_folder("r.ids.u16"), &ids, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "r.json: shape[0] (token) is 0"));
}

#define IN_FOLDER(test) cmocka_unit_test_teardown(test, empty_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_written_is_read),
        IN_FOLDER(the_sidecar_says_when_it_is_open),
        IN_FOLDER(tokens_become_steps_of_sequences),
        IN_FOLDER(nothing_is_written_over),
        IN_FOLDER(names_are_checked),
        IN_FOLDER(a_wrong_id_is_refused_with_its_tokens),
        IN_FOLDER(a_full_disk_leaves_whole_tokens),
        IN_FOLDER(a_killed_writer_leaves_what_it_wrote),
        IN_FOLDER(an_empty_recording_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
