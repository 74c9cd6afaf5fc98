/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 8 };

void place_begin(struct place *place)
{
    snprintf(place->directory, sizeof place->directory, "/dev/shm/eplb-cli-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    snprintf(place->flag, sizeof place->flag, "--shm_directory=%s", place->directory);
}

void place_end(const struct place *place)
{
    char line[128];
    snprintf(line, sizeof line, "rm -r %s", place->directory);
    assert_int_equal(system(line), 0);
}

struct path place_path(const struct place *place, const char *rest)
{
    struct path path;
    snprintf(path.text, sizeof path.text, "%s/eplb.%u.%s", place->directory, geteuid(), rest);
    return path;
}

/** Copies text with one blank for several, and none at the start of a line. */
static void squeeze(const char *text, char squeezed[MAX_TEXT])
{
    size_t length = 0;
    for (; *text != '\0'; text++) {
        bool after_blank = length == 0 || squeezed[length - 1] == ' ' || squeezed[length - 1] == '\n';
        if (*text == ' ' && after_blank)
            continue;
        assert_true(length + 1 < MAX_TEXT);
        squeezed[length++] = *text;
    }
    squeezed[length] = '\0';
}

void place_run(struct command_run *done, const struct place *place, const char *const *words)
{
    const char *arguments[MAX_WORDS] = {"shm"};
    size_t count = 1;
    for (; words[count - 1] != NULL; count++) {
        assert_true(count + 2 < MAX_WORDS);
        arguments[count] = words[count - 1];
    }
    arguments[count] = place->flag;
    command_run(arguments, done);
}

void place_expect(const struct place *place, const char *const *words, int exit_code, const char *output,
                  const char *errors)
{
    struct command_run done;
    char squeezed[MAX_TEXT];
    place_run(&done, place, words);
    squeeze(done.output, squeezed);
    assert_string_equal(squeezed, output);
    assert_string_equal(done.errors, errors);
    assert_int_equal(done.exit_code, exit_code);
    command_free(&done);
}

struct eplb_shm *place_make_group(const struct place *place, const char *instance)
{
    struct eplb_shm_params params;
    struct eplb_shm *shm;
    struct eplb_error error;
    eplb_shm_params_init(&params);
    params.instance_name = instance;
    params.directory = place->directory;
    params.num_ranks = NUM_RANKS;
    params.max_ops = 4;
    params.transfer_ring_bytes = 256;
    params.collective_ring_bytes = 512;
    if (eplb_shm_create(&params, &shm, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return shm;
}

pid_t place_leave_dead(const struct place *place, const char *instance)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)place_make_group(place, instance);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return child;
}

void place_write(const struct place *place, const char *rest, const void *bytes, size_t size)
{
    struct path path = place_path(place, rest);
    command_write_file(path.text, bytes, size);
    assert_int_equal(chmod(path.text, 0600), 0);
}

long long place_size_of(const struct place *place, const char *rest)
{
    struct stat info;
    assert_int_equal(stat(place_path(place, rest).text, &info), 0);
    return info.st_size;
}

bool place_has(const struct place *place, const char *rest)
{
    return access(place_path(place, rest).text, F_OK) == 0;
}

json_t *place_json(const struct place *place, const char *const *words)
{
    struct command_run done;
    json_error_t error;
    place_run(&done, place, words);
    json_t *root = json_loads(done.output, JSON_REJECT_DUPLICATES, &error);
    if (done.exit_code != 0 || root == NULL)
        fail_msg("exit code %d, %s: %s%s", done.exit_code, error.text, done.output, done.errors);
    command_free(&done);
    return root;
}

json_int_t json_number_of(const json_t *section, const char *key)
{
    const json_t *value = json_object_get(section, key);
    if (!json_is_integer(value))
        fail_msg("there is no number '%s'", key);
    return json_integer_value(value);
}

const char *json_text_of(const json_t *section, const char *key)
{
    const char *value = json_string_value(json_object_get(section, key));
    if (value == NULL)
        fail_msg("there is no text '%s'", key);
    return value;
}

void expect_line(const char *output, const char *line)
{
    char squeezed[MAX_TEXT];
    char wanted[MAX_TEXT];
    squeeze(output, squeezed);
    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    if (strstr(squeezed, wanted) == NULL)
        fail_msg("there is no line '%s' in:\n%s", line, squeezed);
}
