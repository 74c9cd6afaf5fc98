/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Plays a story and compares what happens with what the file says. With UPDATE=1 in the environment
 * the file is rewritten instead, for a person to read the difference before it is committed.
 *
 *     story FILE.story                  succeeds when the file is what happens
 *     story --planted=BUG FILE.story    succeeds when it is not: the story shows the bug
 *
 * script.h tells the language.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/planted.h"
#include "protocol/script.h"

enum { FILE_BYTES = TRACE_BYTES };

static void read_file(const char *path, char text[FILE_BYTES])
{
    FILE *file = fopen(path, "r");
    size_t length = file == NULL ? FILE_BYTES : fread(text, 1, FILE_BYTES, file);
    if (file != NULL)
        fclose(file);
    if (length >= FILE_BYTES || length == 0 || text[length - 1] != '\n') {
        fprintf(stderr, "%s: cannot be read, is empty or too long, or has no newline at its end\n", path);
        exit(2);
    }
    text[length] = '\0';
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        fprintf(stderr, "%s: cannot be written\n", path);
        exit(2);
    }
    printf("%s: rewritten\n", path);
}

/** Plays every line that is not a result, and leaves the whole as it should stand in the trace. */
static void play(struct world *world, const char *path, const char *text)
{
    char line[TRACE_LINE];
    for (int number = 1; *text != '\0'; number++) {
        size_t length = strcspn(text, "\n");
        if (length >= sizeof line) {
            fprintf(stderr, "%s:%d: the line is too long\n", path, number);
            exit(2);
        }
        memcpy(line, text, length);
        line[length] = '\0';
        text += length + 1;
        if (line[0] == '>')
            continue;
        trace_copy(&world->trace, line);
        const char *wrong = line[0] == '#' ? NULL : script_do(world, line);
        if (wrong != NULL) {
            fprintf(stderr, "%s:%d: %s: %s\n", path, number, wrong, line);
            exit(2);
        }
    }
}

static void say_difference(const char *path, const char *expected, const char *now)
{
    int number = 1;
    size_t start = 0;
    for (size_t i = 0; expected[i] == now[i] && expected[i] != '\0'; i++)
        if (expected[i] == '\n') {
            number++;
            start = i + 1;
        }
    printf("%s:%d: the story goes another way (- expected, + now):\n-%.*s\n+%.*s\n", path, number,
           (int)strcspn(expected + start, "\n"), expected + start, (int)strcspn(now + start, "\n"),
           now + start);
    printf("If the change is meant: UPDATE=1 ctest -L protocol, then read the difference.\n");
}

static bool plant(const char *name)
{
#if EPLB_TEST_BUILD
    static const char *const names[] = {
#define BUG_NAME(bug, text) #bug,
        EPLB_PLANTED_BUGS(BUG_NAME)
#undef BUG_NAME
    };
    for (int i = 0; i < EPLB_NUM_PLANTED_BUGS; i++)
        if (strcmp(names[i], name) == 0)
            return eplb_planted[i] = true;
#endif
    fprintf(stderr, "there is no planted bug '%s' in this build\n", name);
    return false;
}

int main(int argc, char **argv)
{
    static const char option[] = "--planted=";
    static char expected[FILE_BYTES];
    bool planted = argc == 3 && strncmp(argv[1], option, strlen(option)) == 0;
    if (argc != 2 && !planted) {
        fprintf(stderr, "usage: story [--planted=BUG] FILE.story\n");
        return 2;
    }
    if (planted && !plant(argv[1] + strlen(option)))
        return 2;
    const char *path = argv[argc - 1];
    read_file(path, expected);
    struct world *world = script_open();
    play(world, path, expected);
    bool same = strcmp(expected, world->trace.text) == 0;
    const char *update_wanted = getenv("UPDATE");
    bool update = !planted && update_wanted != NULL && strcmp(update_wanted, "1") == 0;
    if (planted && same)
        printf("%s: the planted bug changes nothing in this story\n", path);
    if (!same && update)
        write_file(path, world->trace.text);
    else if (!same)
        say_difference(path, expected, world->trace.text);
    script_close(world);
    return planted ? same : !same && !update;
}
